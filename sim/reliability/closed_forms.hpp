/// Failures, checkpoints and spares with paper and pencil: the formulas that the job simulation is held to
/// where they hold, and that its answers are printed beside.
///
/// Times are seconds as double (a job's mean time between failures does not fit into integer picoseconds).
/// Source: DOMAIN.md 7; tests T-G1 to T-G6.
#pragma once

#include <cstdint>

namespace tracecast {

/// Checkpointing under failures that come at random with a constant rate.
struct CheckpointRegime {
  double mtbf_s = 0;        ///< of the whole job
  double checkpoint_s = 0;  ///< stall of one checkpoint
  double restart_s = 0;     ///< from the failure until work goes on
  bool failures_in_restart = true;
};

/// Expected wall time of `work_s` seconds of work and the checkpoint after it.
///
///   E = mu e^(R/mu) (e^((tau+delta)/mu) - 1)    failures possible during restarts (Daly 2006)
///   E = (mu + R) (e^((tau+delta)/mu) - 1)       not during restarts
double segment_time_s(double work_s, const CheckpointRegime& regime);

/// tau / E.
double segment_goodput(double work_s, const CheckpointRegime& regime);

/// 1 - delta/tau - (tau/2 + R)/mu.   Pessimistic unless tau and R are much smaller than mu.
double first_order_goodput(double work_s, const CheckpointRegime& regime);

/// The same with asynchronous checkpoints: the job stalls `checkpoint_s`, and the copy is safe `persist_s`
/// later.
///   1 - delta/tau - (tau/2 + persist + R)/mu
double first_order_async_goodput(double work_s, double persist_s, const CheckpointRegime& regime);

/// sqrt(2 delta mu).   Young 1974.
double young_interval_s(double checkpoint_s, double mtbf_s);

/// sqrt(2 delta mu) (1 + sqrt(delta/2mu)/3 + (delta/2mu)/9) - delta for delta < 2 mu, else mu.   Daly 2006.
double daly_interval_s(double checkpoint_s, double mtbf_s);

/// The work between checkpoints that minimises segment_time_s / work_s, for either kind of restart:
///   tau = mu (1 + W0(-e^(-delta/mu - 1)))
double optimal_interval_s(double checkpoint_s, double mtbf_s);

/// Mean time to failure of a job of `parts` parts that fail with `rate_per_part_s` each: 1 / (parts x rate).
double mean_time_to_failure_s(double parts, double rate_per_part_s);

/// Mean number of nodes in repair: nodes x rate x repair (Little's law), whatever the law of the repair time.
double expected_in_repair(double nodes, double rate_per_node_s, double repair_s);

/// Probability that more than `spares` nodes are in repair, when the number of failing nodes does not shrink
/// with those in repair (a spare takes each place): P(Poisson(mean) > spares), M/G/infinity.
double shortage_poisson(double mean_in_repair, int spares);

/// The same when a node in repair has nobody in its place and so fails no more: P(Binomial(nodes, p) >
/// spares) with p = a / (1 + a), a = rate x repair of one node.
double shortage_binomial(int nodes, double rate_per_node_s, double repair_s, int spares);

/// Share of time that a job waits for a node when it needs all its nodes and does not age while it waits: the
/// number in repair is Poisson truncated at spares + 1, and the job waits while it is there. Erlang's loss
/// formula with spares + 1 servers; it holds for every law of the repair time with that mean (M/G/c/c).
double waiting_share(double mean_in_repair, int spares);

/// Expected throughput with data-parallel replicas that drop out and come back, relative to all of them
/// running:
///   1 - E[replicas down] / replicas - failures per second x reconfiguration
double elastic_throughput(double replicas, double mean_replicas_down, double failure_rate_s, double reconfigure_s);

/// Mean of the largest of n independent standard normal variables: with a relative step-time noise sigma per
/// rank, a synchronous step takes 1 + sigma x this.   Requires n >= 1.
double expected_maximum_of_normals(std::int64_t n);

}  // namespace tracecast
