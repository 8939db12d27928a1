/// \file
/// How many spare nodes are worth their price.
///
/// With s spares the job waits while more than s nodes are in repair. It has no failures while it waits, so the share of the
/// time that it waits is Erlang's loss formula B(s + 1, a), a: mean number of nodes in repair (docs/references.md#spares).
/// All nodes, spares included, are paid for all the time, so the cost of progress is proportional to
///
///   (nodes + s) / (1 - B(s + 1, a))
///
/// Leaves out: that spares may fail while they wait, and restarts after a wait.
#pragma once

#include "sim/reliability/job.hpp"

namespace tracecast {

/// B(servers, load): B(0) = 1, B(n) = load B(n-1) / (n + load B(n-1)).   Requires servers >= 0, load >= 0.
double erlang_loss(int servers, double load);

/// Mean number of nodes in repair of a job that never waits; a failure of several nodes counts as so many.
double mean_in_repair(const FailureModel& failures, const Machine& machine, const RecoveryPolicy& recovery);

/// Spares with the least cost of progress, at most `most`.
int cheapest_spares(const FailureModel& failures, const Machine& machine, const RecoveryPolicy& recovery, int most);

}  // namespace tracecast
