#include "sim/network/flow_cost.hpp"

#include <fmt/format.h>

#include "sim/network/collective_flows.hpp"
#include "sim/network/fluid.hpp"
#include "sim/network/simgrid.hpp"

namespace tracecast {
namespace {

/// The placement of the group alone on the machine, without oversubscription.
GroupPlacement place_alone(const Cluster& cluster, const std::vector<int>& ranks) {
  GroupPlacement placed = place(cluster, ranks, 1);
  placed.oversubscription = 1;
  placed.crossing = 0;
  placed.tree_slowdown = 1;
  placed.all_to_all_slowdown = 1;
  return placed;
}

/// Starts one transfer of each kind at 0. Returns the end of the last one.
Duration last_end(FlowNetwork& network, std::int32_t kinds) {
  for (std::int32_t kind = 0; kind < kinds; ++kind) network.start(kind, kind, {});
  Duration now;
  std::vector<std::int32_t> ended;
  while (network.advance(now, ended)) {
  }
  return now;
}

std::int64_t flow_count(const FlowSchedule& schedule) {
  std::int64_t sum = 0;
  schedule.each_round([&](const Round& round) { sum += round.count * static_cast<std::int64_t>(round.flows.size()); });
  return sum;
}

/// Of an all-to-all, whose paths are found one by one; 0: of another collective.
std::int64_t pairs_of_ranks(const SiblingCalls& calls) {
  if (calls.call.collective != Collective::all_to_all) return 0;
  std::int64_t sum = 0;
  for (const std::vector<int>& ranks : calls.groups)
    sum += static_cast<std::int64_t>(ranks.size()) * static_cast<std::int64_t>(ranks.size() - 1);
  return sum;
}

Duration fluid_duration(const ClusterLinks& links, const CollectiveCost& cost, const SiblingCalls& calls) {
  FluidNetwork network(links, {.alone_as_costed = false});
  for (const std::vector<int>& ranks : calls.groups) {
    const FlowGroup group = make_flow_group(links, ranks);
    network.add_kind(cost, collective_flows(calls.call, cost.algorithm, group), group);
  }
  return last_end(network, static_cast<std::int32_t>(calls.groups.size()));
}

Result<Duration> simgrid_duration(const ClusterLinks& links, const CollectiveCost& cost, const SiblingCalls& calls) {
  SimGridNetwork network(links);
  std::int64_t flows = 0;
  for (const std::vector<int>& ranks : calls.groups) {
    const FlowGroup group = make_flow_group(links, ranks);
    const FlowSchedule schedule = collective_flows(calls.call, cost.algorithm, group);
    flows += flow_count(schedule);
    if (flows > kMaxSimgridFlows)
      return fail(fmt::format("more than {} flows are too many for SimGrid: use --network fluid", kMaxSimgridFlows));
    network.add_kind(cost, schedule, group);
  }
  const auto kinds = static_cast<std::int32_t>(calls.groups.size());
  return network.run([kinds](FlowNetwork& in_child) { return std::to_string(last_end(in_child, kinds).picoseconds); })
      .map([](const std::string& answer) { return Duration{std::stoll(answer)}; });
}

}  // namespace

Result<CollectiveCost> flow_cost(NetworkKind kind, const Cluster& cluster, const std::string& architecture,
                                 const SiblingCalls& calls) {
  TRACECAST_ASSERT(kind != NetworkKind::isolated, "the analytic model needs no flows");
  CollectiveCost cost =
      make_analytic_network(cluster, architecture)->cost(calls.call, place_alone(cluster, calls.groups.front()));
  if (calls.groups.front().size() <= 1) return cost;
  if (kind == NetworkKind::fluid && pairs_of_ranks(calls) > kMaxFluidPairs)
    return fail(
        fmt::format("an all-to-all between {} pairs of ranks has too many flows: use --network isolated "
                    "(allowed: {})",
                    pairs_of_ranks(calls), kMaxFluidPairs));
  const ClusterLinks links(cluster, architecture);
  if (kind == NetworkKind::fluid) {
    cost.duration = fluid_duration(links, cost, calls);
    return cost;
  }
  const Result<Duration> duration = simgrid_duration(links, cost, calls);
  if (!duration) return tl::unexpected(duration.error());
  cost.duration = *duration;
  return cost;
}

}  // namespace tracecast
