#include "sim/reliability/job.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/units.hpp"
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

Result<double> healthy_time_s(const TrainingCourse& course, const StepTimes& steps, double tokens) {
  std::vector<BatchRamp> parts = course.ramp;
  parts.insert(parts.begin(), BatchRamp{});  // the scenario's batch until the ramp begins
  double time = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto begin = static_cast<double>(parts[i].from_tokens);
    const double end = i + 1 < parts.size() ? std::min(tokens, static_cast<double>(parts[i + 1].from_tokens)) : tokens;
    if (end <= begin) continue;
    const Result<StepTime> step = steps.of({.global_batch = parts[i].global_batch});
    if (!step) return tl::unexpected(step.error());
    time += (end - begin) / static_cast<double>(step->tokens) * seconds(step->time);
  }
  return time;
}

namespace {

/// A minute or so for the histories and intervals of one `goodput`.
constexpr double kMostFailures = 100'000;

Result<void> check_failures(const JobSpec& spec) {
  double failures = 0;
  for (const FailureKind& kind : spec.failures.kinds)
    failures += rate_s(kind, spec.failures, spec.machine) * seconds(spec.horizon);
  const RecoveryPolicy& r = spec.recovery;
  if (r.spare_mtbf > JobTime{}) failures += seconds(spec.horizon) * r.spares / seconds(r.spare_mtbf);
  if (failures <= kMostFailures) return {};
  return fail(fmt::format(
      "{:.4g} days have {:.3g} failures (allowed: at most {:.0f} in a history: fewer days, or rarer failures)",
      seconds(spec.horizon) / kSecondsPerDay, failures, kMostFailures));
}

}  // namespace

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
  return check_failures(spec);
}

Result<History> simulate_history(const JobSpec& spec, const StepTimes& steps, std::uint64_t seed, std::uint32_t history,
                                 bool record_spans) {
  return JobSimulation(spec, steps, seed, history, record_spans).run();
}

}  // namespace tracecast
