/// \file
/// The point-to-point flows of a collective, round by round, for each algorithm.
///
/// A round's flows run at the same time, the next round begins when all have ended. Algorithms that pipeline a buffer
/// (trees, chains, NVLS, reduction in the network) are one round of all their edges, or are written out segment by segment:
/// an edge of the algorithm at distance d from the beginning moves segment s in round s + d. Rounds that are alike are
/// written once, with a count.
///
/// Channels: one per rail of the group. Each carries its share of the buffer over a ring (or tree) of its own that enters
/// every node by its rail and leaves it by the same one, as NCCL lays them.
///
/// Source: docs/references.md#nccl-algorithms, docs/references.md#nccl-protocols, docs/references.md#rails (NCCL's
/// rings, trees, NVLS, CollNet, PAT); Thakur, Rabenseifner & Gropp 2005 for halving-doubling. Leaves out: protocols and
/// latencies, which network_model.hpp knows.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

/// The ranks of a group as its algorithms see them. Members are named by their index in the group; two more kinds of ends
/// reduce and multicast: the switch of node k is ranks + k, the network is ranks + number of nodes.
struct FlowGroup {
  std::vector<int> global;                       ///< [member] rank in the job
  std::vector<std::vector<std::int32_t>> nodes;  ///< members of each scale-up domain, ascending
  std::vector<std::int32_t> port;                ///< [member] its port of the domain
  std::vector<std::int32_t> rails;               ///< ports that the group has in every domain; {-1} if there is none

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
  std::int32_t rail = -1;  ///< port of both domains that it takes between them; -1: the ports next to its ends
  Bytes size;
  bool operator==(const Flow&) const = default;
};

struct Round {
  std::vector<Flow> flows;
  std::int64_t count = 1;  ///< how many such rounds follow each other
};

struct FlowSchedule {
  std::vector<Round> rounds;

  std::int64_t round_count() const;
  /// Bytes that pass if one takes the largest flow of each round: the time at a rate of one for every flow.
  Bytes critical() const;
};

/// How algorithms that pipeline a buffer are written out: in infinitely small segments, so that all of their edges run at
/// the same time in one round, and filling takes no time (NCCL's cost model has it in its latencies and factors); or in
/// segments as NCCL's buffers have them, each edge after the one before it.
enum class Pipelining { stream, segments };

/// Segments that a pipelined buffer is cut into: of kSegment bytes each, at most kMaxSegments.
inline constexpr std::int64_t kSegment = std::int64_t{512} * 1024;  ///< a slot of NCCL's Simple buffer
inline constexpr std::int64_t kMaxSegments = 64;

/// The flows of a call that NCCL runs with `algorithm` (not `automatic`). One rank has none.
/// Requires an algorithm that can run the collective (network_model.hpp: refusal)
FlowSchedule collective_flows(const CollectiveCall& call, Algorithm algorithm, const FlowGroup& group,
                              Pipelining how = Pipelining::stream);

/// Parts of a flow that go ways of their own (ClusterLinks::parts).
int parts_of(const ClusterLinks& links, const FlowGroup& group, const Flow& flow);
/// Bytes of one of them: all together are the flow's.
Bytes part_size(Bytes size, int part, int parts);
/// The links that a part of a flow crosses.
void append_route(const ClusterLinks& links, const FlowGroup& group, const Flow& flow, LinkPath& route, int part = 0);

}  // namespace tracecast
