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

/// Finds the classes by refinement over ranks, transfers and links. Returns the folded graph, with its loads.
/// Requires a graph of all ranks of one or more jobs on the cluster of `links`, one each
StepGraph fold(const StepGraph& graph, const ClusterLinks& links);

}  // namespace tracecast
