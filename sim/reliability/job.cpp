#include "sim/reliability/job.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/reliability/checkpoint_store.hpp"
#include "sim/reliability/failure_processes.hpp"

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

namespace {

/// One step of the machine as it is now.
struct Rate {
  JobTime step;
  std::int64_t tokens = 0;
  JobTime healthy;  ///< what a healthy machine needs for these tokens
};

/// Something that was set off and will happen.
struct Timer {
  enum class What { repaired, replica_back, trouble_over, corruption_noticed };
  JobTime at;
  What what = What::repaired;
  int kind = -1;  ///< of the trouble
  bool operator==(const Timer&) const = default;
};

enum class Stood { to_the_end, failed_again, out_of_time };
enum class Ran { to_the_limit, to_a_boundary, to_the_target };

std::int64_t steps_until(std::int64_t tokens, std::int64_t goal, std::int64_t per_step) {
  return goal <= tokens ? 0 : (goal - tokens + per_step - 1) / per_step;
}

class JobSimulation {
 public:
  JobSimulation(const JobSpec& spec, const StepTimes& steps, std::uint64_t seed, std::uint32_t history, bool record)
      : spec_(spec),
        steps_source_(steps),
        failures_(spec.failures, spec.machine, seed, history),
        checkpoints_(spec.checkpoint),
        end_(spec.horizon == JobTime{} ? kNever : spec.horizon),
        spares_(spec.recovery.spares),
        record_(record) {
    history_.events.assign(spec.failures.kinds.size(), 0);
  }

  Result<History> run();

 private:
  // Running.
  Result<Ran> run_until(JobTime limit);
  bool wants_boundary() const;
  void count_steps(std::int64_t n);
  std::int64_t steps_to_next_change() const;
  Result<void> refresh_rate();
  MachineState machine_state() const;
  std::int64_t global_batch() const;
  double storage_speed() const;
  Progress progress() const;

  // Events.
  JobTime next_event() const;
  std::size_t next_timer() const;
  /// Handles what is due at now_. True when something stops the job.
  bool handle_due(bool standing);
  bool handle_timer(const Timer& timer, bool standing);
  bool strike(int kind, bool standing);
  bool stops(int kind, bool standing, JobTime detection);
  JobTime hang_detection(int kind);
  bool strikes_a_part_that_is_out(const FailureKind& kind, RandomStream& random);
  void take_out(int nodes, RandomStream& random);

  // Standing.
  void begin_outage(JobTime detection);
  void end_outage();
  Stood stand(Spent what, JobTime duration, bool fragile);
  JobTime next_repair() const;
  Stood wait_for_nodes();
  bool recover();
  Stood recover_once();
  Stood recover_elastically();
  bool can_go_on_without() const;
  void roll_back();
  Stood restart();
  Stood load();
  JobTime restart_time() const;
  bool boundary();  ///< between two steps: a planned stop, a replica taken back, a loss spike; false: out of time
  Stood planned_stop();
  Stood take_back();

  JobTime& spent(Spent what) { return history_.spent[static_cast<std::size_t>(what)]; }
  JobTime spent(Spent what) const { return history_.spent[static_cast<std::size_t>(what)]; }
  const FailureKind& kind_of(int kind) const { return spec_.failures.kinds[static_cast<std::size_t>(kind)]; }
  void add_span(Spent what, JobTime begin, JobTime end);
  History finish();

  const JobSpec& spec_;
  const StepTimes& steps_source_;
  FailureProcesses failures_;
  CheckpointStore checkpoints_;
  JobTime end_;
  History history_;

  JobTime now_;
  Rate rate_;
  bool rate_is_old_ = true;
  std::vector<std::pair<MachineState, Rate>> rates_;
  JobTime in_step_;     ///< time of the step in progress, not accounted yet
  JobTime stall_left_;  ///< of the checkpoint being taken
  JobTime flap_left_;   ///< until a link is back
  bool checkpoint_due_ = false;
  bool checkpoint_runs_ = false;
  std::int64_t since_checkpoint_ = 0;

  std::vector<Timer> timers_;
  std::vector<int> down_nodes_;  ///< out of the job, replicas with them (elastic)
  int returning_ = 0;            ///< of those, nodes that are there again and wait for the end of the step
  int planned_kind_ = -1;        ///< a planned stop waits for the end of the step
  JobTime corrupted_at_ = kNever;
  std::int64_t spike_noticed_at_step_ = -1;
  std::int64_t spike_rollback_to_ = 0;
  std::size_t next_spike_ = 0;
  int spares_;

  // The outage being recovered from.
  Damage damage_;
  JobTime detection_;
  int missing_ = 0;  ///< nodes to be replaced before the job can start
  int cause_ = -1;
  bool swapped_ = false;           ///< a spare took part
  int struck_node_ = 0;            ///< by the failure at hand (elastic continuation)
  std::vector<int> failed_nodes_;  ///< the missing ones, by number (elastic continuation)
  bool record_;
};

// --- Running -----------------------------------------------------------------------------------------------------

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
    if (spec_.target_tokens > 0 && history_.tokens >= spec_.target_tokens) return stop(Ran::to_the_target);
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
  if (!spec_.ramp.empty()) rate_is_old_ = true;
  if (next_spike_ < spec_.spikes_at_tokens.size() && history_.tokens >= spec_.spikes_at_tokens[next_spike_]) {
    ++next_spike_;
    spike_noticed_at_step_ = history_.steps + spec_.spike_notice_steps;
    spike_rollback_to_ = history_.steps - spec_.spike_rollback_steps;
  }
}

/// Steps that certainly run alike: up to the next checkpoint, target, spike or step of the batch ramp.
std::int64_t JobSimulation::steps_to_next_change() const {
  std::int64_t n = INT64_MAX;
  const auto until = [&](std::int64_t tokens) {
    n = std::min(n, std::max<std::int64_t>(1, steps_until(history_.tokens, tokens, rate_.tokens)));
  };
  if (spec_.checkpoint.interval_steps > 0) n = spec_.checkpoint.interval_steps - since_checkpoint_;
  if (spec_.target_tokens > 0) until(spec_.target_tokens);
  if (next_spike_ < spec_.spikes_at_tokens.size()) until(spec_.spikes_at_tokens[next_spike_]);
  if (spike_noticed_at_step_ >= 0) n = std::min(n, spike_noticed_at_step_ - history_.steps);
  for (const BatchRamp& ramp : spec_.ramp)
    if (ramp.from_tokens > history_.tokens) until(ramp.from_tokens);
  return n;
}

std::int64_t JobSimulation::global_batch() const {
  std::int64_t batch = 0;
  for (const BatchRamp& ramp : spec_.ramp)
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

// --- Events ------------------------------------------------------------------------------------------------------

std::size_t JobSimulation::next_timer() const {
  std::size_t best = timers_.size();
  for (std::size_t i = 0; i < timers_.size(); ++i)
    if (best == timers_.size() || timers_[i].at < timers_[best].at) best = i;
  return best;
}

JobTime JobSimulation::next_event() const {
  const std::size_t timer = next_timer();
  return timer == timers_.size() ? failures_.next() : std::min(failures_.next(), timers_[timer].at);
}

bool JobSimulation::handle_due(bool standing) {
  bool stopped = false;
  while (next_event() <= now_) {
    const std::size_t index = next_timer();
    if (index < timers_.size() && timers_[index].at <= failures_.next()) {
      const Timer timer = timers_[index];
      timers_.erase(timers_.begin() + static_cast<std::ptrdiff_t>(index));
      stopped |= handle_timer(timer, standing || stopped);
    } else {
      const int kind = failures_.next_kind();
      failures_.pop();
      stopped |= strike(kind, standing || stopped);
    }
  }
  return stopped;
}

bool JobSimulation::handle_timer(const Timer& timer, bool standing) {
  switch (timer.what) {
    case Timer::What::repaired:
      if (missing_ == 0 && static_cast<int>(down_nodes_.size()) > returning_)
        ++returning_;
      else
        ++spares_;
      return false;
    case Timer::What::replica_back:
      ++returning_;
      return false;
    case Timer::What::trouble_over:
      rate_is_old_ = true;
      return false;
    case Timer::What::corruption_noticed:
      if (corrupted_at_ == kNever) return false;
      damage_.taken_before = std::min(damage_.taken_before, corrupted_at_);
      return stops(timer.kind, standing, {});
  }
  return false;
}

/// One more thing goes wrong. True when the job stops (or, standing, would have).
bool JobSimulation::strike(int index, bool standing) {
  const FailureKind& kind = kind_of(index);
  RandomStream& random = failures_.attributes(index);
  if (strikes_a_part_that_is_out(kind, random)) return false;
  ++history_.events[static_cast<std::size_t>(index)];
  switch (kind.effect) {
    case Effect::crash:
      return stops(index, standing, spec_.recovery.crash_detection);
    case Effect::hang:
      return stops(index, standing, hang_detection(index));
    case Effect::link_flap: {
      const JobTime away = job_time(draw_s(kind.lasts, random));
      if (away >= spec_.recovery.flap_budget) return stops(index, standing, hang_detection(index));
      if (!standing) flap_left_ = std::max(flap_left_, away);
      return false;
    }
    case Effect::corruption:
      if (standing) return false;
      corrupted_at_ = std::min(corrupted_at_, now_);
      timers_.push_back({now_ + job_time(draw_s(kind.latency, random)), Timer::What::corruption_noticed, index});
      return false;
    case Effect::loss_spike:
      if (standing || spike_noticed_at_step_ >= 0) return false;
      spike_noticed_at_step_ = history_.steps + kind.notice_steps;
      spike_rollback_to_ = history_.steps - kind.rollback_steps;
      return false;
    case Effect::planned:
      if (!standing) planned_kind_ = index;
      return false;
    case Effect::slow_gpu:
    case Effect::slow_link:
    case Effect::lost_rail:
    case Effect::slow_uplink:
    case Effect::slow_storage:
      timers_.push_back({now_ + job_time(draw_s(kind.lasts, random)), Timer::What::trouble_over, index});
      rate_is_old_ = true;
      return false;
  }
  return false;
}

/// With elastic continuation the machine is smaller while nodes are out; what strikes them there strikes nobody.
bool JobSimulation::strikes_a_part_that_is_out(const FailureKind& kind, RandomStream& random) {
  if (spec_.recovery.elastic == Elastic::off) return false;
  struck_node_ = static_cast<int>(random.below(static_cast<std::uint64_t>(spec_.machine.nodes())));
  return kind.per != Per::job && std::find(down_nodes_.begin(), down_nodes_.end(), struck_node_) != down_nodes_.end();
}

JobTime JobSimulation::hang_detection(int kind) {
  const RecoveryPolicy& r = spec_.recovery;
  if (r.watchdog_poll == JobTime{}) return r.collective_timeout;
  const double phase = failures_.attributes(kind).uniform();
  return std::min(r.collective_timeout, job_time(phase * seconds(r.watchdog_poll)) + r.watchdog_threshold);
}

/// Nodes leave for repair and have to be replaced.
void JobSimulation::take_out(int nodes, RandomStream& random) {
  damage_.nodes += nodes;
  missing_ += nodes;
  for (int n = 0; n < nodes; ++n) {
    failed_nodes_.push_back((struck_node_ + n) % spec_.machine.nodes());
    timers_.push_back({now_ + job_time(draw_s(spec_.recovery.repair, random)), Timer::What::repaired, -1});
  }
}

/// Begins an outage, or adds to the one that is going on.
bool JobSimulation::stops(int index, bool standing, JobTime detection) {
  const FailureKind& kind = kind_of(index);
  RandomStream& random = failures_.attributes(index);
  if (!standing) {
    spent(Spent::lost) += in_step_;
    in_step_ = stall_left_ = flap_left_ = {};
    checkpoint_due_ = checkpoint_due_ || checkpoint_runs_;
    checkpoint_runs_ = false;
    begin_outage(detection);
    cause_ = index;
    ++history_.interruptions;
  }
  const bool replaced = kind.replace_probability >= 1 || random.uniform() <= kind.replace_probability;
  if (replaced) take_out(nodes_taken(kind.scope, spec_.failures, spec_.machine), random);
  const bool others_hold_the_state = can_go_on_without() && !spec_.recovery.elastic_rollback;
  if (!standing && !others_hold_the_state) roll_back();
  return true;
}

// --- Standing ----------------------------------------------------------------------------------------------------

/// Time passes without work. Fragile: a failure in it spoils it.
Stood JobSimulation::stand(Spent what, JobTime duration, bool fragile) {
  const JobTime begin = now_;
  const JobTime until = now_ + duration;
  const auto stop = [&](Stood how) {
    add_span(what, begin, now_);
    return how;
  };
  for (;;) {
    if (handle_due(true) && fragile) return stop(Stood::failed_again);
    if (now_ >= end_) return stop(Stood::out_of_time);
    if (now_ >= until) return stop(Stood::to_the_end);
    const bool ages = spec_.recovery.failures_in_restart;
    const std::size_t timer = next_timer();
    const JobTime event = ages ? next_event() : (timer == timers_.size() ? kNever : timers_[timer].at);
    const JobTime next = std::min({event, until, end_});
    spent(what) += next - now_;
    if (!ages) failures_.pause(next - now_);
    now_ = next;
  }
}

/// The newest copy that is left; the work since is lost.
void JobSimulation::roll_back() {
  const CheckpointStore::Copy copy = checkpoints_.best(damage_);
  checkpoints_.forget(damage_, copy.progress.steps);
  spent(Spent::lost) +=
      (spent(Spent::productive) - copy.progress.productive) + (spent(Spent::degraded) - copy.progress.degraded);
  spent(Spent::productive) = copy.progress.productive;
  spent(Spent::degraded) = copy.progress.degraded;
  history_.tokens = copy.progress.tokens;
  history_.steps = copy.progress.steps;
  since_checkpoint_ = 0;
  checkpoint_due_ = false;
  rate_is_old_ = true;
  if (corrupted_at_ != kNever && copy.taken <= corrupted_at_) {
    corrupted_at_ = kNever;
    std::erase_if(timers_, [](const Timer& t) { return t.what == Timer::What::corruption_noticed; });
  }
}

JobTime JobSimulation::restart_time() const {
  const RecoveryPolicy& r = spec_.recovery;
  const JobTime processes = r.hot_spares && swapped_ ? JobTime{} : r.scheduler + r.container;
  const JobTime bootstrap{r.communicators_per_1k_ranks.nanoseconds * spec_.machine.gpus / 1000};
  return processes + r.communicators + bootstrap + r.warm_up;
}

JobTime JobSimulation::next_repair() const {
  JobTime soonest = kNever;
  for (const Timer& timer : timers_)
    if (timer.what == Timer::What::repaired) soonest = std::min(soonest, timer.at);
  TRACECAST_ASSERT(soonest != kNever, "every node that is missing is being repaired");
  return soonest;
}

Stood JobSimulation::wait_for_nodes() {
  swapped_ = false;
  while (missing_ > 0) {
    const int taken = std::min(spares_, missing_);
    spares_ -= taken;
    missing_ -= taken;
    swapped_ = swapped_ || taken > 0;
    const JobTime wait = taken > 0 ? spec_.recovery.spare_swap : next_repair() - now_;
    if (const Stood how = stand(Spent::waiting, wait, false); how != Stood::to_the_end) return how;
  }
  return Stood::to_the_end;
}

Stood JobSimulation::recover_once() {
  if (const Stood how = stand(Spent::detection, detection_, false); how != Stood::to_the_end) return how;
  if (can_go_on_without()) return recover_elastically();
  if (const Stood how = stand(Spent::diagnosis, spec_.recovery.diagnosis, false); how != Stood::to_the_end) return how;
  return restart();
}

/// False: the history ended first.
bool JobSimulation::recover() {
  for (;;) {
    const Stood how = recover_once();
    if (how == Stood::out_of_time) return false;
    if (how == Stood::to_the_end) break;
    // It failed again: from the beginning, with the damage of both.
    ++history_.interruptions;
    detection_ = spec_.recovery.crash_detection;
  }
  end_outage();
  return true;
}

bool JobSimulation::can_go_on_without() const {
  const bool spoilt = damage_.taken_before != kNever || damage_.steps_at_most != INT64_MAX;
  if (spec_.recovery.elastic == Elastic::off || missing_ == 0 || spoilt) return false;
  const int most = (missing_ + static_cast<int>(down_nodes_.size())) * spec_.replicas_per_node;
  return most < spec_.replicas;
}

/// The replicas of the failed nodes leave the job; spares, where there are any, bring them back.
Stood JobSimulation::recover_elastically() {
  down_nodes_.insert(down_nodes_.end(), failed_nodes_.begin(), failed_nodes_.end());
  failed_nodes_.clear();
  const int swaps = std::min(spares_, missing_);
  for (int n = 0; n < swaps; ++n) timers_.push_back({now_ + spec_.recovery.spare_swap, Timer::What::replica_back, -1});
  spares_ -= swaps;
  missing_ = 0;
  rate_is_old_ = true;
  if (const Stood how = stand(Spent::restart, spec_.recovery.reconfigure, true); how != Stood::to_the_end) return how;
  return spec_.recovery.elastic_rollback ? load() : Stood::to_the_end;
}

/// Restart with all nodes there, and load.
Stood JobSimulation::restart() {
  if (const Stood how = wait_for_nodes(); how != Stood::to_the_end) return how;
  failed_nodes_.clear();
  if (const Stood how = stand(Spent::restart, restart_time(), true); how != Stood::to_the_end) return how;
  roll_back();  // more may have been lost than was known at first
  return load();
}

Stood JobSimulation::load() {
  const CheckpointStore::Copy copy = checkpoints_.best(damage_);
  const double speed = copy.remote ? storage_speed() : 1;
  return stand(Spent::load, speed < 1 ? job_time(seconds(copy.load) / speed) : copy.load, true);
}

Stood JobSimulation::planned_stop() {
  const FailureKind& kind = kind_of(planned_kind_);
  RandomStream& random = failures_.attributes(planned_kind_);
  cause_ = planned_kind_;
  planned_kind_ = -1;
  if (const Stood how = stand(Spent::checkpoint, checkpoints_.stall_of_all(storage_speed()), true);
      how != Stood::to_the_end)
    return how;
  checkpoints_.take_all(progress(), now_);
  checkpoint_due_ = false;
  since_checkpoint_ = 0;
  damage_.failed_at = now_;
  if (const Stood how = stand(Spent::planned, job_time(draw_s(kind.lasts, random)), false); how != Stood::to_the_end)
    return how;
  return restart();
}

/// Nodes that are there again take their replicas back into the job.
Stood JobSimulation::take_back() {
  const auto back = std::min(down_nodes_.size(), static_cast<std::size_t>(returning_));
  down_nodes_.erase(down_nodes_.begin(), down_nodes_.begin() + static_cast<std::ptrdiff_t>(back));
  returning_ = 0;
  rate_is_old_ = true;
  return stand(Spent::restart, spec_.recovery.reconfigure, true);
}

void JobSimulation::begin_outage(JobTime detection) {
  damage_.failed_at = now_;
  detection_ = detection;
  missing_ = 0;
  failed_nodes_.clear();
}

void JobSimulation::end_outage() {
  damage_ = {};
  cause_ = -1;
}

bool JobSimulation::boundary() {
  begin_outage({});
  if (spike_noticed_at_step_ >= 0 && history_.steps >= spike_noticed_at_step_) {
    damage_.steps_at_most = std::max<std::int64_t>(0, spike_rollback_to_);
    spike_noticed_at_step_ = -1;
    ++history_.interruptions;
    roll_back();
    return recover();
  }
  const Stood how = planned_kind_ >= 0 ? planned_stop() : take_back();
  if (how == Stood::failed_again) {
    ++history_.interruptions;
    detection_ = spec_.recovery.crash_detection;
    return recover();
  }
  end_outage();
  return how == Stood::to_the_end;
}

void JobSimulation::add_span(Spent what, JobTime begin, JobTime end) {
  if (!record_ || begin == end) return;
  const std::string cause = what == Spent::productive || cause_ < 0 ? "" : kind_of(cause_).name;
  std::vector<JobSpan>& spans = history_.spans;
  if (!spans.empty() && spans.back().spent == what && spans.back().cause == cause)
    spans.back().end = end;
  else
    spans.push_back({begin, end, what, cause});
}

/// The step in progress counts as far as it has come.
History JobSimulation::finish() {
  if (in_step_ > JobTime{}) {
    const JobTime productive = rate_.healthy == rate_.step
                                   ? in_step_
                                   : job_time(seconds(in_step_) * seconds(rate_.healthy) / seconds(rate_.step));
    spent(Spent::productive) += productive;
    spent(Spent::degraded) += in_step_ - productive;
  }
  history_.wall = now_;
  TRACECAST_ASSERT(total(history_.spent) == history_.wall, "every tick is counted once");
  return std::move(history_);
}

}  // namespace

Result<void> check(const JobSpec& spec) {
  if (spec.horizon == JobTime{} && spec.target_tokens == 0)
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
