#include "sim/forecast/perturbation_effects.hpp"

#include <functional>
#include <utility>

#include <fmt/format.h>

#include "sim/forecast/settings_text.hpp"
#include "sim/io/perturbation_fields.hpp"

namespace tracecast {
namespace {

struct Part {
  std::string what;
  std::function<void(Scenario&)> undo;
};

template <class List>
auto erase_at(List Perturbation::*list, std::size_t index) {
  return [=](Scenario& s) {
    auto& from = s.perturbation.*list;
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(index));
  };
}

void add_rank_parts(const Perturbation& ranks, std::vector<Part>& parts) {
  for (std::size_t i = 0; i < ranks.slow_ranks.size(); ++i) {
    const Perturbation::SlowRanks& slow = ranks.slow_ranks[i];
    const bool one = slow.ranks.first == slow.ranks.last;
    parts.push_back({fmt::format("rank{} {} compute{} {:g} times as long", one ? "" : "s", to_string(slow.ranks),
                                 one ? "s" : "", slow.factor),
                     erase_at(&Perturbation::slow_ranks, i)});
  }
  for (std::size_t i = 0; i < ranks.gpus.size(); ++i)
    parts.push_back({fmt::format("ranks {} have {}", to_string(ranks.gpus[i].ranks), ranks.gpus[i].name),
                     erase_at(&Perturbation::gpus, i)});
  if (ranks.speed_spread > 0)
    parts.push_back({fmt::format("every rank has a speed of its own, within {:g} %", 100 * ranks.speed_spread),
                     [](Scenario& s) { s.perturbation.speed_spread = 0; }});
}

void add_network_parts(const NetworkFaults& faults, std::vector<Part>& parts) {
  for (std::size_t i = 0; i < faults.slow_nics.size(); ++i) {
    const NetworkFaults::SlowNic& slow = faults.slow_nics[i];
    const std::string state = slow.speed == 0 ? "is gone" : fmt::format("runs at {:g} %", 100 * slow.speed);
    parts.push_back({fmt::format("NIC {} of node {} {}", slow.nic, slow.node, state), [i](Scenario& s) {
                       auto& nics = s.cluster.faults.slow_nics;
                       nics.erase(nics.begin() + static_cast<std::ptrdiff_t>(i));
                     }});
  }
  for (const int rail : faults.lost_rails)
    parts.push_back(
        {fmt::format("rail {} is gone", rail), [rail](Scenario& s) { std::erase(s.cluster.faults.lost_rails, rail); }});
  for (const auto& [tier, share] : faults.lost_uplinks)
    parts.push_back({fmt::format("{:g} % of the uplinks of tier '{}' are gone", 100 * share, tier),
                     [name = tier](Scenario& s) { s.cluster.faults.lost_uplinks.erase(name); }});
  for (const auto& [node, missing] : faults.missing_gpus)
    parts.push_back({fmt::format("node {} does without {} of its GPUs", node, missing),
                     [number = node](Scenario& s) { s.cluster.faults.missing_gpus.erase(number); }});
}

}  // namespace

Result<void> add_perturbation_effects(const Scenario& scenario, const ForecastOptions& options, Forecast& result) {
  std::vector<Part> parts;
  add_rank_parts(scenario.perturbation, parts);
  add_network_parts(scenario.cluster.faults, parts);
  if (const std::string paths = path_text(scenario.cluster); !paths.empty())
    parts.push_back({paths, [](Scenario& s) { s.cluster.routing = RoutingPolicy::even; }});
  if (parts.empty()) return {};
  Scenario undisturbed = scenario;
  undisturbed.perturbation = {};
  undisturbed.cluster.faults = {};
  undisturbed.cluster.routing = RoutingPolicy::even;
  const ForecastOptions plain{
      .threads = options.threads, .network = options.network, .transfers_slow_compute = options.transfers_slow_compute};
  const Result<ForecastRun> healthy = forecast(undisturbed, plain);
  if (!healthy) return tl::unexpected(healthy.error());
  result.undisturbed_step_s = healthy->forecast.step_time_s;
  for (Part& part : parts) {
    double step = result.undisturbed_step_s;
    if (parts.size() > 1) {
      Scenario without = scenario;
      part.undo(without);
      const Result<ForecastRun> run = forecast(without, plain);
      if (!run) return tl::unexpected(run.error());
      step = run->forecast.step_time_s;
    }
    result.perturbations.push_back({std::move(part.what), step});
  }
  return {};
}

}  // namespace tracecast
