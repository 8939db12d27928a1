#include <algorithm>

#include "sim/reliability/job_simulation.hpp"

namespace tracecast {

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

}  // namespace tracecast
