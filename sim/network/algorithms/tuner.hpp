/// \file
/// What the algorithms' parts of NCCL's tuner share: latencies and limits by protocol, and the communicator.
///
/// Source: NCCL 2.30 graph/tuning.cc and topo.h, docs/references.md#nccl-tuning
#pragma once

#include <array>
#include <cstddef>

#include "sim/network/nccl_tuning.hpp"

namespace tracecast {

/// By protocol (microseconds for LL, LL128, Simple), or by number of nodes (GB/s for one, two, more).
using Triple = std::array<double, 3>;

/// Latency of one hop by kind of link, each by protocol.
struct HopLatency {
  Triple nvlink, pcie, network;
};

inline constexpr HopLatency kTreeHop{{0.6, 1.25, 4.0}, {1.0, 1.9, 4.0}, {5.0, 8.5, 14.0}};

/// Bandwidth limits of one channel, GB/s, for one, two, and more nodes; and of all channels together for LL.
struct TunerLimits {
  Triple ring_ll128, tree_ll128, tree, nvls_tree;
  double nvls_efficiency;
  double ll_one_node;
};
const TunerLimits& tuner_limits(NcclArchitecture architecture);

/// 0 for one node, 1 for two, 2 for more: index of a limit.
std::size_t nodes_index(int nodes);

/// log2, rounded down.
double log2_floor(int n);

/// One collective on one communicator with one protocol.
struct TunerContext {
  const NcclCommunicator& comm;
  Collective collective;
  Protocol protocol;
  std::size_t p;  ///< index of the protocol

  double intra(const HopLatency& hop) const { return comm.pcie ? hop.pcie[p] : hop.nvlink[p]; }
  double inter(const HopLatency& hop) const;
  /// Posting a message to the NIC.
  double overhead() const;
  /// GB/s of LL over all channels.
  double ll_limit() const;
  double bus(const NcclGraph& graph) const { return graph.channels * (comm.nodes <= 2 ? graph.intra : graph.inter); }
  double cap(const Triple& by_nodes, const NcclGraph& graph) const {
    return graph.channels * by_nodes[nodes_index(comm.nodes)];
  }
  bool is(Collective c) const { return collective == c; }
  bool gathers() const { return is(Collective::all_gather) || is(Collective::reduce_scatter); }
  /// Rounds of a ring.
  int rounds() const;
  const TunerLimits& limits() const { return tuner_limits(comm.architecture); }
};

/// GB/s of one NVLS channel inside a node.
double nvls_channel_rate(const TunerContext& context);

}  // namespace tracecast
