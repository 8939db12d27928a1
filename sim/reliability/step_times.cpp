#include "sim/reliability/step_times.hpp"

namespace tracecast {

Result<StepTime> CachedStepTimes::of(const MachineState& state) const {
  const std::scoped_lock lock(mutex_);
  const auto found = known_.find(state);
  if (found != known_.end()) return found->second;
  return known_.emplace(state, source_.of(state)).first->second;
}

std::vector<std::pair<MachineState, StepTime>> CachedStepTimes::known() const {
  const std::scoped_lock lock(mutex_);
  std::vector<std::pair<MachineState, StepTime>> all;
  for (const auto& [state, step] : known_)
    if (step) all.emplace_back(state, *step);
  return all;
}

Result<StepTime> FixedStepTimes::of(const MachineState& state) const {
  if (const auto found = table.find(state); found != table.end()) return found->second;
  MachineState rest = state;
  rest.lost_replicas = 0;
  if (rest != MachineState{}) return fail("the step time of this state of the machine is not known");
  StepTime step = healthy;
  step.tokens = healthy.tokens * (replicas - state.lost_replicas) / replicas;
  return step;
}

}  // namespace tracecast
