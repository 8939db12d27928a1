#include <cmath>
#include <map>

#include <boost/math/distributions/poisson.hpp>

#include "sim/reliability/job.hpp"

namespace tracecast {
namespace {

JobTime per_1k(JobTime time, const Machine& machine, double exponent) {
  if (exponent != 1) return job_time(seconds(time) * std::pow(machine.gpus / 1000.0, exponent));
  // In two parts, since the product of the whole time and the GPUs may not fit into 64 bits.
  return JobTime{time.nanoseconds / 1000} * machine.gpus + JobTime{time.nanoseconds % 1000 * machine.gpus / 1000};
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
  constexpr double kShortage = 1e-3;
  constexpr double kMost = 1e6;
  std::map<int, double> in_repair;  // nodes that fail together: mean number of such groups
  for (const FailureKind& kind : failures.kinds) {
    const int nodes = nodes_taken(kind.scope, failures, machine);
    if (nodes > 0)
      in_repair[nodes] += interruption_rate_s(kind, failures, machine, recovery.flap_budget) *
                          kind.replace_probability * recovery.repair.mean_s;
  }
  double spares = 0;
  for (const auto& [nodes, mean] : in_repair)
    if (mean > 0) spares += nodes * (mean < kMost ? quantile(boost::math::poisson(mean), 1 - kShortage) : mean);
  return static_cast<int>(std::min(spares, kMost));
}

}  // namespace tracecast
