#include "sim/reliability/job.hpp"

#include "sim/reliability/job_simulation.hpp"

namespace tracecast {

const char* to_string(Survives survives) {
  switch (survives) {
    case Survives::restart:
      return "restart";
    case Survives::one_node:
      return "one-node";
    case Survives::anything:
      return "anything";
  }
  return "";
}

const char* to_string(Elastic elastic) {
  switch (elastic) {
    case Elastic::off:
      return "off";
    case Elastic::shrink_batch:
      return "shrink-batch";
    case Elastic::keep_batch:
      return "keep-batch";
  }
  return "";
}

const char* to_string(Spent spent) {
  switch (spent) {
    case Spent::productive:
      return "productive";
    case Spent::degraded:
      return "degraded";
    case Spent::checkpoint:
      return "checkpoint";
    case Spent::lost:
      return "lost work";
    case Spent::detection:
      return "detection";
    case Spent::diagnosis:
      return "diagnosis";
    case Spent::waiting:
      return "waiting for spares";
    case Spent::restart:
      return "restart";
    case Spent::load:
      return "load";
    case Spent::planned:
      return "planned";
  }
  return "";
}

JobTime total(const Waterfall& waterfall) {
  JobTime sum;
  for (const JobTime& part : waterfall) sum += part;
  return sum;
}

double History::goodput() const {
  return wall == JobTime{} ? 0 : seconds(spent[static_cast<std::size_t>(Spent::productive)]) / seconds(wall);
}

Result<void> check(const JobSpec& spec) {
  if (spec.horizon == JobTime{} && spec.course.target_tokens == 0)
    return fail("the job has neither days nor tokens to run for");
  if (spec.checkpoint.interval_steps > 0 && spec.checkpoint.tiers.empty())
    return fail("checkpoints are taken but nowhere kept");
  for (const CheckpointTier& tier : spec.checkpoint.tiers)
    if (tier.every < 1) return fail("a level of checkpointing takes part in every n-th checkpoint, n >= 1");
  for (const FailureKind& kind : spec.failures.kinds) {
    if (!(kind.law.mean_s > 0)) return fail("'" + kind.name + "' has no mean time between failures");
    if (!(kind.magnitude > 0 && kind.magnitude <= 1))
      return fail("'" + kind.name + "' leaves a speed outside of (0, 1]");
  }
  return {};
}

Result<History> simulate_history(const JobSpec& spec, const StepTimes& steps, std::uint64_t seed, std::uint32_t history,
                                 bool record_spans) {
  return JobSimulation(spec, steps, seed, history, record_spans).run();
}

}  // namespace tracecast
