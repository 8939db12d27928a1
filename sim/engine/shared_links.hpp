/// A step in which transfers share links: the engine over the fluid network, or over SimGrid.
///
/// Between two ends of transfers every stream runs as far as it can, as without sharing. When all of them wait, the network
/// goes on to its next instant, and whoever waited for what has ended there goes on. Nothing that a stream puts on its way
/// then can begin before that instant, so the network never has to go back.
#pragma once

#include <string>

#include "sim/base/result.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/timeline.hpp"
#include "sim/graph/folded_step.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/network/cluster.hpp"

namespace tracecast {

/// Requires a graph of all ranks of the job, one each; `architecture` is the profile's.
/// Errors: those of simulate()
Result<Timeline> simulate_fluid(const StepGraph& graph, const Cluster& cluster, const std::string& architecture,
                                EngineOptions options = {});

/// The same of a folded step (folded_step.hpp): bit for bit what its classes do among all ranks.
Result<Timeline> simulate_folded(const StepGraph& folded, const FoldedLoads& loads, const Cluster& cluster,
                                 const std::string& architecture, EngineOptions options = {});

/// The same with every flow of every transfer that shares a link. Errors also: too large for SimGrid, or no SimGrid in this
/// build (SimGridNetwork::run).
Result<Timeline> simulate_simgrid(const StepGraph& graph, const Cluster& cluster, const std::string& architecture,
                                  EngineOptions options = {});

}  // namespace tracecast
