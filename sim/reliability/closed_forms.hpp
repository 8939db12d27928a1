/// \file
/// Closed forms for checkpoints under failures. Reports print them next to the simulated results, and tests compare
/// both where the assumptions of the formulas hold.
///
/// Times are seconds as double (the mean time between failures of a job exceeds the range of integer picoseconds).
/// Source: docs/references.md#young-1974, docs/references.md#daly-2006, docs/references.md#checkpoint-interval
#pragma once

namespace tracecast {

/// Checkpointing under failures with a constant rate.
struct CheckpointRegime {
  double mtbf_s = 0;        ///< of the whole job
  double checkpoint_s = 0;  ///< stall of one checkpoint
  double restart_s = 0;     ///< from the failure until work continues
  bool failures_in_restart = true;
};

/// Expected wall time E in seconds of `work_s` seconds of work and the checkpoint after it.
///
///   E = mu e^(R/mu) (e^((tau+delta)/mu) - 1)    failures possible during restarts (Daly 2006)
///   E = (mu + R) (e^((tau+delta)/mu) - 1)       not during restarts
double segment_time_s(double work_s, const CheckpointRegime& regime);

/// tau / E.
double segment_goodput(double work_s, const CheckpointRegime& regime);

/// sqrt(2 delta mu).   Young 1974.
double young_interval_s(double checkpoint_s, double mtbf_s);

/// sqrt(2 delta mu) (1 + sqrt(delta/2mu)/3 + (delta/2mu)/9) - delta for delta < 2 mu, else mu.   Daly 2006.
double daly_interval_s(double checkpoint_s, double mtbf_s);

/// Work between checkpoints that minimises segment_time_s / work_s, with and without failures in restarts:
///   tau = mu (1 + W0(-e^(-delta/mu - 1)))
double optimal_interval_s(double checkpoint_s, double mtbf_s);

}  // namespace tracecast
