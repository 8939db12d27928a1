/// \file
/// Co-located jobs: jobs on one machine whose transfers share the links of its fabric.
///
/// Each job has whole nodes of its own (JobPlacement). One step of one job is simulated. The others start at the same time and
/// repeat their steps until that job's step ends, each at least once and at most 64 times; after that the job runs
/// undisturbed.
/// Leaves out: other times at which the jobs' steps begin, and storage traffic.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/engine/timeline.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/io/scenario.hpp"

namespace tracecast {

/// Assigns nodes to the jobs; the nodes of all other jobs are missing for each of them. Network faults of each job are those of its
/// own nodes, or of the machine that all share: each job gets all of them. Of a tier's uplinks that several jobs say are lost, the
/// largest share.
/// Errors: jobs on different machines; missing GPUs; several sites; packed documents; too few nodes for all; faults that together
/// leave a host no NIC.
Result<void> assign_nodes(std::vector<Scenario>& jobs, JobPlacement placement);

/// "a, b run on the nodes in between": the jobs after the first.
std::string neighbours_text(const std::vector<Scenario>& jobs, JobPlacement placement);

/// The machine with the nodes of all jobs.
Cluster machine_of(const Scenario& job, std::span<const Scenario> others);

/// The graphs of all jobs, with all ranks, on one machine. The others repeat their steps while the step of the job
/// lasts. `graph`: of the job, with all ranks.   Errors: those of forecast() for the other jobs.
Result<StepGraph> all_graphs(const StepGraph& graph, const Scenario& job, std::span<const Scenario> others);

/// The job alone, from the folded graph of all. Its classes, and everything that they use, come first. Without loads,
/// since its links also carry those of the other jobs.
/// `job`: its graph with all ranks, on `cluster`.
StepGraph part_of(StepGraph all, const StepGraph& job, const Cluster& cluster);

/// The first `ranks` ranks alone; the step ends with the last of them.
Timeline part_of(Timeline all, std::size_t ranks);

}  // namespace tracecast
