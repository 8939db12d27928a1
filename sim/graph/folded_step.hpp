/// \file
/// A step with shared links, folded: one rank, one transfer and one link for each class of those that do the same.
/// The folded run gives every rank the times of the run of all ranks, to the picosecond (docs/folding.md). A link of
/// the folded network is the first of its class, with the summed weights of all copies that cross it.
#pragma once

#include <vector>

#include "sim/graph/step_graph.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/network/fluid.hpp"

namespace tracecast {

/// A kind of transfer of a folded step that shares links.
struct FoldedTransfer {
  std::int32_t owner = 0;   ///< communicator, or sending rank, of the folded graph
  std::int32_t number = 0;  ///< collective, or channel
  TransferShape shape;      ///< loads on the first link of each class
};

struct FoldedLoads {
  std::vector<FoldedTransfer> collectives;
  std::vector<FoldedTransfer> messages;
};

struct FoldedStep {
  StepGraph graph;
  FoldedLoads loads;
};

/// Finds the classes by refinement over ranks, transfers and links.
/// Requires a graph of all ranks of one or more jobs on the cluster of `links`, one each
FoldedStep fold(const StepGraph& graph, const ClusterLinks& links);

}  // namespace tracecast
