#include <algorithm>

#include "sim/base/integers.hpp"
#include "sim/reliability/job_simulation.hpp"

namespace tracecast {
namespace {

TimeCategory category_of(OutagePhase phase) {
  switch (phase) {
    case OutagePhase::detection:
      return TimeCategory::detection;
    case OutagePhase::diagnosis:
      return TimeCategory::diagnosis;
    case OutagePhase::waiting:
      return TimeCategory::waiting;
    case OutagePhase::restart:
    case OutagePhase::shrink:
    case OutagePhase::rejoin:
      return TimeCategory::restart;
    case OutagePhase::load:
      return TimeCategory::load;
    case OutagePhase::save:
      return TimeCategory::checkpoint;
    case OutagePhase::maintenance:
      break;
  }
  return TimeCategory::planned;
}

bool readies_node(const Timer& timer) {
  return timer.what == Timer::What::repaired || timer.what == Timer::What::replica_back;
}

}  // namespace

bool is_fragile(OutagePhase phase) {
  switch (phase) {
    case OutagePhase::restart:
    case OutagePhase::load:
    case OutagePhase::shrink:
    case OutagePhase::rejoin:
    case OutagePhase::save:
      return true;
    case OutagePhase::detection:
    case OutagePhase::diagnosis:
    case OutagePhase::waiting:
    case OutagePhase::maintenance:
      break;
  }
  return false;
}

void JobSimulation::advance_outage() {
  handle_events();
  if (now_ >= end_) return end_history();
  if (now_ >= outage().until) return end_phase();
  const bool ages = spec_.recovery.failures_in_restart;
  const JobTime event = ages ? next_event() : next_timer();
  const JobTime next = std::min({event, outage().until, end_});
  const TimeCategory category = category_of(outage().phase);
  spent(category) += next - now_;
  add_span(category, now_, next);
  if (!ages) failures_.pause(next - now_);
  now_ = next;
}

void JobSimulation::enter(OutagePhase phase, JobTime duration) {
  outage().phase = phase;
  outage().until = now_ + duration;
}

void JobSimulation::end_phase() {
  TRACECAST_ASSERT(no_node_is_lost(), "a node is in the job, a spare, in repair or on its way back");
  switch (outage().phase) {
    case OutagePhase::detection:
      return can_shrink() ? shrink() : enter(OutagePhase::diagnosis, spec_.recovery.diagnosis);
    case OutagePhase::diagnosis:
    case OutagePhase::maintenance:
      outage().swapped = false;
      return replace_nodes();
    case OutagePhase::waiting:
      return replace_nodes();
    case OutagePhase::restart:
      roll_back();  // more may have been lost than was known at first
      return load();
    case OutagePhase::shrink:
      return spec_.recovery.elastic_rollback ? load() : resume();
    case OutagePhase::save:
      return maintain();
    case OutagePhase::load:
    case OutagePhase::rejoin:
      return resume();
  }
}

void JobSimulation::begin_outage(int cause, JobTime detection) {
  if (const Running* step = step_in_progress()) spent(TimeCategory::lost) += step->done;
  state_ = Outage{.until = now_ + detection, .cause = cause, .damage = {.failed_at = now_}};
  ++history_.interruptions;
}

void JobSimulation::begin_rollback_before_spike() {
  begin_outage(-1, {});
  outage().damage.steps_at_most = std::max<std::int64_t>(0, spike_->rollback_to);
  spike_.reset();
  roll_back();
}

void JobSimulation::begin_planned_stop() {
  state_ = Outage{.phase = OutagePhase::save,
                  .until = now_ + checkpoints_.stall_of_all(storage_speed()),
                  .cause = *planned_kind_,
                  .damage = {.failed_at = now_}};
  planned_kind_.reset();
}

void JobSimulation::maintain() {
  checkpoints_.take_all(progress(), now_);
  since_checkpoint_ = 0;
  outage().damage.failed_at = now_;
  const int kind = outage().cause;
  enter(OutagePhase::maintenance, job_time(draw_s(kind_of(kind).lasts, failures_.attributes(kind))));
}

/// Nodes that are ready bring their replicas back into the job.
void JobSimulation::begin_rejoin() {
  TRACECAST_ASSERT(returning_ <= static_cast<int>(down_nodes_.size()), "a replica that returns was out of the job");
  down_nodes_.erase(down_nodes_.begin(), down_nodes_.begin() + returning_);
  returning_ = 0;
  rate_.reset();
  state_ =
      Outage{.phase = OutagePhase::rejoin, .until = now_ + spec_.recovery.reconfigure, .damage = {.failed_at = now_}};
}

/// True if the job can continue without the replicas of the missing nodes.
bool JobSimulation::can_shrink() const {
  const Outage& outage = std::get<Outage>(state_);
  const Damage& damage = outage.damage;
  const bool spoilt = damage.taken_before != kNever || damage.steps_at_most != INT64_MAX;
  const int leaving = outage.missing + outage.restarting;
  if (spec_.recovery.elastic == Elastic::off || leaving == 0 || spoilt) return false;
  std::vector<int> down = down_nodes_;
  down.insert(down.end(), outage.failed_nodes.begin(), outage.failed_nodes.end());
  return replicas_of_nodes(down) < spec_.replicas;
}

/// One replica, with those that it cannot do without, starts its processes again; the others have its states.
JobTime JobSimulation::replica_restart_time() const {
  const int parts = std::max(1, spec_.replicas / spec_.replicas_together);
  const Machine leaving{std::max(1, spec_.machine.gpus / parts), spec_.machine.gpus_per_node};
  return restart_time(spec_.recovery, leaving, SpareState::cold);
}

/// The replicas of the failed nodes leave the job. Idle spares bring them back later; those that only restart return when
/// their processes are up.
void JobSimulation::shrink() {
  Outage& outage = this->outage();
  down_nodes_.insert(down_nodes_.end(), outage.failed_nodes.begin(), outage.failed_nodes.end());
  outage.failed_nodes.clear();
  const int swaps = std::min(spares_, outage.missing);
  for (int n = 0; n < swaps; ++n) set_timer({now_ + spec_.recovery.spare_swap, Timer::What::replica_back, -1});
  spares_ -= swaps;
  for (int n = 0; n < outage.restarting; ++n) set_timer({now_ + replica_restart_time(), Timer::What::replica_back, -1});
  outage.missing = outage.restarting = 0;
  rate_.reset();
  enter(OutagePhase::shrink, spec_.recovery.reconfigure);
}

/// Spares replace missing nodes; without a spare the job waits for the next node that is ready. Then it restarts.
void JobSimulation::replace_nodes() {
  Outage& outage = this->outage();
  if (outage.missing == 0) {
    outage.failed_nodes.clear();
    outage.restarting = 0;
    const SpareState spare = outage.swapped ? spec_.recovery.spare_state : SpareState::cold;
    return enter(OutagePhase::restart, restart_time(spec_.recovery, spec_.machine, spare));
  }
  const int taken = std::min(spares_, outage.missing);
  spares_ -= taken;
  outage.missing -= taken;
  outage.swapped = outage.swapped || taken > 0;
  enter(OutagePhase::waiting, taken > 0 ? spec_.recovery.spare_swap : next_ready_node() - now_);
}

void JobSimulation::load() {
  const CheckpointStore::Copy copy = checkpoints_.best(outage().damage);
  const double speed = copy.remote ? storage_speed() : 1;
  enter(OutagePhase::load, speed < 1 ? job_time(seconds(copy.load) / speed) : copy.load);
}

/// Returns to the newest copy that survives. The work since then is lost.
void JobSimulation::roll_back() {
  const Damage& damage = outage().damage;
  const CheckpointStore::Copy copy = checkpoints_.best(damage);
  checkpoints_.forget(damage, copy.progress.steps);
  spent(TimeCategory::lost) += (spent(TimeCategory::productive) - copy.progress.productive) +
                               (spent(TimeCategory::degraded) - copy.progress.degraded);
  spent(TimeCategory::productive) = copy.progress.productive;
  spent(TimeCategory::degraded) = copy.progress.degraded;
  history_.tokens = copy.progress.tokens;
  history_.steps = copy.progress.steps;
  since_checkpoint_ = 0;
  rate_.reset();
  if (corrupted_at_ != kNever && copy.taken <= corrupted_at_) {
    corrupted_at_ = kNever;
    std::erase_if(timers_, [](const Timer& t) { return t.what == Timer::What::corruption_noticed; });
  }
}

JobTime JobSimulation::next_ready_node() const {
  const auto next = std::find_if(timers_.begin(), timers_.end(), readies_node);
  TRACECAST_ASSERT(next != timers_.end(), "every missing node is in repair");
  return next->at;
}

/// Nodes that are neither in the job nor lost to it are spares, in repair or on their way back.
bool JobSimulation::no_node_is_lost() const {
  const auto* outage = std::get_if<Outage>(&state_);
  const auto out = static_cast<int>(down_nodes_.size()) + (outage != nullptr ? outage->missing : 0);
  const auto coming = static_cast<int>(std::count_if(timers_.begin(), timers_.end(), readies_node));
  return spares_ + returning_ + coming == spec_.recovery.spares + out;
}

}  // namespace tracecast
