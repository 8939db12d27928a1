#include "sim/forecast/perturbation_effects.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "sim/io/perturbation_fields.hpp"
#include "sim/network/fabric.hpp"

namespace tracecast {
namespace {

constexpr double kLargest = std::numeric_limits<double>::infinity();

struct UndoablePart {
  std::string what;
  std::function<void(Scenario&)> undo;  ///< of parts of one kind, the last must be undone first
  double size = kLargest;               ///< by how much the time of what it concerns grows, relative to its time
};

template <class List>
auto erase_at(List Perturbation::*list, std::size_t index) {
  return [=](Scenario& s) {
    auto& from = s.perturbation.*list;
    from.erase(from.begin() + static_cast<std::ptrdiff_t>(index));
  };
}

void add_rank_parts(const Perturbation& ranks, std::vector<UndoablePart>& parts) {
  for (std::size_t i = 0; i < ranks.slow_ranks.size(); ++i) {
    const Perturbation::SlowRanks& slow = ranks.slow_ranks[i];
    const bool one = slow.ranks.first == slow.ranks.last;
    parts.push_back({fmt::format("rank{} {} compute{} {:g} times as long", one ? "" : "s", to_string(slow.ranks),
                                 one ? "s" : "", slow.factor),
                     erase_at(&Perturbation::slow_ranks, i), slow.factor - 1});
  }
  for (std::size_t i = 0; i < ranks.gpus.size(); ++i)
    parts.push_back({fmt::format("ranks {} have {}", to_string(ranks.gpus[i].ranks), ranks.gpus[i].name),
                     erase_at(&Perturbation::gpus, i)});
  if (ranks.speed_spread > 0)
    parts.push_back({fmt::format("every rank has a speed of its own, within {:g} %", 100 * ranks.speed_spread),
                     [](Scenario& s) { s.perturbation.speed_spread = 0; }});
}

void add_network_parts(const NetworkFaults& faults, std::vector<UndoablePart>& parts) {
  for (std::size_t i = 0; i < faults.slow_nics.size(); ++i) {
    const NetworkFaults::SlowNic& slow = faults.slow_nics[i];
    const std::string state = slow.speed == 0 ? "is gone" : fmt::format("runs at {:g} %", 100 * slow.speed);
    parts.push_back({fmt::format("NIC {} of node {} {}", slow.nic, slow.node, state),
                     [i](Scenario& s) {
                       auto& nics = s.cluster.faults.slow_nics;
                       nics.erase(nics.begin() + static_cast<std::ptrdiff_t>(i));
                     },
                     slow.speed == 0 ? kLargest : 1 / slow.speed - 1});
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

std::vector<UndoablePart> parts_of(const Scenario& scenario) {
  std::vector<UndoablePart> parts;
  add_rank_parts(scenario.perturbation, parts);
  add_network_parts(scenario.cluster.faults, parts);
  if (const std::string paths = path_text(scenario.cluster); !paths.empty())
    parts.push_back({paths, [](Scenario& s) { s.cluster.routing = RoutingPolicy::even; }});
  return parts;
}

/// The indices of the parts whose effects are forecast alone, and those of the others, which are forecast together.
std::pair<std::vector<std::size_t>, std::vector<std::size_t>> largest_and_others(const std::vector<UndoablePart>& parts,
                                                                                 int ranks) {
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (parts.size() <= kMostEffects) return {order, {}};
  const std::size_t alone = ranks <= kMostRanksOfEffects ? kMostEffects : 0;
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return parts[a].size > parts[b].size; });
  std::vector<std::size_t> others(order.begin() + static_cast<std::ptrdiff_t>(alone), order.end());
  order.resize(alone);
  std::sort(order.begin(), order.end());
  std::sort(others.begin(), others.end());
  return {std::move(order), std::move(others)};
}

std::vector<std::size_t> all_but(std::size_t part, std::size_t count) {
  std::vector<std::size_t> others(count);
  std::iota(others.begin(), others.end(), std::size_t{0});
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(part));
  return others;
}

}  // namespace

std::vector<std::string> perturbation_texts(const Scenario& scenario) {
  std::vector<std::string> texts;
  for (const UndoablePart& part : parts_of(scenario)) texts.push_back(part.what);
  return texts;
}

Scenario without_perturbations(Scenario scenario) {
  scenario.perturbation = {};
  scenario.cluster.faults = {};
  scenario.cluster.routing = RoutingPolicy::even;
  return scenario;
}

Result<void> add_perturbation_effects(const Scenario& scenario, const ForecastOptions& options, Forecast& result) {
  const std::vector<UndoablePart> parts = parts_of(scenario);
  if (parts.empty()) return {};
  const ForecastOptions plain{
      .threads = options.threads, .network = options.network, .transfers_slow_compute = options.transfers_slow_compute};
  const Result<ForecastRun> healthy = forecast(without_perturbations(scenario), plain);
  if (!healthy) return tl::unexpected(healthy.error());
  result.undisturbed_step_s = healthy->forecast.step_time_s;
  const auto step_without = [&](const std::vector<std::size_t>& undone) -> Result<double> {
    if (undone.size() == parts.size()) return result.undisturbed_step_s;
    Scenario without = scenario;
    for (auto part = undone.rbegin(); part != undone.rend(); ++part) parts[*part].undo(without);
    const Result<ForecastRun> run = forecast(without, plain);
    if (!run) return tl::unexpected(run.error());
    return run->forecast.step_time_s;
  };
  const auto [largest, others] = largest_and_others(parts, scenario.cluster.world_size);
  for (const std::size_t part : largest) {
    const Result<double> step = step_without(others.empty() ? std::vector{part} : all_but(part, parts.size()));
    if (!step) return tl::unexpected(step.error());
    PerturbationEffect& effect = result.perturbations.emplace_back(PerturbationEffect{parts[part].what});
    (others.empty() ? effect.step_without_s : effect.step_alone_s) = *step;
  }
  if (others.empty()) return {};
  const Result<double> step = step_without(others);
  if (!step) return tl::unexpected(step.error());
  result.perturbations.push_back({largest.empty()
                                      ? fmt::format("{} perturbations together (each alone: of at most {} ranks)",
                                                    others.size(), kMostRanksOfEffects)
                                      : fmt::format("{} more, not larger than these", others.size()),
                                  *step});
  return {};
}

}  // namespace tracecast
