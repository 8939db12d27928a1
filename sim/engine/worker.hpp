/// Lets streams run until they need a time that is not known yet.
#pragma once

#include <algorithm>
#include <tuple>
#include <utility>

#include "sim/engine/engine.hpp"
#include "sim/engine/exchange.hpp"
#include "sim/engine/span_recorder.hpp"
#include "sim/engine/state.hpp"
#include "sim/graph/shared_transfers.hpp"
#include "sim/network/flow_network.hpp"

namespace tracecast::engine {

/// Runs the ranks that it owns: all of them when there is no exchange. `Recorder` is told of every operation.
///
/// A stack holds the streams that can go on: last in, first out keeps a tensor-parallel group in the cache. The order
/// does not matter for what is computed, all merges are maxima.
template <class Recorder>
class Worker {
 public:
  Worker(State& state, Recorder& recorder, Exchange* exchange = nullptr, std::int32_t number = 0)
      : state_(state), recorder_(recorder), exchange_(exchange), number_(number) {}

  void run() {
    const auto ranks = static_cast<std::int32_t>(state_.ranks.size());
    for (std::int32_t rank = ranks; rank-- > 0;) {
      if (exchange_ != nullptr && exchange_->owner(rank) != number_) continue;
      for (auto lane = static_cast<std::int32_t>(state_.stream_count); lane-- > 0;)
        ready_.push_back(rank * static_cast<std::int32_t>(state_.stream_count) + lane);
    }
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      if (exchange_ == nullptr || exchange_->owner(rank) == number_) advance_host(rank);
    drain();
    if (sharing_ != nullptr) run_shared();
    while (exchange_ != nullptr) {
      const std::vector<Release> releases = exchange_->receive(number_);
      if (releases.empty()) return;
      for (const Release& release : releases) resume(release.stream, release.start, release.end, -1);
      drain();
    }
  }

  std::int64_t executed() const { return executed_; }

  /// Transfers that share links end when its network says so.   Requires no exchange
  void share_links(const LinkSharing* sharing) { sharing_ = sharing; }

 private:
  void drain() {
    while (!ready_.empty()) {
      const std::int32_t stream = ready_.back();
      ready_.pop_back();
      advance(stream);
    }
  }

  StreamState& stream_state(std::int32_t stream) { return state_.streams[static_cast<std::size_t>(stream)]; }

  // ---- Waiting -----------------------------------------------------------------------------------------------------

  std::int32_t& next_of(std::int32_t waiter) {
    const auto streams = static_cast<std::int32_t>(state_.streams.size());
    return waiter < streams ? stream_state(waiter).next
                            : state_.ranks[static_cast<std::size_t>(waiter - streams)].host_next;
  }

  void wait_in(Waiters& list, std::int32_t waiter) {
    next_of(waiter) = list.first;
    list.first = waiter + 1;
  }

  void wake(Waiters& list) {
    const auto streams = static_cast<std::int32_t>(state_.streams.size());
    for (std::int32_t link = std::exchange(list.first, 0); link != 0;) {
      const std::int32_t waiter = link - 1;
      link = std::exchange(next_of(waiter), 0);
      if (waiter < streams)
        ready_.push_back(waiter);
      else
        advance_host(waiter - streams);
    }
  }

  // ---- The host ----------------------------------------------------------------------------------------------------

  /// Lets the host of a rank issue segments until it has to wait for an event.
  void advance_host(std::int32_t rank_index) {
    RankState& rank = state_.ranks[static_cast<std::size_t>(rank_index)];
    const std::int32_t before = rank.known_segments;
    while (rank.known_segments <= static_cast<std::int32_t>(rank.program->syncs.size()))
      if (!finish_segment(rank_index, rank)) break;
    if (rank.known_segments > before) wake(rank.host_waiters);
  }

  /// The host waits at the end of its last known segment; whether it is known when it goes on.
  bool finish_segment(std::int32_t rank_index, RankState& rank) {
    const std::int32_t segment = rank.known_segments - 1;
    const std::int32_t item = rank.program->syncs[static_cast<std::size_t>(segment)];
    const CompiledItem& what = rank.program->items[static_cast<std::size_t>(item)];
    const Place at{kNobody, item, nullptr, &rank, &what, 0};
    const CompiledTemplate& used = state_.compiled.templates[static_cast<std::size_t>(what.template_index)];
    std::int64_t end = rank.segments[segment] + what.host_offset + used.host_total;
    const Event* decisive = nullptr;
    for (const EventRef ref : state_.source(at).ops[static_cast<std::size_t>(used.sync_op)].waits) {
      Event& e = state_.event(at, ref);
      if (!State::recorded(at, ref, e)) {
        wait_in(e.waiters, static_cast<std::int32_t>(state_.streams.size()) + rank_index);
        return false;
      }
      if (e.end > end) std::tie(end, decisive) = std::pair(e.end, &e);
    }
    rank.segments[rank.known_segments++] = end;
    recorder_.host_went_on(rank_index, segment + 1, decisive);
    return true;
  }

  // ---- Streams -----------------------------------------------------------------------------------------------------

  void advance(std::int32_t stream) {
    StreamState& s = stream_state(stream);
    RankState& r = state_.ranks[static_cast<std::size_t>(s.rank)];
    const auto lane = static_cast<std::size_t>(s.lane);
    const std::vector<std::int32_t>& own_items = r.program->streams[lane];
    while (s.position < static_cast<std::int32_t>(own_items.size())) {
      const std::int32_t item = own_items[static_cast<std::size_t>(s.position)];
      const CompiledItem& what = r.program->items[static_cast<std::size_t>(item)];
      if (what.segment >= r.known_segments) return wait_in(r.host_waiters, stream);
      const Place at{stream, item, &s, &r, &what, r.segments[what.segment] + what.host_offset};
      if (s.step == 0) s.step = state_.compiled.first_step(what.template_index, lane) + 1;
      for (const std::int32_t end = state_.compiled.first_step(what.template_index, lane + 1); s.step <= end; ++s.step)
        if (!run_step(at, state_.compiled.steps[static_cast<std::size_t>(s.step - 1)])) return;
      s.step = 0;
      ++s.position;
    }
  }

  /// Runs one step if everything it needs is known; otherwise leaves the stream where it will be woken.
  bool run_step(const Place& at, const Step& step) {
    StreamState& s = *at.state;
    std::int64_t ready = s.clock;
    const Event* decisive = nullptr;
    for (const EventRef ref : state_.compiled.waits_of(step)) {
      Event& e = state_.event(at, ref);
      if (!State::recorded(at, ref, e)) {
        wait_in(e.waiters, at.stream);
        return false;
      }
      if (e.end > ready) std::tie(ready, decisive) = std::pair(e.end, &e);
    }
    if (step.type == OpType::compute) {
      run_compute(at, step, ready, decisive);
      return true;
    }
    const std::int64_t issued = at.host_base + step.issue;
    s.arrival = std::max(ready, issued);
    recorder_.arrive(at, issued > ready, decisive);
    if (step.type == OpType::collective) return join_collective(at, step);
    return step.type == OpType::send ? send(at, step) : receive(at, step);
  }

  void run_compute(const Place& at, const Step& step, std::int64_t ready, const Event* decisive) {
    if (step.segment >= 0) return run_segment(at, step, ready, decisive);
    StreamState& s = *at.state;
    Run run{step.total, step.lag};
    if (at.rank->slowed != nullptr && s.lane == kComputeStream)
      run = at.rank->slowed[at.what->first_run + s.step - 1 -
                            state_.compiled.first_step(at.what->template_index, kComputeStream)];
    const std::int64_t end = std::max(ready + run.total, at.host_base + run.lag);
    if (s.lane == kComputeStream) {
      RankClock& clock = state_.clocks[static_cast<std::size_t>(s.rank)];
      if (decisive != nullptr) clock.waited(s.clock, ready, decisive->interval());
      clock.computed(run.total, end - ready - run.total, step.optimizer);
    }
    executed_ += step.member_count;
    recorder_.run(at, step, ready, decisive);
    s.clock = end;
    record(at, step.records, {ready, ready, end, -1});
  }

  // ---- Segments ----------------------------------------------------------------------------------------------------

  void run_segment(const Place& at, const Step& step, std::int64_t ready, const Event* decisive) {
    const Segment& segment = state_.compiled.segments.all[static_cast<std::size_t>(step.segment)];
    RankClock& clock = state_.clocks[static_cast<std::size_t>(at.state->rank)];
    if (decisive != nullptr) clock.waited(at.state->clock, ready, decisive->interval());
    executed_ += step.member_count;
    if (alone(at, segment, ready))
      run_at_once(at, step, segment, ready);
    else
      run_by_parts(at, step, segment, ready);
  }

  /// The streams of the rank at `at`, from its compute stream on.
  StreamState* streams_of(const Place& at) { return at.state - at.state->lane; }

  /// Whether neither the host nor what own streams still do can move anything inside the segment.
  bool alone(const Place& at, const Segment& segment, std::int64_t ready) {
    if (ready < at.host_base + segment.host_slack) return false;
    for (const StreamUse& use : segment.streams.of(state_.compiled.segments.streams))
      if (streams_of(at)[use.stream].clock > ready + use.first) return false;
    return true;
  }

  void run_at_once(const Place& at, const Step& step, const Segment& segment, std::int64_t ready) {
    const Segments& segments = state_.compiled.segments;
    RankClock& clock = state_.clocks[static_cast<std::size_t>(at.state->rank)];
    clock.computed(segment.busy, 0, step.optimizer);
    for (const Exposure& each : segment.exposures.of(segments.exposures)) clock.exposed(each.traffic, each.time);
    for (const StreamUse& use : segment.streams.of(segments.streams))
      streams_of(at)[use.stream].clock = ready + use.last;
    if (segment.streams.count > 0) clock.transferred(after(ready, segment.last));
    at.state->clock = ready + segment.length;
    for (const SegmentRecord& each : segment.records.of(segments.records))
      record(at, each.event, after(ready, each.times));
  }

  void run_by_parts(const Place& at, const Step& step, const Segment& segment, std::int64_t ready) {
    RankClock& account = state_.clocks[static_cast<std::size_t>(at.state->rank)];
    at.state->clock = ready;
    part_times_.resize(static_cast<std::size_t>(state_.compiled.segments.most_parts));
    run_parts(
        state_.compiled.segments, segment, at.host_base, part_times_,
        [&](StreamId stream) -> std::int64_t& { return streams_of(at)[stream].clock; },
        [&](const Part& part, std::int64_t clock, const Interval& times, const Interval* cause) {
          if (cause != nullptr) account.waited(clock, times.start, *cause);
          account.computed(part.total, times.end - times.start - part.total, step.optimizer);
          record(at, part.records, times);
        },
        [&](const Part& part, const Interval& times) {
          account.transferred(times);
          record(at, part.records, times);
        });
  }

  static Interval after(std::int64_t ready, const Interval& times) {
    return {ready + times.arrival, ready + times.start, ready + times.end, times.traffic};
  }

  void record(const Place& at, EventRef ref, const Interval& interval) {
    if (ref.none()) return;
    Event& e = state_.event(at, ref);
    TRACECAST_ASSERT(ref.local() || !e.recorded(), "a rank event is recorded once");
    e.record(interval, at.item);
    recorder_.recorded(e, at.stream);
    if (e.waiters.first != 0) wake(e.waiters);
  }

  /// Books a transfer that is over on this rank.
  void transferred(const Place& at, const Step& step, std::int64_t start, std::int64_t end, std::int32_t cause) {
    StreamState& s = *at.state;
    const Interval interval{s.arrival, start, end, static_cast<std::int8_t>(step.traffic)};
    state_.clocks[static_cast<std::size_t>(s.rank)].transferred(interval);
    ++executed_;
    recorder_.transfer(at, step, start, end, cause);
    s.clock = end;
    record(at, step.records, interval);
  }

  /// Ends the transfer at which `stream` has been waiting and lets it go on.
  void resume(std::int32_t stream, std::int64_t start, std::int64_t end, std::int32_t cause) {
    const Place at = state_.place_of(stream);
    transferred(at, state_.compiled.steps[static_cast<std::size_t>(at.state->step - 1)], start, end, cause);
    ++at.state->step;
    ready_.push_back(stream);
  }

  // ---- Transfers on shared links -----------------------------------------------------------------------------------

  /// A transfer that has begun, and who waits for its end.
  struct Flight {
    Waiters waiters{};
    std::int64_t start = 0;
    std::int32_t cause = -1;
    Mail* mail = nullptr;  ///< of an eager message: its receiver waits there or comes later
  };

  /// Lets the network go on whenever every stream waits.
  void run_shared() {
    Duration now;
    std::vector<std::int32_t> ended;
    while (sharing_->network.advance(now, ended)) {
      for (const std::int32_t transfer : ended) land(transfer, now.picoseconds);
      drain();
    }
  }

  void launch(const Flight& flight, std::int32_t kind) {
    auto index = static_cast<std::int32_t>(flights_.size());
    if (free_flights_.empty()) {
      flights_.push_back(flight);
    } else {
      index = free_flights_.back();
      free_flights_.pop_back();
      flights_[static_cast<std::size_t>(index)] = flight;
    }
    sharing_->network.start(index, kind, {flight.start});
  }

  void land(std::int32_t index, std::int64_t end) {
    const Flight flight = flights_[static_cast<std::size_t>(index)];
    free_flights_.push_back(index);
    if (flight.mail != nullptr) deliver(flight, end);
    for (std::int32_t link = flight.waiters.first; link != 0;) {
      const std::int32_t waiter = link - 1;
      link = std::exchange(stream_state(waiter).next, 0);
      resume(waiter, flight.start, end, flight.cause);
    }
  }

  void deliver(const Flight& flight, std::int64_t end) {
    Mail& box = *flight.mail;
    const std::int32_t sender = flight.waiters.first - 1;
    if (box.first == 0) {
      box = {flight.start, end, 0, sender + 1};
      recorder_.sent(box, sender);
      return;
    }
    const std::int32_t receiver = std::exchange(box.first, 0) - 1;
    resume(receiver, flight.start, std::max(stream_state(receiver).arrival, end), flight.cause);
  }

  /// -1: the transfer shares no link.
  std::int32_t shared_collective(const Place& at, const Step& step, std::int32_t communicator) const {
    if (sharing_ == nullptr) return -1;
    const Op& op = state_.source(at).ops[static_cast<std::size_t>(step.first_op)];
    return sharing_->transfers.of_collective(communicator, op.payload);
  }
  std::int32_t shared_message(ChannelEnd sender) const {
    return sharing_ == nullptr ? -1 : sharing_->transfers.of_message(sender.rank, sender.channel);
  }

  /// A message whose ends are both there, or that does not wait for its receiver.
  bool launch_message(const Place& at, std::int32_t other, Mail* mail, std::int32_t kind) {
    Flight flight{{}, at.state->arrival, recorder_.cause_of(at.stream), mail};
    wait_in(flight.waiters, at.stream);
    if (other != kNobody) {
      const std::int64_t theirs = stream_state(other).arrival;
      if (theirs > flight.start) std::tie(flight.start, flight.cause) = std::pair(theirs, recorder_.cause_of(other));
      wait_in(flight.waiters, other);
    }
    launch(flight, kind);
    return false;
  }

  // ---- Collectives -------------------------------------------------------------------------------------------------

  bool join_collective(const Place& at, const Step& step) {
    const std::int32_t communicator = at.rank->communicators[step.where];
    if (exchange_ != nullptr && exchange_->shared(communicator)) return join_shared(at, step, communicator);
    Meeting met;
    if (!meet(at, communicator, met)) return false;
    const std::int32_t cause = recorder_.cause_of(met.latest_stream);
    if (const std::int32_t kind = shared_collective(at, step, communicator); kind >= 0) {
      wait_in(met.waiters, at.stream);
      launch({met.waiters, met.latest, cause, nullptr}, kind);
      return false;
    }
    const std::int64_t end = met.latest + step.total;
    for (std::int32_t link = met.waiters.first; link != 0;) {
      const std::int32_t other = link - 1;
      link = std::exchange(stream_state(other).next, 0);
      resume(other, met.latest, end, cause);
    }
    transferred(at, step, met.latest, end, cause);
    return true;
  }

  /// Joins the meeting; the last member ends it and gets it in `met`. At equal times the first rank counts as the latest.
  bool meet(const Place& at, std::int32_t communicator, Meeting& met) {
    Meeting& meeting = state_.meetings[static_cast<std::size_t>(communicator)];
    const std::int64_t arrival = at.state->arrival;
    if (meeting.arrived == 0 || arrival > meeting.latest ||
        (arrival == meeting.latest && at.stream < meeting.latest_stream)) {
      meeting.latest = arrival;
      meeting.latest_stream = at.stream;
    }
    ++meeting.arrived;
    const auto& members = state_.graph.communicators[static_cast<std::size_t>(communicator)].members;
    if (meeting.arrived < static_cast<std::int32_t>(members.size())) {
      wait_in(meeting.waiters, at.stream);
      return false;
    }
    met = std::exchange(meeting, Meeting{});
    return true;
  }

  /// The same when other workers own some of the members: each lets its own go on.
  bool join_shared(const Place& at, const Step& step, std::int32_t communicator) {
    Meeting met;
    {
      const std::lock_guard lock(exchange_->guard(communicator));
      if (!meet(at, communicator, met)) return false;
    }
    const std::int64_t end = met.latest + step.total;
    std::vector<std::vector<Release>> releases;
    for (std::int32_t link = met.waiters.first; link != 0;) {
      const std::int32_t other = link - 1;
      link = std::exchange(stream_state(other).next, 0);
      const auto owner = static_cast<std::size_t>(exchange_->owner(stream_state(other).rank));
      if (releases.size() <= owner) releases.resize(owner + 1);
      releases[owner].push_back({other, met.latest, end});
    }
    for (std::size_t owner = 0; owner < releases.size(); ++owner) {
      if (static_cast<std::int32_t>(owner) != number_) {
        if (!releases[owner].empty()) exchange_->send(static_cast<std::int32_t>(owner), releases[owner]);
        continue;
      }
      for (const Release& own : releases[owner]) resume(own.stream, own.start, own.end, -1);
    }
    transferred(at, step, met.latest, end, -1);
    return true;
  }

  // ---- Messages ----------------------------------------------------------------------------------------------------

  bool send(const Place& at, const Step& step) {
    const ChannelEnd to = at.rank->channels[step.where];
    TRACECAST_ASSERT(to.rank >= 0, "a send has a receiver");
    Mail& box = state_.mail(to.rank, to.channel, at.what->microbatch);
    if (const std::int32_t kind = shared_message({at.state->rank, step.where}); kind >= 0) {
      if (step.eager) return launch_message(at, kNobody, &box, kind);
      if (box.first != 0) return launch_message(at, std::exchange(box.first, 0) - 1, nullptr, kind);
    }
    std::int64_t start = at.state->arrival;
    std::int32_t cause = recorder_.cause_of(at.stream);
    if (box.first != 0) {
      const std::int32_t receiver = std::exchange(box.first, 0) - 1;
      const std::int64_t other = stream_state(receiver).arrival;
      if (!step.eager && other > start) std::tie(start, cause) = std::pair(other, recorder_.cause_of(receiver));
      resume(receiver, std::max(other, start), std::max(other, start + step.total), cause);
    } else if (step.eager) {
      box = {start, start + step.total, 0, at.stream + 1};
      recorder_.sent(box, at.stream);
    } else {
      box.first = at.stream + 1;
      return false;
    }
    transferred(at, step, start, start + step.total, cause);
    return true;
  }

  bool receive(const Place& at, const Step& step) {
    Mail& box = state_.mail(at.state->rank, step.where, at.what->microbatch);
    const std::int64_t arrival = at.state->arrival;
    if (box.sender != 0) {
      const std::int64_t end = std::max(arrival, box.end);
      transferred(at, step, std::min(end, std::max(arrival, box.start)), end,
                  arrival > box.end ? recorder_.cause_of(at.stream) : recorder_.cause_of_mail(box));
      return true;
    }
    if (box.first == 0) {
      box.first = at.stream + 1;
      return false;
    }
    const std::int32_t sender = std::exchange(box.first, 0) - 1;
    if (const std::int32_t kind = shared_message(at.rank->channels[step.where]); kind >= 0)
      return launch_message(at, sender, nullptr, kind);
    const std::int64_t other = stream_state(sender).arrival;
    const std::int64_t start = std::max(arrival, other);
    const std::int32_t cause = recorder_.cause_of(arrival > other ? at.stream : sender);
    resume(sender, start, start + step.total, cause);
    transferred(at, step, start, start + step.total, cause);
    return true;
  }

  State& state_;
  Recorder& recorder_;
  Exchange* const exchange_;
  const LinkSharing* sharing_ = nullptr;
  const std::int32_t number_;
  std::vector<std::int32_t> ready_;
  std::vector<Flight> flights_;
  std::vector<std::int32_t> free_flights_;
  std::vector<Interval> part_times_;  ///< of the segment that is run by parts
  std::int64_t executed_ = 0;
};

}  // namespace tracecast::engine
