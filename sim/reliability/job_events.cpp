#include <algorithm>

#include "sim/reliability/job_simulation.hpp"

namespace tracecast {

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
    case Timer::What::spare_fails:
      spare_may_fail();
      return false;
  }
  return false;
}

/// Idle spares fail each at rate 1/spare_mtbf. Drawn for the pool as it was filled, and thinned to those that are there.
void JobSimulation::expect_spare_failure() {
  const RecoveryPolicy& r = spec_.recovery;
  if (r.spares == 0 || r.spare_mtbf == JobTime{}) return;
  const JobTime next = job_time(spare_draws_.exponential() * seconds(r.spare_mtbf) / r.spares);
  timers_.push_back({now_ + next, Timer::What::spare_fails, -1});
}

/// A spare that failed is noticed at once (idle nodes are checked) and repaired as any other node.
void JobSimulation::spare_may_fail() {
  const auto place = static_cast<int>(spare_draws_.below(static_cast<std::uint64_t>(spec_.recovery.spares)));
  if (place < spares_) {
    --spares_;
    ++history_.spare_failures;
    timers_.push_back({now_ + job_time(draw_s(spec_.recovery.repair, spare_draws_)), Timer::What::repaired, -1});
  }
  expect_spare_failure();
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

}  // namespace tracecast
