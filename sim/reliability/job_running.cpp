#include <algorithm>
#include <cmath>

#include "sim/reliability/job_simulation.hpp"

namespace tracecast {
namespace {

std::int64_t steps_until(std::int64_t tokens, std::int64_t goal, std::int64_t per_step) {
  return goal <= tokens ? 0 : (goal - tokens + per_step - 1) / per_step;
}

}  // namespace

Result<History> JobSimulation::run() {
  for (;;) {
    const Result<Ran> ran = run_until(std::min(next_event(), end_));
    if (!ran) return tl::unexpected(ran.error());
    if (*ran == Ran::to_the_target) break;
    if (*ran == Ran::to_the_limit && now_ >= end_) break;
    const bool goes_on = *ran == Ran::to_a_boundary ? boundary() : (!handle_due(false) || recover());
    if (!goes_on) break;
  }
  return finish();
}

Progress JobSimulation::progress() const {
  return {history_.tokens, history_.steps, spent(Spent::productive), spent(Spent::degraded)};
}

Result<Ran> JobSimulation::run_until(JobTime limit) {
  const JobTime begin = now_;
  const auto stop = [&](Ran why) {
    add_span(Spent::productive, begin, now_);
    return why;
  };
  const auto pass = [&](JobTime& left) {
    const JobTime step = std::min(left, limit - now_);
    now_ += step;
    left -= step;
    return step;
  };
  for (;;) {
    if (flap_left_ > JobTime{}) {
      spent(Spent::degraded) += pass(flap_left_);
      if (flap_left_ > JobTime{}) return stop(Ran::to_the_limit);
    }
    if (checkpoint_runs_) {
      spent(Spent::checkpoint) += pass(stall_left_);
      if (stall_left_ > JobTime{}) return stop(Ran::to_the_limit);
      checkpoint_runs_ = false;
      checkpoints_.take(progress(), now_, storage_speed());
      ++history_.checkpoints;
    }
    if (in_step_ > JobTime{}) {
      JobTime left = rate_.step - in_step_;
      in_step_ += pass(left);
      if (left > JobTime{}) return stop(Ran::to_the_limit);
      in_step_ = {};
      count_steps(1);
      continue;
    }
    if (spec_.course.target_tokens > 0 && history_.tokens >= spec_.course.target_tokens)
      return stop(Ran::to_the_target);
    if (checkpoint_due_) {
      checkpoint_due_ = false;
      checkpoint_runs_ = true;
      stall_left_ = checkpoints_.stall_of_next(now_, storage_speed());
      continue;
    }
    if (now_ >= limit) return stop(Ran::to_the_limit);
    if (wants_boundary()) return stop(Ran::to_a_boundary);
    if (rate_is_old_)
      if (Result<void> fresh = refresh_rate(); !fresh) return tl::unexpected(fresh.error());
    const std::int64_t whole = (limit - now_).nanoseconds / rate_.step.nanoseconds;
    if (const std::int64_t n = std::min(whole, steps_to_next_change()); n > 0) {
      now_ += n * rate_.step;
      count_steps(n);
      continue;
    }
    in_step_ = limit - now_;
    now_ = limit;
    return stop(Ran::to_the_limit);
  }
}

bool JobSimulation::wants_boundary() const {
  return planned_kind_ >= 0 || returning_ > 0 ||
         (spike_noticed_at_step_ >= 0 && history_.steps >= spike_noticed_at_step_);
}

/// Accounts n steps that have been run at rate_.
void JobSimulation::count_steps(std::int64_t n) {
  history_.steps += n;
  history_.tokens += n * rate_.tokens;
  spent(Spent::productive) += n * rate_.healthy;
  spent(Spent::degraded) += n * (rate_.step - rate_.healthy);
  since_checkpoint_ += n;
  if (spec_.checkpoint.interval_steps > 0 && since_checkpoint_ >= spec_.checkpoint.interval_steps) {
    checkpoint_due_ = true;
    since_checkpoint_ = 0;
  }
  if (!spec_.course.ramp.empty()) rate_is_old_ = true;
  if (next_spike_ < spec_.course.spikes_at_tokens.size() &&
      history_.tokens >= spec_.course.spikes_at_tokens[next_spike_]) {
    ++next_spike_;
    spike_noticed_at_step_ = history_.steps + spec_.course.spike_notice_steps;
    spike_rollback_to_ = history_.steps - spec_.course.spike_rollback_steps;
  }
}

/// Steps that certainly run alike: up to the next checkpoint, target, spike or step of the batch ramp.
std::int64_t JobSimulation::steps_to_next_change() const {
  std::int64_t n = INT64_MAX;
  const auto until = [&](std::int64_t tokens) {
    n = std::min(n, std::max<std::int64_t>(1, steps_until(history_.tokens, tokens, rate_.tokens)));
  };
  if (spec_.checkpoint.interval_steps > 0) n = spec_.checkpoint.interval_steps - since_checkpoint_;
  if (spec_.course.target_tokens > 0) until(spec_.course.target_tokens);
  if (next_spike_ < spec_.course.spikes_at_tokens.size()) until(spec_.course.spikes_at_tokens[next_spike_]);
  if (spike_noticed_at_step_ >= 0) n = std::min(n, spike_noticed_at_step_ - history_.steps);
  for (const BatchRamp& ramp : spec_.course.ramp)
    if (ramp.from_tokens > history_.tokens) until(ramp.from_tokens);
  return n;
}

std::int64_t JobSimulation::global_batch() const {
  std::int64_t batch = 0;
  for (const BatchRamp& ramp : spec_.course.ramp)
    if (ramp.from_tokens <= history_.tokens) batch = ramp.global_batch;
  return batch;
}

MachineState JobSimulation::machine_state() const {
  MachineState state;
  state.global_batch = global_batch();
  const auto percent = [](double speed) { return std::max(1, static_cast<int>(std::lround(100 * speed))); };
  for (const Timer& timer : timers_) {
    if (timer.what != Timer::What::trouble_over) continue;
    const FailureKind& kind = kind_of(timer.kind);
    const int speed = percent(kind.magnitude);
    if (kind.effect == Effect::slow_gpu) state.gpu_speed_percent = std::min(state.gpu_speed_percent, speed);
    if (kind.effect == Effect::slow_link) state.link_speed_percent = std::min(state.link_speed_percent, speed);
    if (kind.effect == Effect::slow_uplink) state.uplink_speed_percent = std::min(state.uplink_speed_percent, speed);
    if (kind.effect == Effect::lost_rail) state.lost_rails = 1;
  }
  std::vector<int> out;
  for (const int node : down_nodes_)
    for (int r = 0; r < spec_.replicas_per_node; ++r)
      out.push_back(static_cast<int>((std::int64_t{node} * spec_.replicas_per_node + r) % spec_.replicas));
  std::sort(out.begin(), out.end());
  state.lost_replicas = static_cast<int>(std::unique(out.begin(), out.end()) - out.begin());
  return state;
}

double JobSimulation::storage_speed() const {
  double speed = 1;
  for (const Timer& timer : timers_)
    if (timer.what == Timer::What::trouble_over && kind_of(timer.kind).effect == Effect::slow_storage)
      speed = std::min(speed, kind_of(timer.kind).magnitude);
  return speed;
}

Result<void> JobSimulation::refresh_rate() {
  const MachineState state = machine_state();
  rate_is_old_ = false;
  for (const auto& [known, rate] : rates_) {
    if (known != state) continue;
    rate_ = rate;
    return {};
  }
  const Result<StepTime> step = steps_source_.of(state);
  if (!step) return tl::unexpected(step.error());
  const Result<StepTime> healthy = steps_source_.of({.global_batch = state.global_batch});
  if (!healthy) return tl::unexpected(healthy.error());
  TRACECAST_ASSERT(step->time > Duration{} && step->tokens > 0 && healthy->tokens > 0, "a step takes time and trains");
  rate_.step = job_time(step->time);
  rate_.tokens = step->tokens;
  rate_.healthy =
      step->tokens == healthy->tokens
          ? job_time(healthy->time)
          : job_time(seconds(healthy->time) * static_cast<double>(step->tokens) / static_cast<double>(healthy->tokens));
  rates_.emplace_back(state, rate_);
  return {};
}

}  // namespace tracecast
