/// Two jobs on one machine, whose transfers share the links of its fabric.
///
/// The jobs take the machine's nodes in turn, the first one begins; when one has all of its nodes, the other takes what
/// follows. One step of the first is simulated, and from the same moment as many of the other as fit into it, at least
/// one and at most 64; where the job lasts longer than these, its end is undisturbed.
#pragma once

#include "sim/base/result.hpp"
#include "sim/engine/engine.hpp"
#include "sim/forecast/forecast.hpp"

namespace tracecast {

/// Of `job`, with what it would take without the neighbour, on the same nodes, as its perturbation.
/// Errors: those of forecast(); jobs on different machines, or with GPUs missing; too few nodes for both.
/// Requires a network model that shares links
Result<ForecastRun> forecast_beside(Scenario job, Scenario neighbour, ForecastOptions options);

/// What happens to `job` when `graph`, all of its ranks, runs beside the neighbour's step.
Result<Timeline> simulate_beside(const StepGraph& graph, const Scenario& job, const Scenario& neighbour,
                                 NetworkKind network, const EngineOptions& options);

/// The same over the fluid network with each class of ranks of both jobs simulated once; `graph`, of all ranks of the
/// job, becomes its folded one.
Result<Timeline> simulate_folded_beside(StepGraph& graph, const Scenario& job, const Scenario& neighbour,
                                        const EngineOptions& options);

}  // namespace tracecast
