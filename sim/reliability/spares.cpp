#include "sim/reliability/spares.hpp"

namespace tracecast {

namespace {

/// B(servers, load) from that of one server less.
double next_loss(double loss, int servers, double load) { return load * loss / (servers + load * loss); }

}  // namespace

double erlang_loss(int servers, double load) {
  double loss = 1;
  for (int n = 1; n <= servers; ++n) loss = next_loss(loss, n, load);
  return loss;
}

double mean_in_repair(const FailureModel& failures, const Machine& machine, const RecoveryPolicy& recovery) {
  double mean = 0;
  for (const FailureKind& kind : failures.kinds)
    mean += nodes_taken(kind.scope, failures, machine) *
            interruption_rate_s(kind, failures, machine, recovery.flap_budget) * kind.replace_probability *
            recovery.repair.mean_s;
  return mean;
}

int cheapest_spares(const FailureModel& failures, const Machine& machine, const RecoveryPolicy& recovery, int most) {
  const double load = mean_in_repair(failures, machine, recovery);
  int best = 0;
  double least = 0;
  double loss = erlang_loss(1, load);
  for (int spares = 0; spares <= most; ++spares) {
    const double cost = (machine.nodes() + spares) / (1 - loss);
    if (spares == 0 || cost < least) {
      best = spares;
      least = cost;
    }
    loss = next_loss(loss, spares + 2, load);
  }
  return best;
}

}  // namespace tracecast
