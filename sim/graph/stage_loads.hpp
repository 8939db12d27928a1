/// \file
/// Folding of a step with shared links by the plan's coordinates: one class for each pipeline rank, without refinement.
///
/// The classes of ranks and communicators are those of the folded graph without sharing. Links are classified once,
/// by the users that cross them, and the partition is then checked exactly (link_classes.hpp). If it is not stable,
/// refinement decides (folded_step.hpp).
#pragma once

#include <optional>

#include "sim/graph/groups.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/plan/plan.hpp"

namespace tracecast {

/// `folded`: the graph that build_step_graph made without unfolding; `groups`: those of its plan.
/// Nothing if the ranks of a pipeline rank are of several classes there, or become so when links are shared.
std::optional<FoldedLoads> loads_by_stage(const StepGraph& folded, const Plan& plan, const Groups& groups,
                                          const ClusterLinks& links);

}  // namespace tracecast
