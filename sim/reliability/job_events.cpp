#include <algorithm>

#include "sim/reliability/job_simulation.hpp"

namespace tracecast {

JobTime JobSimulation::next_timer() const { return timers_.empty() ? kNever : timers_.front().at; }

void JobSimulation::set_timer(const Timer& timer) {
  const auto sooner = [](const Timer& a, const Timer& b) { return a.at < b.at; };
  timers_.insert(std::upper_bound(timers_.begin(), timers_.end(), timer, sooner), timer);
}

JobTime JobSimulation::next_event() const { return std::min(failures_.next(), next_timer()); }

/// Handles everything that is due now, in order of time; at one time timers come before failures.
void JobSimulation::handle_events() {
  while (next_event() <= now_) {
    if (!timers_.empty() && next_timer() <= failures_.next()) {
      const Timer timer = timers_.front();
      timers_.erase(timers_.begin());
      handle_timer(timer);
    } else {
      const int kind = failures_.next_kind();
      failures_.pop();
      on_failure(kind);
    }
  }
}

void JobSimulation::handle_timer(const Timer& timer) {
  switch (timer.what) {
    case Timer::What::repaired:
    case Timer::What::replica_back:
      return on_node_ready();
    case Timer::What::degradation_end:
      rate_.reset();
      return;
    case Timer::What::corruption_noticed:
      if (corrupted_at_ != kNever) on_interruption(timer.kind, {}, corrupted_at_);
      return;
    case Timer::What::spare_fails:
      on_spare_failure();
      return;
  }
}

/// A node that works brings a replica back, unless an outage needs it or all replicas are on their way: then it is a spare.
void JobSimulation::on_node_ready() {
  const bool nodes_missing = in_outage() && outage().missing > 0;
  if (!nodes_missing && static_cast<int>(down_nodes_.size()) > returning_)
    ++returning_;
  else
    ++spares_;
}

/// Each idle spare fails at rate 1/spare_mtbf. Draws failures for a full pool; on_spare_failure() thins them to the
/// spares that are idle.
void JobSimulation::expect_spare_failure() {
  const RecoveryPolicy& r = spec_.recovery;
  if (r.spares == 0 || r.spare_mtbf == JobTime{}) return;
  const JobTime next = job_time(spare_draws_.exponential() * seconds(r.spare_mtbf) / r.spares);
  set_timer({now_ + next, Timer::What::spare_fails, -1});
}

/// A spare that failed is noticed at once (idle nodes are checked) and repaired as any other node.
void JobSimulation::on_spare_failure() {
  const auto slot = static_cast<int>(spare_draws_.below(static_cast<std::uint64_t>(spec_.recovery.spares)));
  if (slot < spares_) {
    --spares_;
    set_timer({now_ + job_time(draw_s(spec_.recovery.repair, spare_draws_)), Timer::What::repaired, -1});
  }
  expect_spare_failure();
}

void JobSimulation::on_failure(int index) {
  const FailureKind& kind = kind_of(index);
  RandomStream& random = failures_.attributes(index);
  if (is_already_down(kind, random)) return;
  ++history_.events[static_cast<std::size_t>(index)];
  switch (kind.effect) {
    case Effect::crash:
      return on_interruption(index, spec_.recovery.crash_detection);
    case Effect::hang:
      return on_interruption(index, hang_detection(index));
    case Effect::link_flap:
      return on_link_flap(index, job_time(draw_s(kind.lasts, random)));
    case Effect::corruption:
      if (in_outage()) return;
      corrupted_at_ = std::min(corrupted_at_, now_);
      set_timer({now_ + job_time(draw_s(kind.latency, random)), Timer::What::corruption_noticed, index});
      return;
    case Effect::loss_spike:
      if (!in_outage() && !spike_) on_loss_spike(kind.notice_steps, kind.rollback_steps);
      return;
    case Effect::planned:
      if (!in_outage()) planned_kind_ = index;
      return;
    case Effect::slow_gpu:
    case Effect::slow_link:
    case Effect::lost_rail:
    case Effect::slow_uplink:
    case Effect::slow_storage:
      set_timer({now_ + job_time(draw_s(kind.lasts, random)), Timer::What::degradation_end, index});
      rate_.reset();
      return;
  }
}

/// With elastic continuation the machine is smaller while nodes are down, and a failure there has no effect.
bool JobSimulation::is_already_down(const FailureKind& kind, RandomStream& random) {
  if (spec_.recovery.elastic == Elastic::off) return false;
  failed_node_ = static_cast<int>(random.below(static_cast<std::uint64_t>(spec_.machine.nodes())));
  return kind.per != RateUnit::job &&
         std::find(down_nodes_.begin(), down_nodes_.end(), failed_node_) != down_nodes_.end();
}

/// A flap that exceeds the retry budget of the transport is a hang.
void JobSimulation::on_link_flap(int index, JobTime away) {
  if (away >= spec_.recovery.flap_budget) return on_interruption(index, hang_detection(index));
  if (auto* link = std::get_if<LinkDown>(&state_)) {
    link->until = std::max(link->until, now_ + away);
  } else if (const auto* running = std::get_if<Running>(&state_)) {
    state_ = LinkDown{now_ + away, *running};
  } else if (const auto* checkpointing = std::get_if<Checkpointing>(&state_)) {
    state_ = LinkDown{now_ + away, *checkpointing};
  }
}

void JobSimulation::on_loss_spike(std::int64_t notice_steps, std::int64_t rollback_steps) {
  spike_ = LossSpike{history_.steps + notice_steps, history_.steps - rollback_steps};
}

JobTime JobSimulation::hang_detection(int kind) {
  const RecoveryPolicy& r = spec_.recovery;
  if (r.watchdog_poll == JobTime{}) return r.collective_timeout;
  const double phase = failures_.attributes(kind).uniform();
  return std::min(r.collective_timeout, job_time(phase * seconds(r.watchdog_poll)) + r.watchdog_threshold);
}

/// Begins an outage, or adds damage to the current one.
void JobSimulation::on_interruption(int index, JobTime detection, JobTime taken_before) {
  const FailureKind& kind = kind_of(index);
  RandomStream& random = failures_.attributes(index);
  const bool was_running = !in_outage();
  if (was_running) {
    begin_outage(index, detection);
  } else if (is_fragile(outage().phase)) {
    ++history_.interruptions;
    enter(OutagePhase::detection, spec_.recovery.crash_detection);
  }
  Damage& damage = outage().damage;
  damage.taken_before = std::min(damage.taken_before, taken_before);
  const bool replaced = kind.replace_probability >= 1 || random.uniform() <= kind.replace_probability;
  const int taken = replaced ? nodes_taken(kind.scope, spec_.failures, spec_.machine) : 0;
  take_down(taken, random);
  if (taken == 0 && spec_.recovery.replica_restart && spec_.recovery.elastic != Elastic::off) {
    ++outage().restarting;
    outage().failed_nodes.push_back(failed_node_);
  }
  const bool others_hold_the_state = can_shrink() && !spec_.recovery.elastic_rollback;
  if (was_running && !others_hold_the_state) roll_back();
}

/// Nodes leave for repair and have to be replaced.
void JobSimulation::take_down(int nodes, RandomStream& random) {
  outage().damage.nodes += nodes;
  outage().missing += nodes;
  for (int n = 0; n < nodes; ++n) {
    outage().failed_nodes.push_back((failed_node_ + n) % spec_.machine.nodes());
    set_timer({now_ + job_time(draw_s(spec_.recovery.repair, random)), Timer::What::repaired, -1});
  }
}

}  // namespace tracecast
