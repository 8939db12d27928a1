// No step is shorter than its bytes take on the wire, whatever the rate of the NICs.

#include <algorithm>
#include <filesystem>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

/// Seconds that the busiest GPU's bytes of one axis need on its links, the largest over axes. The bytes are counted from
/// the step graph (axis_bandwidth.hpp), not taken from the network that is tested.
double wire_seconds(const Forecast& forecast) {
  double longest = 0;
  for (const AxisBandwidth& row : forecast.bandwidth)
    longest = std::max(longest, row.available > 0 ? row.sent_bytes / row.available : 0);
  return longest;
}

Forecast at_nic_rate(Scenario scenario, double factor, const ForecastOptions& options = {}) {
  // Long links are a tier whose rate is a share of the NICs' (sites.hpp), so that they change with them.
  for (std::int64_t* const rate :
       {&scenario.cluster.node.nic_rate.bytes_per_second, &scenario.cluster.sites.wan_rate.bytes_per_second})
    *rate = static_cast<std::int64_t>(static_cast<double>(*rate) * factor);
  return forecast(scenario, options).value().forecast;
}

}  // namespace

TEST_CASE("no shipped scenario is faster than its wires, at 1/8 to 2 times its NIC rate", "[property][forecast]") {
  int steps = 0;
  for (const std::filesystem::path& path : shipped_scenarios()) {
    const Scenario scenario = shipped_scenario(path.stem().string());
    for (const double factor : {0.125, 0.25, 0.5, 1.0, 2.0}) {
      if (test::kSanitized && factor != 0.125) continue;  // other rates take the same paths
      INFO(path.stem().string() << ", NIC rate x " << factor);
      const Forecast step = at_nic_rate(scenario, factor);
      CHECK(step.step_time_s >= wire_seconds(step));
      ++steps;
    }
  }
  CHECK(steps > test::cases(200));
}

TEST_CASE("without shared links FSDP is faster than its wires, which the property above would catch",
          "[forecast][metamorphic]") {
  // Gathers beside reductions: on one communicator they would share a NIC in turn.
  const Scenario scenario = shipped_scenario("llama3-405b-1024", {"parallel.separate_gather_group=true"});
  const Forecast isolated =
      at_nic_rate(scenario, 1, {.network = NetworkKind::isolated, .transfers_slow_compute = false});
  CHECK(isolated.step_time_s < wire_seconds(isolated));
}
