#include "sim/reliability/job.hpp"

#include "sim/reliability/job_simulation.hpp"

namespace tracecast {

JobTime total(const Waterfall& waterfall) {
  JobTime sum;
  for (const JobTime& part : waterfall) sum += part;
  return sum;
}

double History::goodput() const {
  return wall == JobTime{} ? 0 : seconds(waterfall[static_cast<std::size_t>(TimeCategory::productive)]) / seconds(wall);
}

Result<void> check(const JobSpec& spec) {
  if (spec.horizon == JobTime{} && spec.course.target_tokens == 0)
    return fail("the job needs a duration or a number of tokens");
  if (spec.checkpoint.interval_steps > 0 && spec.checkpoint.tiers.empty())
    return fail("checkpoints need at least one level that keeps them");
  for (const CheckpointTier& tier : spec.checkpoint.tiers)
    if (tier.every < 1 || tier.keep < 1)
      return fail("a checkpoint level must take part in every n-th checkpoint with n >= 1, and keep a copy");
  for (const FailureKind& kind : spec.failures.kinds) {
    if (!(kind.law.mean_s > 0)) return fail("'" + kind.name + "' needs a mean time between failures");
    if (!(kind.magnitude > 0 && kind.magnitude <= 1)) return fail("'" + kind.name + "' must leave a speed in (0, 1]");
  }
  return {};
}

Result<History> simulate_history(const JobSpec& spec, const StepTimes& steps, std::uint64_t seed, std::uint32_t history,
                                 bool record_spans) {
  return JobSimulation(spec, steps, seed, history, record_spans).run();
}

}  // namespace tracecast
