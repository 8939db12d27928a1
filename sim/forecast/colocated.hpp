/// \file
/// Co-located jobs: two jobs on one machine whose transfers share the links of its fabric.
///
/// The nodes of the machine alternate between the jobs, beginning with the first job; when one job has all its nodes,
/// the other takes the next ones. One step of the first job is simulated. The second job starts at the same time and
/// repeats its step until the first job's step ends, at least once and at most 64 times; after that the first job runs
/// undisturbed.
#pragma once

#include "sim/base/result.hpp"
#include "sim/engine/timeline.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/io/scenario.hpp"

namespace tracecast {

/// Assigns nodes to both jobs; the nodes of the other job are missing for each of them.
/// Errors: jobs on different machines; missing GPUs; too few nodes for both.
Result<void> take_nodes_in_turn(Scenario& job, Scenario& other);

/// The machine with the nodes of both jobs.
Cluster machine_of(const Scenario& job, const Scenario& other);

/// The graphs of both jobs, with all ranks, on one machine. The other job repeats its step while the step of the job
/// lasts. `graph`: of the job, with all ranks.   Errors: those of forecast() for the other job.
Result<StepGraph> both_graphs(const StepGraph& graph, const Scenario& job, const Scenario& other);

/// The job alone, from the folded graph of both. Its classes, and everything that they use, come first. Without loads,
/// since its links also carry those of the other job.
/// `job`: its graph with all ranks, on `cluster`.
StepGraph part_of(StepGraph both, const StepGraph& job, const Cluster& cluster);

/// The first `ranks` ranks alone; the step ends with the last of them.
Timeline part_of(Timeline both, std::size_t ranks);

}  // namespace tracecast
