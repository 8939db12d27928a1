/// \file
/// One row per algorithm of collectives: what NCCL's tuner says about it, and its flows on links.
///
/// Each row is defined at the end of the algorithm's own file; algorithms.def lists the rows.
#pragma once

#include <span>

#include "sim/network/collective_flows.hpp"
#include "sim/network/nccl_tuning.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

struct TunerContext;

struct CollectiveAlgorithm {
  Algorithm value = Algorithm::automatic;

  /// Fills latency, bandwidth and channels as NCCL's tuner computes them. Leaves the bandwidth 0 where the algorithm cannot
  /// run. Null: not in NCCL's tuner.
  void (*tune)(const TunerContext& context, NcclCost& cost) = nullptr;
  /// False where NCCL uses the algorithm only on request. Null: always considered.
  bool (*is_automatic)(const NcclCommunicator& communicator) = nullptr;
  /// What the machine lacks for it on so many nodes ("an NVSwitch with multicast"), or null. Null function: needs nothing special.
  const char* (*missing_hardware)(const Cluster& cluster, int nodes) = nullptr;

  /// Factor on the latency, by size. Null: 1.
  double (*latency_factor)(const NcclCommunicator& communicator, const NcclCost& cost, Collective collective,
                           Bytes size) = nullptr;
  /// Factor on the bandwidth, by size. Null: 1.
  double (*bandwidth_factor)(const NcclCost& cost, Bytes size) = nullptr;

  /// The measured correction of its bandwidth inside a domain with protocol Simple, and of NcclCost::inside.
  double CollectiveTuning::*domain_bandwidth = &CollectiveTuning::intra_bandwidth;
  /// True if NCCL's numbers leave out how slowly its pipeline fills (CollectiveTuning, fill).
  bool fill_is_missing = true;
  /// True if all data pass every rank in turn. Then the NICs of one node limit the bandwidth.
  bool is_ring = false;

  /// True if nodes are joined by the double tree: GroupPlacement::tree_slowdown is its share of uplinks.
  bool is_tree = false;

  /// Bytes that the busiest node of several sends or receives over its NICs, per byte of the call's size. Null: it runs
  /// inside one node, or its costs follow from the wires.
  double (*busiest_node)(Collective collective, const GroupPlacement& group) = nullptr;
  /// The same for a GPU and its links in the node, on a group of several nodes. Null: the NICs are slower.
  double (*busiest_gpu)(const GroupPlacement& group) = nullptr;

  /// The flows of a call on a group of two ranks or more.   Requires an algorithm that can run the collective
  FlowSchedule (*flows)(const CollectiveCall& call, const FlowGroup& group) = nullptr;
};

/// All rows, in the order of algorithms.def.
std::span<const CollectiveAlgorithm* const> collective_algorithms();

/// Requires an algorithm other than automatic.
const CollectiveAlgorithm& row_of(Algorithm algorithm);

#define ALGORITHM(name, row) extern const CollectiveAlgorithm row;
#include "sim/network/algorithms/algorithms.def"
#undef ALGORITHM

}  // namespace tracecast
