// What each axis of a plan asks of its links.
#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/forecast/axis_bandwidth.hpp"
#include "sim/forecast/forecast.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/small_scenario.hpp"

using namespace tracecast;
using tracecast::test::small_scenario;

namespace {

Forecast shipped(const std::string& name) { return forecast(shipped_scenario(name)).value().forecast; }

/// The row of an axis; it has to run on one class of links.
const AxisBandwidth& row(const Forecast& f, const std::string& axis) {
  const auto is_axis = [&](const AxisBandwidth& each) { return each.axis == axis; };
  REQUIRE(std::count_if(f.bandwidth.begin(), f.bandwidth.end(), is_axis) == 1);
  return *std::find_if(f.bandwidth.begin(), f.bandwidth.end(), is_axis);
}

double beside_transfers(const Forecast& f) {
  double time_s = f.step_time_s;
  for (const double exposed : f.exposed_s) time_s -= exposed;
  return time_s;
}

}  // namespace

TEST_CASE("each axis of a plan runs on a class of links and asks a bandwidth of it",
          "[row-3-43][requirements][bandwidth]") {
  // The infrastructure table: FSDP between nodes over 3,200 Gb/s, which eight GPUs share; TP in the node over NVLink of
  // 900 GB/s, half of it each way; PP between nodes over 400 Gb/s.
  const Forecast f = shipped("p5-llama3-405b-256");
  CHECK(f.bandwidth.size() == 3);
  CHECK(row(f, "tp").link == "nvlink");
  CHECK(row(f, "tp").available == Approx(450e9));
  CHECK(row(f, "tp").ranks == 8);
  CHECK(row(f, "tp").nodes == 1);
  CHECK(row(f, "dp").link == "network");
  CHECK(row(f, "dp").available == Approx(3200e9 / 8 / 8));
  CHECK(row(f, "dp").nodes == 8);
  CHECK(row(f, "pp").link == "network");
  CHECK(row(f, "pp").available == Approx(400e9 / 8));
  for (const AxisBandwidth& each : f.bandwidth) {
    CAPTURE(each.axis);
    CHECK(each.required == Approx(each.sent_bytes / beside_transfers(f)));
  }
  // A boundary passes b s h / t elements of 2 bytes, forward by inner stages and backward.
  CHECK(row(f, "pp").sent_bytes == Approx(2.0 * 64 * 8192 * 16384 / 8 * 2));
}

TEST_CASE("a group of several ranks in each of several nodes asks of both classes",
          "[row-3-43][requirements][bandwidth]") {
  const Scenario scenario = small_scenario(1, 1, 16);
  const ForecastRun run = forecast(scenario).value();
  REQUIRE(run.forecast.bandwidth.size() == 2);
  const AxisBandwidth& inside = run.forecast.bandwidth[0];
  const AxisBandwidth& outside = run.forecast.bandwidth[1];
  CHECK(inside.axis == "dp");
  CHECK(outside.axis == "dp");
  CHECK(inside.link == "nvlink");
  CHECK(outside.link == "network");
  // One all-reduce of 4-byte gradients: 2 (n-1)/n of them, of which a ring over 8 + 8 sends one part in eight out.
  const double sent = 2 * 15.0 / 16 * 4 * static_cast<double>(rank_parameters(scenario.model, run.plan, 0));
  CHECK(inside.sent_bytes + outside.sent_bytes == Approx(sent));
  CHECK(outside.sent_bytes == Approx(sent / 8));
  CHECK(outside.available == Approx(400e9 / 8));  // eight NICs of 400 Gb/s for the eight GPUs of a node
}

TEST_CASE("required bandwidth above what the links have cannot be hidden", "[row-3-47][requirements][bandwidth]") {
  Scenario scenario = small_scenario(8, 1, 4);
  const Forecast fast = forecast(scenario).value().forecast;
  CHECK(row(fast, "tp").link == "nvlink");
  CHECK(row(fast, "dp").ratio() == Approx(row(fast, "dp").required / row(fast, "dp").available));
  // A tenth of the bandwidth between nodes: ten times the ratio of what runs there, the other axis as before.
  scenario.cluster.node.nic_rate.bytes_per_second /= 10;
  const Forecast slow = forecast(scenario).value().forecast;
  CHECK(row(slow, "dp").available == Approx(row(fast, "dp").available / 10).epsilon(1e-6));
  CHECK(row(slow, "dp").ratio() / row(fast, "dp").ratio() == Approx(10).epsilon(0.05));
  CHECK(row(slow, "tp").ratio() == Approx(row(fast, "tp").ratio()).epsilon(0.05));
  // Required <= available is the AWS P5 guide's fourth step. Where it fails the step waits, at least for what does not
  // fit.
  scenario.cluster.node.nic_rate.bytes_per_second /= 1000;
  const Forecast slower = forecast(scenario).value().forecast;
  const double ratio = row(slower, "dp").ratio();
  REQUIRE(ratio > 1);
  const auto gradients = static_cast<std::size_t>(Traffic::gradients);
  CHECK(slower.exposed_s[gradients] > 0.99 * (ratio - 1) * beside_transfers(slower));
}

TEST_CASE("gathers and reductions of ZeRO-3 that ask for more than the links have are exposed, too",
          "[row-3-47][requirements][bandwidth]") {
  // Both directions of FSDP on the NICs: slower and slower ones, until the ratio passes 1, and 4. There a network in which
  // gathers and reductions had all of the wires each would take two thirds of the time.
  const double passed = GENERATE(1, 4);
  Scenario scenario = small_scenario(8, 1, 4);
  scenario.parallel.zero_stage = 3;
  scenario.parallel.separate_gather_group = GENERATE(false, true);  // gathers beside reductions share the wires
  double ratio = 0;
  Forecast forecast_then;
  while (ratio <= passed) {
    forecast_then = forecast(scenario).value().forecast;
    ratio = row(forecast_then, "dp").ratio();
    scenario.cluster.node.nic_rate.bytes_per_second = scenario.cluster.node.nic_rate.bytes_per_second * 49 / 50;
  }
  REQUIRE(ratio < 1.5 * passed);
  // Some of it moves beside exposed transfers in the nodes.
  double exposed = 0;
  for (const double each : forecast_then.exposed_s) exposed += each;
  CHECK(exposed > 0.99 * (ratio - 1) * beside_transfers(forecast_then));
}
