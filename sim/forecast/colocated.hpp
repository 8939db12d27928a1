/// \file
/// Co-located jobs: two jobs on one machine whose transfers share the links of its fabric.
///
/// The nodes of the machine alternate between the jobs, beginning with the first job; when one job has all its nodes,
/// the other takes the next ones. One step of the first job is simulated. The second job starts at the same time and
/// repeats its step until the first job's step ends, at least once and at most 64 times; after that the first job runs
/// undisturbed.
#pragma once

#include "sim/base/result.hpp"
#include "sim/engine/engine.hpp"
#include "sim/forecast/forecast.hpp"

namespace tracecast {

/// Forecast of `job`. Its perturbation is the step time without the other job, on the same nodes.
/// Requires a network model that shares links. Errors: those of forecast(); jobs on different machines; missing GPUs;
/// too few nodes for both.
Result<ForecastRun> forecast_colocated(Scenario job, Scenario other, ForecastOptions options);

/// Timeline of `job` when `graph`, with all its ranks, runs at the same time as the step of the other job.
Result<Timeline> simulate_colocated(const StepGraph& graph, const Scenario& job, const Scenario& other,
                                    NetworkKind network, const EngineOptions& options);

/// The same over the fluid network, with each class of ranks of both jobs simulated once. `graph`, with all ranks of
/// the job, becomes its folded graph.
Result<Timeline> simulate_folded_colocated(StepGraph& graph, const Scenario& job, const Scenario& other,
                                           const EngineOptions& options);

}  // namespace tracecast
