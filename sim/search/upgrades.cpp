#include "sim/search/upgrades.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "sim/base/units.hpp"
#include "sim/cost/costs.hpp"
#include "sim/network/measured_network.hpp"
#include "sim/network/sites.hpp"

namespace tracecast {
namespace {

void scale(Bandwidth& rate, double factor) {
  rate.bytes_per_second = static_cast<std::int64_t>(static_cast<double>(rate.bytes_per_second) * factor);
}

/// Of all kinds of GPUs that the machine has.
void for_each_profile(Scenario& scenario, const std::function<void(Profile&)>& change) {
  change(scenario.profile);
  for (Perturbation::OtherGpus& each : scenario.perturbation.gpus) change(each.profile);
}

/// Measured times are of the GPU as it is. On a changed one they are as much shorter as those of its model.
void rescale_operators(Profile& changed, const Profile& before) {
  if (changed.measured.empty()) return;
  const auto modelled = [](Profile profile) {
    profile.measured.clear();
    return Costs(std::move(profile));
  };
  const Costs now = modelled(changed);
  const Costs then = modelled(before);
  for (MeasuredOperator& each : changed.measured) {
    const Duration was = then.of(each.op).duration;
    if (was > Duration{}) each.seconds *= seconds(now.of(each.op).duration) / seconds(was);
  }
}

/// Likewise of collectives on one host.
void rescale_collectives(Profile& profile, const Cluster& changed, const Cluster& before) {
  const auto now = make_analytic_network(changed, profile.architecture);
  const auto then = make_analytic_network(before, profile.architecture);
  for (MeasuredCollective& each : profile.measured_collectives) {
    if (each.nodes != 1 || each.ranks < 2 || each.ranks > std::min(before.node.gpus, before.world_size)) continue;
    if (!is_of_link(each, link_of_gpu(before.node))) continue;  // the model was used, and is
    std::vector<int> members(static_cast<std::size_t>(each.ranks));
    std::iota(members.begin(), members.end(), 0);
    const GroupPlacement group = place(before, members, 1);
    const CollectiveCall call{each.collective, each.size};
    const Duration was = then->cost(call, group).duration;
    if (was > Duration{}) each.seconds *= seconds(now->cost(call, group).duration) / seconds(was);
    if (each.network.bytes_per_second > 0) each.network = link_of_gpu(changed.node);
  }
}

void add_network_upgrades(std::vector<UpgradeRule>& rules, const Cluster& cluster) {
  if (cluster.node.nics > 0)
    rules.push_back({"2x NIC rate", "NICs", [](Scenario& s) {
                       scale(s.cluster.node.nic_rate, 2);
                       renew_sites(s.cluster);
                     }});
  if (cluster.sites.count > 1)
    rules.push_back({"2x rate between sites", "links between sites", [](Scenario& s) {
                       scale(s.cluster.sites.wan_rate, 2);
                       renew_sites(s.cluster);
                     }});
}

void add_gpu_link_upgrade(std::vector<UpgradeRule>& rules, const NodeSpec& node) {
  if (node.gpus < 2) return;
  const bool pcie = node.link == IntraLink::pcie || node.link == IntraLink::none;
  const std::string name = pcie ? "PCIe" : node.link == IntraLink::xgmi ? "xGMI" : "NVLink";
  rules.push_back({fmt::format("2x {} rate", name), name, [pcie](Scenario& s) {
                     const Cluster before = s.cluster;
                     scale(pcie ? s.cluster.node.pcie : s.cluster.node.gpu_link, 2);
                     for_each_profile(s, [&](Profile& gpu) { rescale_collectives(gpu, s.cluster, before); });
                   }});
}

}  // namespace

std::vector<UpgradeRule> upgrades_of(const Cluster& cluster) {
  std::vector<UpgradeRule> rules;
  add_network_upgrades(rules, cluster);
  add_gpu_link_upgrade(rules, cluster.node);
  const auto add_gpu = [&](const char* what, const char* limit, void (*change)(Profile&)) {
    rules.push_back({what, limit, [change](Scenario& s) {
                       for_each_profile(s, [change](Profile& gpu) {
                         const Profile before = gpu;
                         change(gpu);
                         rescale_operators(gpu, before);
                       });
                     }});
  };
  add_gpu("1.5x GPU memory", "memory", [](Profile& gpu) { gpu.memory.count = gpu.memory.count / 2 * 3; });
  add_gpu("1.5x memory bandwidth", "compute", [](Profile& gpu) { gpu.memory_bandwidth *= 1.5; });
  add_gpu("1.5x tensor-core rate", "compute", [](Profile& gpu) {
    for (auto& [precision, flops] : gpu.peak_flops) flops *= 1.5;
  });
  rules.push_back({"2x global batch", "batch", [](Scenario& s) { s.training.global_batch_size *= 2; }});
  add_gpu("no host overhead", "host", [](Profile& gpu) {
    gpu.host.scale_eager(0);
    gpu.host.graph_launch = gpu.host.step_overhead = 0;
  });
  return rules;
}

std::vector<Upgrade> try_upgrades(const MachineChoice& machine, const SearchSpace& space, const Evaluation& best,
                                  const SearchOptions& options, const EvaluatorOf& evaluator) {
  SearchOptions one = options;
  one.best = 1;
  one.exhaustive = false;
  one.likely = {best.layout.id};
  std::vector<Upgrade> upgrades;
  for (const UpgradeRule& rule : upgrades_of(machine.scenario.cluster)) {
    MachineChoice changed = machine;
    rule.apply(changed.scenario);
    const SearchResult found = search(changed.scenario, space, one, evaluator(changed.scenario));
    if (found.best.empty()) continue;
    Evaluation winner = found.best.front();
    if (best.layout.id == kOwnLayout) {
      const Evaluation own = evaluate(changed.scenario, best.layout, {}, 0);
      if (own.fits && own.step_time_s < winner.step_time_s) winner = own;
    }
    const double steps = progress_of_step(machine) / progress_of_step(changed);
    upgrades.push_back({rule.what, rule.limit, winner.step_time_s, 1 - steps * winner.step_time_s / best.step_time_s,
                        winner.layout == best.layout ? "" : describe(winner.layout, machine.gpus)});
  }
  std::stable_sort(upgrades.begin(), upgrades.end(),
                   [](const Upgrade& a, const Upgrade& b) { return a.faster_by > b.faster_by; });
  return upgrades;
}

}  // namespace tracecast
