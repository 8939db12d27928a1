#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/base/units.hpp"
#include "sim/reliability/job_simulation.hpp"

namespace tracecast {
namespace {

/// Random stream of the idle spares, after those of the failure processes.
constexpr std::uint32_t kSpareProcess = UINT32_MAX;

std::int64_t steps_until(std::int64_t tokens, std::int64_t goal, std::int64_t per_step) {
  return goal <= tokens ? 0 : ceil_div(goal - tokens, per_step);
}

}  // namespace

JobSimulation::JobSimulation(const JobSpec& spec, const StepTimes& steps, std::uint64_t seed, std::uint32_t history,
                             bool record)
    : spec_(spec),
      step_times_(steps),
      record_(record),
      end_(spec.horizon == JobTime{} ? kNever : spec.horizon),
      failures_(spec.failures, spec.machine, seed, history),
      spares_(spec.recovery.spares),
      spare_draws_(seed, history, kSpareProcess),
      checkpoints_(spec.checkpoint) {
  history_.events.assign(spec.failures.kinds.size(), 0);
  expect_spare_failure();
}

Result<History> JobSimulation::run() {
  while (!std::holds_alternative<Ended>(state_)) {
    if (in_outage()) {
      advance_outage();
    } else if (const auto* link = std::get_if<LinkDown>(&state_)) {
      advance(*link);
    } else if (const auto* checkpointing = std::get_if<Checkpointing>(&state_)) {
      advance(*checkpointing);
    } else if (Result<void> trained = advance(std::get<Running>(state_)); !trained) {
      return tl::unexpected(trained.error());
    }
  }
  history_.wall = now_;
  TRACECAST_ASSERT(total(history_.waterfall) == history_.wall, "every tick is counted once");
  return std::move(history_);
}

/// Between two steps the first of these that applies decides what comes next.
Result<void> JobSimulation::advance(Running running) {
  if (running.done > JobTime{}) {
    continue_step(running);
  } else if (target_is_reached()) {
    end_history();
  } else if (checkpoint_is_due()) {
    state_ = Checkpointing{checkpoints_.stall_of_next(now_, storage_speed())};
  } else if (const JobTime stop = next_stop(); now_ >= stop) {
    reach_event();
  } else if (spike_ && history_.steps >= spike_->noticed_at_step) {
    begin_rollback_before_spike();
  } else if (planned_kind_) {
    begin_planned_stop();
  } else if (returning_ > 0) {
    begin_rejoin();
  } else {
    return run_steps(stop);
  }
  return {};
}

void JobSimulation::advance(Checkpointing checkpointing) {
  const JobTime stall = std::min(checkpointing.stall_left, next_stop() - now_);
  spent(TimeCategory::checkpoint) += stall;
  run_to(now_ + stall);
  if (stall < checkpointing.stall_left) {
    state_ = Checkpointing{checkpointing.stall_left - stall};
    return reach_event();
  }
  checkpoints_.take(progress(), now_, storage_speed());
  ++history_.checkpoints;
  since_checkpoint_ = 0;
  state_ = Running{};
}

void JobSimulation::advance(LinkDown link) {
  const JobTime until = std::min(link.until, next_stop());
  spent(TimeCategory::degraded) += until - now_;
  run_to(until);
  if (now_ < link.until) return reach_event();
  std::visit([this](const auto& state) { state_ = state; }, link.interrupted);
}

/// Runs the whole steps that fit before the next event, or else begins a step.
Result<void> JobSimulation::run_steps(JobTime until) {
  const Result<StepRate> rate = current_rate();
  if (!rate) return tl::unexpected(rate.error());
  if (run_cycles(until, *rate)) return {};
  const std::int64_t fitting = (until - now_).nanoseconds / rate->step.nanoseconds;
  std::int64_t n = std::min(fitting, steps_to_next_change(*rate));
  if (spec_.checkpoint.interval_steps > 0) n = std::min(n, spec_.checkpoint.interval_steps - since_checkpoint_);
  if (n > 0) {
    run_to(now_ + n * rate->step);
    count_steps(n, *rate);
    return {};
  }
  state_ = Running{until - now_, *rate};
  run_to(until);
  reach_event();
  return {};
}

/// Runs whole cycles of steps and checkpoints in one go, with the same result as one by one. False if none fits before
/// `until`. Spans are recorded one by one.
bool JobSimulation::run_cycles(JobTime until, const StepRate& rate) {
  const std::int64_t interval = spec_.checkpoint.interval_steps;
  if (record_ || interval == 0 || since_checkpoint_ > 0) return false;
  const JobTime work = interval * rate.step;
  if (now_ + work > until || storage_speed() < 1) return false;
  const std::optional<CheckpointStore::Cycle> cycle = checkpoints_.cycle(now_, work);
  if (!cycle) return false;
  const JobTime duration = cycle->checkpoints * work + cycle->stall;
  const std::int64_t steps = cycle->checkpoints * interval;
  // A change after the last step of a cycle comes before its checkpoint, so that cycle is not run here.
  const std::int64_t cycles =
      std::min((until - now_).nanoseconds / duration.nanoseconds, (steps_to_next_change(rate) - 1) / steps);
  if (cycles <= 0) return false;
  const Progress each{interval * rate.tokens, interval, interval * rate.healthy, interval * (rate.step - rate.healthy)};
  checkpoints_.take_cycles(cycles, progress(), each, now_, work);
  now_ += cycles * duration;
  spent(TimeCategory::checkpoint) += cycles * cycle->stall;
  history_.checkpoints += cycles * cycle->checkpoints;
  count_steps(cycles * steps, rate);
  since_checkpoint_ = 0;
  return true;
}

void JobSimulation::continue_step(Running running) {
  const JobTime until = std::min(now_ + (running.rate.step - running.done), next_stop());
  running.done += until - now_;
  run_to(until);
  if (running.done < running.rate.step) {
    state_ = running;
    return reach_event();
  }
  state_ = Running{};
  count_steps(1, running.rate);
}

/// The job runs and time is at the next event or at the end of the history.
void JobSimulation::reach_event() {
  if (now_ >= end_)
    end_history();
  else
    handle_events();
}

void JobSimulation::run_to(JobTime until) {
  add_span(TimeCategory::productive, now_, until);
  now_ = until;
}

/// The step in progress counts partially.
void JobSimulation::end_history() {
  const Running* step = step_in_progress();
  if (step != nullptr && step->done > JobTime{}) {
    const StepRate& rate = step->rate;
    const JobTime productive = rate.healthy == rate.step
                                   ? step->done
                                   : job_time(seconds(step->done) * seconds(rate.healthy) / seconds(rate.step));
    spent(TimeCategory::productive) += productive;
    spent(TimeCategory::degraded) += step->done - productive;
  }
  state_ = Ended{};
}

const Running* JobSimulation::step_in_progress() const {
  const auto* link = std::get_if<LinkDown>(&state_);
  return link != nullptr ? std::get_if<Running>(&link->interrupted) : std::get_if<Running>(&state_);
}

Progress JobSimulation::progress() const {
  return {history_.tokens, history_.steps, spent(TimeCategory::productive), spent(TimeCategory::degraded)};
}

bool JobSimulation::checkpoint_is_due() const {
  return spec_.checkpoint.interval_steps > 0 && since_checkpoint_ >= spec_.checkpoint.interval_steps;
}

bool JobSimulation::target_is_reached() const {
  return spec_.course.target_tokens > 0 && history_.tokens >= spec_.course.target_tokens;
}

void JobSimulation::count_steps(std::int64_t n, const StepRate& rate) {
  history_.steps += n;
  history_.tokens += n * rate.tokens;
  spent(TimeCategory::productive) += n * rate.healthy;
  spent(TimeCategory::degraded) += n * (rate.step - rate.healthy);
  since_checkpoint_ += n;
  const TrainingCourse& course = spec_.course;
  if (!course.ramp.empty()) rate_.reset();
  if (next_spike_ < course.spikes_at_tokens.size() && history_.tokens >= course.spikes_at_tokens[next_spike_]) {
    ++next_spike_;
    on_loss_spike(course.spike_notice_steps, course.spike_rollback_steps);
  }
}

/// Steps that certainly take the same time, checkpoints aside: up to the next target, spike or step of the batch ramp.
std::int64_t JobSimulation::steps_to_next_change(const StepRate& rate) const {
  std::int64_t n = INT64_MAX;
  const auto until = [&](std::int64_t tokens) {
    n = std::min(n, std::max<std::int64_t>(1, steps_until(history_.tokens, tokens, rate.tokens)));
  };
  if (spec_.course.target_tokens > 0) until(spec_.course.target_tokens);
  if (next_spike_ < spec_.course.spikes_at_tokens.size()) until(spec_.course.spikes_at_tokens[next_spike_]);
  if (spike_) n = std::min(n, spike_->noticed_at_step - history_.steps);
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
    if (timer.what != Timer::What::degradation_end) continue;
    const FailureKind& kind = kind_of(timer.kind);
    const int speed = percent(kind.magnitude);
    if (kind.effect == Effect::slow_gpu) state.gpu_speed_percent = std::min(state.gpu_speed_percent, speed);
    if (kind.effect == Effect::slow_link) state.link_speed_percent = std::min(state.link_speed_percent, speed);
    if (kind.effect == Effect::slow_uplink) state.uplink_speed_percent = std::min(state.uplink_speed_percent, speed);
    if (kind.effect == Effect::lost_rail) state.lost_rails = 1;
  }
  state.lost_replicas = replicas_of_nodes(down_nodes_);
  return state;
}

int JobSimulation::replicas_of_nodes(const std::vector<int>& nodes) const {
  std::vector<int> groups;
  for (const int node : nodes)
    for (int r = 0; r < spec_.replicas_per_node; ++r)
      groups.push_back(static_cast<int>((std::int64_t{node} * spec_.replicas_per_node + r) % spec_.replicas) /
                       spec_.replicas_together);
  std::sort(groups.begin(), groups.end());
  return static_cast<int>(std::unique(groups.begin(), groups.end()) - groups.begin()) * spec_.replicas_together;
}

double JobSimulation::storage_speed() const {
  double speed = 1;
  for (const Timer& timer : timers_)
    if (timer.what == Timer::What::degradation_end && kind_of(timer.kind).effect == Effect::slow_storage)
      speed = std::min(speed, kind_of(timer.kind).magnitude);
  return speed;
}

Result<StepRate> JobSimulation::current_rate() {
  if (rate_) return *rate_;
  const MachineState machine = machine_state();
  for (const auto& [known, rate] : known_rates_)
    if (known == machine) return *(rate_ = rate);
  const Result<StepRate> rate = rate_of(machine);
  if (!rate) return rate;
  known_rates_.emplace_back(machine, *rate);
  return *(rate_ = *rate);
}

Result<StepRate> JobSimulation::rate_of(const MachineState& machine) const {
  const Result<StepTime> step = step_times_.of(machine);
  if (!step) return tl::unexpected(step.error());
  const Result<StepTime> healthy = step_times_.of({.global_batch = machine.global_batch});
  if (!healthy) return tl::unexpected(healthy.error());
  constexpr double kMostTokens = 9e18;
  const double most_steps = seconds(end_) / seconds(step->time);
  if (spec_.course.target_tokens == 0 && most_steps * static_cast<double>(step->tokens) > kMostTokens)
    return fail(fmt::format("{:.4g} days of steps of {:.3g} s train more than 9e18 tokens (allowed: fewer days)",
                            seconds(end_) / kSecondsPerDay, seconds(step->time)));
  TRACECAST_ASSERT(step->time > Duration{} && step->tokens > 0 && healthy->tokens > 0, "a step takes time and trains");
  const JobTime healthy_time =
      step->tokens == healthy->tokens
          ? job_time(healthy->time)
          : job_time(seconds(healthy->time) * static_cast<double>(step->tokens) / static_cast<double>(healthy->tokens));
  return StepRate{job_time(step->time), step->tokens, healthy_time};
}

void JobSimulation::add_span(TimeCategory category, JobTime begin, JobTime end) {
  if (!record_ || begin == end) return;
  const int kind = in_outage() ? outage().cause : -1;
  const std::string cause = kind < 0 ? "" : kind_of(kind).name;
  std::vector<JobSpan>& spans = history_.spans;
  if (!spans.empty() && spans.back().category == category && spans.back().cause == cause)
    spans.back().end = end;
  else
    spans.push_back({begin, end, category, cause});
}

}  // namespace tracecast
