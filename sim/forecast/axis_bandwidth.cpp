#include "sim/forecast/axis_bandwidth.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include <fmt/format.h>

#include "sim/graph/step_graph.hpp"
#include "sim/network/cluster.hpp"
#include "sim/network/sites.hpp"
#include "sim/plan/plan.hpp"

namespace tracecast {
namespace {

constexpr std::array<const char*, 5> kAxisNames = {"tp", "cp", "ep", "dp", "pp"};
constexpr std::size_t kLinks = 3;

/// Index into kAxisNames; nullopt for traffic without an axis.
std::optional<std::size_t> axis_of(Traffic traffic) {
  switch (traffic) {
    case Traffic::tensor_parallel:
      return 0;
    case Traffic::context_parallel:
      return 1;
    case Traffic::expert_parallel:
      return 2;
    case Traffic::gradients:
    case Traffic::parameters:
      return 3;
    case Traffic::pipeline:
    case Traffic::embedding:
      return 4;
    case Traffic::control:
    case Traffic::offload:
      break;
  }
  return std::nullopt;
}

/// Bytes that one rank sends over one class of links for one axis.
struct Load {
  double bytes = 0;
  double seconds = 0;  ///< at the rate that is available
  int ranks = 1;
  int nodes = 1;
};
using Loads = std::array<std::array<Load, kLinks>, kAxisNames.size()>;

void add(Load& load, double bytes, Bandwidth available, int ranks, int nodes) {
  if (bytes <= 0 || available.bytes_per_second <= 0) return;
  load.bytes += bytes;
  load.seconds += bytes / static_cast<double>(available.bytes_per_second);
  if (ranks > load.ranks) {
    load.ranks = ranks;
    load.nodes = nodes;
  }
}

Bandwidth in_node(const NodeSpec& node) {
  const bool links = node.link != IntraLink::pcie && node.link != IntraLink::none;
  return links ? node.gpu_link : node.pcie;
}

Bandwidth nic_share(const NodeSpec& node, double nics) {
  return {static_cast<std::int64_t>(static_cast<double>(node.nic_rate.bytes_per_second) * nics)};
}

/// Of the long link of a site, on which so many ranks of it send.
Bandwidth wan_share(const Cluster& cluster, std::int64_t senders) {
  return {cluster.sites.wan_rate.bytes_per_second / std::max<std::int64_t>(1, senders)};
}

/// NICs for what a rank sends out of its node, in the mean over the ranks of the node.
double nics_of_rank(Collective collective, const GroupPlacement& group) {
  if (collective == Collective::all_to_all) return group.nics_per_rank;
  return (collective == Collective::send_recv ? group.ring_end_nics : group.nics) / group.ranks_per_node;
}

class Counter {
 public:
  Counter(const StepGraph& graph, const Plan& plan, const Cluster& cluster)
      : graph_(graph), plan_(plan), cluster_(cluster) {
    for (const std::vector<ProgramItem>& program : graph.programs) calls_.push_back(calls_of(program));
  }

  Loads loads_of(const Rank& rank) const {
    Loads loads;
    const Calls& calls = calls_[static_cast<std::size_t>(rank.program)];
    for (std::size_t i = 0; i < calls.collectives.size(); ++i)
      if (calls.collectives[i] > 0) add_collective(loads, rank, i, calls.collectives[i]);
    for (std::size_t i = 0; i < calls.messages.size(); ++i)
      if (calls.messages[i] > 0) add_message(loads, rank, i, calls.messages[i]);
    return loads;
  }

 private:
  /// [collective or message] number of calls that a program issues.
  struct Calls {
    std::vector<std::int64_t> collectives;
    std::vector<std::int64_t> messages;
  };

  Calls calls_of(const std::vector<ProgramItem>& program) const {
    std::vector<std::int64_t> runs(graph_.templates.size());
    for (const ProgramItem& item : program) ++runs[static_cast<std::size_t>(item.template_index)];
    Calls calls{std::vector<std::int64_t>(graph_.collectives.size()),
                std::vector<std::int64_t>(graph_.messages.size())};
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (runs[i] == 0) continue;
      for (const Op& op : graph_.templates[i].ops) {
        if (op.type == OpType::collective) calls.collectives[static_cast<std::size_t>(op.payload)] += runs[i];
        if (op.type == OpType::send) calls.messages[static_cast<std::size_t>(op.payload)] += runs[i];
      }
    }
    return calls;
  }

  void add_collective(Loads& loads, const Rank& rank, std::size_t number, std::int64_t count) const {
    const CostedCollective& call = graph_.collectives[number];
    const std::optional<std::size_t> axis = axis_of(call.traffic);
    const std::int32_t communicator = rank.communicators[static_cast<std::size_t>(call.slot)];
    if (!axis || communicator < 0) return;
    const GroupPlacement& group = graph_.communicators[static_cast<std::size_t>(communicator)].placement;
    // The bus bandwidth of a transfer of one second equals the bytes that a rank sends.
    const double sent =
        static_cast<double>(count) * bus_bandwidth(call.call.collective, group.ranks, call.moved(), from_seconds(1));
    const double out = group.nodes > 1 ? share_leaving(call.call.collective, group, group.ranks_per_node) * sent : 0;
    const double forwarded = static_cast<double>(count) * static_cast<double>(call.call.forwarded.count);
    add(loads[*axis][0], forwarded > 0 ? forwarded : sent - out, in_node(cluster_.node), group.ranks, group.nodes);
    add(loads[*axis][1], out, nic_share(cluster_.node, nics_of_rank(call.call.collective, group)), group.ranks,
        group.nodes);
    if (!spans_sites(cluster_, group)) return;
    const double of_site = static_cast<double>(group.ranks) / std::min(group.nodes, cluster_.sites.count);
    add(loads[*axis][2], share_leaving(call.call.collective, group, of_site) * sent,
        wan_share(cluster_, ranks_of_site()), group.ranks, group.nodes);
  }

  void add_message(Loads& loads, const Rank& rank, std::size_t number, std::int64_t count) const {
    const Message& message = graph_.messages[number];
    const ChannelEnd& end = rank.channels[static_cast<std::size_t>(message.channel)];
    if (end.rank < 0) return;
    // The other end may be simulated by a rank of another replica; the real one differs only in its pipeline rank.
    Coordinates peer = plan_.grid.coordinates(rank.representative);
    peer[Axis::pp] = graph_.ranks[static_cast<std::size_t>(end.rank)].pp_rank;
    const int other = plan_.grid.rank(peer);
    const bool near = cluster_.node_of(other) == cluster_.node_of(rank.representative);
    const NodeSpec& node = cluster_.node;
    const double sent = static_cast<double>(count) * static_cast<double>(message.size.count);
    const int stages = plan_.grid.size(Axis::pp);
    const int nodes = near ? 1 : stages;
    auto& of_axis = loads[*axis_of(Traffic::pipeline)];
    add(of_axis[near ? 0 : 1], sent,
        near ? in_node(node) : nic_share(node, static_cast<double>(node.nics) / node.gpus_per_host), stages, nodes);
    if (site_of(cluster_, other) != site_of(cluster_, rank.representative))
      add(of_axis[2], sent, wan_share(cluster_, std::min(plan_.grid.ranks() / stages, ranks_of_site())), stages, nodes);
  }

  int ranks_of_site() const { return std::max(1, cluster_.world_size / cluster_.sites.count); }

  const StepGraph& graph_;
  const Plan& plan_;
  const Cluster& cluster_;
  std::vector<Calls> calls_;  ///< [program]
};

AxisBandwidth row_of(std::size_t axis, LinkClass link, const Load& load, const Cluster& cluster, double time_s) {
  AxisBandwidth row;
  row.axis = kAxisNames[axis];
  row.link = link_name(link, cluster);
  row.ranks = load.ranks;
  row.nodes = load.nodes;
  row.sent_bytes = load.bytes;
  row.required = load.bytes / time_s;
  row.available = load.bytes / load.seconds;
  return row;
}

}  // namespace

std::string link_name(LinkClass link, const Cluster& cluster) {
  if (link == LinkClass::network) return "network";
  if (link == LinkClass::wan) return "wan";
  switch (cluster.node.link) {
    case IntraLink::nvswitch:
    case IntraLink::nvlink_mesh:
      return "nvlink";
    case IntraLink::xgmi:
      return "xgmi";
    case IntraLink::pcie:
    case IntraLink::none:
      break;
  }
  return "pcie";
}

double exposed_of(const AxisBandwidth& row, std::span<const double> exposed_s) {
  double sum = 0;
  for (std::size_t traffic = 0; traffic < exposed_s.size(); ++traffic)
    if (const auto axis = axis_of(static_cast<Traffic>(traffic)); axis && kAxisNames[*axis] == row.axis)
      sum += exposed_s[traffic];
  return sum;
}

std::string links_of(Traffic traffic, std::span<const AxisBandwidth> rows) {
  const auto axis = axis_of(traffic);
  std::vector<std::string> links;
  for (const AxisBandwidth& row : rows)
    if (axis && row.axis == kAxisNames[*axis]) links.push_back(row.link);
  if (links.empty()) return "";
  const std::string last = links.back();
  links.pop_back();
  return links.empty() ? last : fmt::format("{} and {}", fmt::join(links, ", "), last);
}

std::vector<AxisBandwidth> required_bandwidth(const StepGraph& graph, const Plan& plan, const Cluster& cluster,
                                              double time_s) {
  TRACECAST_ASSERT(time_s > 0, "bandwidth is bytes over a time");
  const Counter counter(graph, plan, cluster);
  Loads busiest;
  for (const Rank& rank : graph.ranks) {
    const Loads loads = counter.loads_of(rank);
    for (std::size_t axis = 0; axis < kAxisNames.size(); ++axis)
      for (std::size_t link = 0; link < kLinks; ++link)
        if (loads[axis][link].seconds > busiest[axis][link].seconds) busiest[axis][link] = loads[axis][link];
  }
  std::vector<AxisBandwidth> rows;
  for (std::size_t axis = 0; axis < kAxisNames.size(); ++axis)
    for (std::size_t link = 0; link < kLinks; ++link)
      if (busiest[axis][link].bytes > 0)
        rows.push_back(row_of(axis, static_cast<LinkClass>(link), busiest[axis][link], cluster, time_s));
  return rows;
}

}  // namespace tracecast
