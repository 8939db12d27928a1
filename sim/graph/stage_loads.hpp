/// \file
/// Folding of a step with shared links by the plan's coordinates: one class for each pipeline rank, without a look at every
/// pair of ranks and links again and again.
///
/// The classes of ranks and communicators are those of the folded graph without sharing; links are classed by who crosses
/// them, once, and the partition is then checked exactly (loads_agree). Where it does not hold, refinement is asked
/// (folded_step.hpp).
#pragma once

#include <optional>

#include "sim/graph/folded_step.hpp"
#include "sim/graph/groups.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/plan/plan.hpp"

namespace tracecast {

/// `folded`: the graph that build_step_graph made without unfolding; `groups`: those of its plan.
/// Nothing when pipeline ranks are not single classes there, or not any more once links are shared.
std::optional<FoldedLoads> loads_by_stage(const StepGraph& folded, const Plan& plan, const Groups& groups,
                                          const ClusterLinks& links);

}  // namespace tracecast
