/// \file
/// The point-to-point flows of a collective, round by round, for each algorithm.
///
/// The flows of a round are concurrent; the next round starts when all have ended. Algorithms that pipeline a buffer (trees,
/// chains, NVLS, reduction in the network) are one round of all their flows: filling the pipeline takes no time here, since NCCL's
/// cost model includes it. Equal rounds are stored once, with a count.
///
/// Channels: one per rail of the group. Each carries its share of the buffer over its own ring (or tree), which enters and
/// leaves every node by its rail, as in NCCL.
///
/// Source: docs/references.md#nccl-algorithms, docs/references.md#nccl-protocols, docs/references.md#rails (NCCL's
/// rings, trees, NVLS, CollNet, PAT). Leaves out: protocols and latencies, which network_model.hpp has.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

/// The ranks of a group as algorithms see them. Members are numbered by their index in the group. Two more kinds of ends
/// reduce and multicast: the switch of node k is ranks + k, the network is ranks + number of nodes.
struct FlowGroup {
  std::vector<int> global;                       ///< [member] rank in the job
  std::vector<std::vector<std::int32_t>> nodes;  ///< members of each scale-up domain, ascending
  std::vector<std::int32_t> port;                ///< [member] its port of the domain, or the one that replaces it
  /// [channel] the port that it uses in every domain. If the domains have several ports but not the same ones, -1, -2 ...:
  /// channel c uses the ports next to its ends, and begins in every domain at the group's c-th port there.
  std::vector<std::int32_t> rails;

  std::int32_t ranks() const { return static_cast<std::int32_t>(global.size()); }
  std::int32_t node_count() const { return static_cast<std::int32_t>(nodes.size()); }
  std::int32_t switch_of(std::int32_t node) const { return ranks() + node; }
  std::int32_t network() const { return ranks() + node_count(); }
  /// The same number of members in every domain.
  bool even() const;
};

/// Requires ranks of the cluster, each once
FlowGroup make_flow_group(const ClusterLinks& links, std::span<const int> ranks);

struct Flow {
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t rail = -1;  ///< port of both domains that it uses between them; < 0: the ports next to its ends
  Bytes size;
  bool operator==(const Flow&) const = default;
};

struct Round {
  std::vector<Flow> flows;
  std::int64_t count = 1;  ///< number of equal consecutive rounds
};

struct FlowSchedule {
  std::vector<Round> rounds;
  /// Further rounds, made when they are needed: an all-to-all has as many flows as pairs of ranks. They refer to the group.
  std::int64_t made_rounds = 0;
  std::function<Round(std::int64_t number)> make_round{};

  template <class Visit>
  void each_round(const Visit& visit) const {
    for (const Round& round : rounds) visit(round);
    for (std::int64_t i = 0; i < made_rounds; ++i) visit(make_round(i));
  }
  std::int64_t round_count() const;
  /// Bytes of the largest flow of each round, summed: the duration if every flow has rate one.
  Bytes critical() const;
};

/// One message from member 0 to member 1 of a group of two: of a pipeline, without an answer. `port` is the receiver's (PXN); it
/// matters between domains only.
FlowSchedule message_flows(Bytes size, std::int32_t port = -1);

/// The flows of a call that NCCL runs with `algorithm` (not `automatic`). One rank has none. With send_recv every
/// member sends to the next, the last to the first, as nccl-tests' sendrecv and the ring of context parallelism do, through the
/// receiver's port in both domains (PXN).
/// Requires an algorithm that can run the collective (network_model.hpp: unsupported_reason), and a group that lives as long
/// as the schedule
FlowSchedule collective_flows(const CollectiveCall& call, Algorithm algorithm, const FlowGroup& group);

/// True if the flow crosses the fabric or ends in it.
bool leaves_domain(const ClusterLinks& links, const FlowGroup& group, const Flow& flow);
/// Number of parts of a flow with separate paths (ClusterLinks::parts).
int parts_of(const ClusterLinks& links, const FlowGroup& group, const Flow& flow);
/// Bytes of one part; the parts sum to `size`.
Bytes part_size(Bytes size, int part, int parts);
/// Appends the links on the path of a part of a flow.
void append_route(const ClusterLinks& links, const FlowGroup& group, const Flow& flow, LinkPath& route, int part = 0);

}  // namespace tracecast
