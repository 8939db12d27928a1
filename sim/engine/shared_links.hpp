/// \file
/// A step in which transfers share links: the engine over the fluid network, or over SimGrid.
///
/// Between two completions of transfers every stream advances as far as it can. When all streams wait, the network advances
/// to its next completion, and the streams that waited for it continue. They start transfers at that instant or later, so
/// the network never has to go back in time.
#pragma once

#include <string>

#include "sim/base/result.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/timeline.hpp"
#include "sim/graph/folded_step.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/network/cluster.hpp"

namespace tracecast {

/// Requires a graph with every rank of the job, one each. `architecture`: the profile's.
/// Errors: those of simulate().
Result<Timeline> simulate_fluid(const StepGraph& graph, const Cluster& cluster, const std::string& architecture,
                                EngineOptions options = {});

/// The same for a folded step (folded_step.hpp). Each class has exactly the times that it has in the unfolded step.
Result<Timeline> simulate_folded(const StepGraph& folded, const FoldedLoads& loads, const Cluster& cluster,
                                 const std::string& architecture, EngineOptions options = {});

/// The same with every flow of every transfer that shares a link.
/// Errors: those of simulate(); too large for SimGrid, or no SimGrid in this build (SimGridNetwork::run).
Result<Timeline> simulate_simgrid(const StepGraph& graph, const Cluster& cluster, const std::string& architecture,
                                  EngineOptions options = {});

}  // namespace tracecast
