#include <algorithm>
#include <cmath>
#include <map>

#include <boost/math/distributions/poisson.hpp>

#include "sim/reliability/job.hpp"
#include "sim/reliability/spares.hpp"

namespace tracecast {
namespace {

JobTime per_1k(JobTime time, const Machine& machine, double exponent) {
  if (exponent != 1) return job_time(seconds(time) * std::pow(machine.gpus / 1000.0, exponent));
  // In two parts, since the product of the whole time and the GPUs may not fit into 64 bits.
  return JobTime{time.nanoseconds / 1000} * machine.gpus + JobTime{time.nanoseconds % 1000 * machine.gpus / 1000};
}

constexpr double kMostSpares = 1e6;

/// Nodes in repair that are exceeded in 0.1 % of the time. `in_repair`: nodes that fail together, mean number of such groups.
double rarely_exceeded(const std::map<int, double>& in_repair) {
  double sum = 0;
  for (const auto& [nodes, mean] : in_repair)
    if (mean > 0) sum += nodes * (mean < kMostSpares ? quantile(boost::math::poisson(mean), 1 - 1e-3) : mean);
  return sum;
}

}  // namespace

JobTime communicator_time(const RecoveryPolicy& r, const Machine& machine) {
  return r.communicators + per_1k(r.communicators_per_1k_ranks, machine, r.communicators_exponent);
}

JobTime restart_time(const RecoveryPolicy& r, const Machine& machine, SpareState spare) {
  JobTime time = communicator_time(r, machine) + r.warm_up;
  if (spare != SpareState::hot) time += per_1k(r.start_per_1k_ranks, machine, 1);
  if (spare == SpareState::cold) time += r.scheduler + r.container;
  return time;
}

int enough_spares(const FailureModel& failures, const Machine& machine, const RecoveryPolicy& recovery) {
  std::map<int, double> in_repair;
  for (const FailureKind& kind : failures.kinds) {
    const int nodes = nodes_taken(kind.scope, failures, machine);
    if (nodes > 0)
      in_repair[nodes] += interruption_rate_s(kind, failures, machine, recovery.flap_budget) *
                          kind.replace_probability * recovery.repair.mean_s;
  }
  const double mean = mean_in_repair(failures, machine, recovery);
  const double life_s = seconds(recovery.spare_mtbf);
  const double idle_in_repair = life_s > 0 ? recovery.repair.mean_s / (life_s + recovery.repair.mean_s) : 0;
  // Some of the spares are in repair themselves, so more are needed, of which some are in repair.
  double spares = rarely_exceeded(in_repair);
  for (double before = -1; before < spares && spares < kMostSpares;) {
    before = spares;
    std::map<int, double> with_spares = in_repair;
    with_spares[1] += idle_in_repair * std::max(0.0, spares - mean);
    spares = rarely_exceeded(with_spares);
  }
  return static_cast<int>(std::min(spares, kMostSpares));
}

}  // namespace tracecast
