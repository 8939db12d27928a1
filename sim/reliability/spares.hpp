/// \file
/// How many spare nodes are worth their price.
///
/// With s spares the job waits while more than s nodes are in repair, and it has no failures while it waits. Nodes are
/// repaired one by one, each in an exponential time with mean r; failures that take g nodes at once have the rate l_g. In
/// equilibrium as many nodes leave as come back across each number of nodes in repair:
///
///   (k + 1) P(k + 1) = sum over j <= min(k, s) of P(j) x sum over g > k - j of l_g r
///
/// and the job waits for the share W(s) = sum of P(k) over k > s of the time. If all nodes fail alone this is Erlang's loss
/// formula B(s + 1, a) for any law of the repair, a: mean number of nodes in repair (docs/references.md#spares).
/// What is paid for, spares included, is paid for all the time, so the cost of progress is proportional to
///
///   paid(s) / (1 - W(s))
///
/// Where whole machines are paid for, the first spares may be there already, and cost nothing more.
/// Leaves out: that spares may fail while they wait, and restarts after a wait.
#pragma once

#include <functional>

#include "sim/reliability/job.hpp"

namespace tracecast {

/// W(spares): the share of the time that the job waits.
double waiting_share(const FailureModel& failures, const Machine& machine, const RecoveryPolicy& recovery, int spares);

/// Mean number of nodes in repair of a job that never waits; a failure of several nodes counts as so many.
double mean_in_repair(const FailureModel& failures, const Machine& machine, const RecoveryPolicy& recovery);

/// Spares with the least cost of progress, at most `most`.
/// paid   GPUs or nodes that are paid for with so many spare nodes; never fewer with more of them
int cheapest_spares(const FailureModel& failures, const Machine& machine, const RecoveryPolicy& recovery, int most,
                    const std::function<int(int)>& paid);

}  // namespace tracecast
