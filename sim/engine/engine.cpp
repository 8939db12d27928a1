#include "sim/engine/engine.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "sim/engine/compiled_graph.hpp"
#include "sim/engine/deadlock.hpp"
#include "sim/engine/rank_clock.hpp"

namespace tracecast {
namespace {

using engine::CompiledGraph;
using engine::CompiledProgram;
using engine::CompiledTemplate;
using engine::Interval;
using engine::RankClock;
using engine::Step;

/// Local events of one rank live in a ring of this many program items; streams that use them move in step.
constexpr std::int32_t kLocalRing = 8;
constexpr std::int32_t kNobody = -1;

/// An event of one rank: when its producer was ready, began and ended.
struct Event {
  Interval interval;
  std::int32_t version = -1;  ///< item that recorded it; -1: nobody has
  std::int32_t waiters = kNobody;
  std::int32_t span = -1;
};

/// One stream of one rank: where it is in its program.
struct StreamState {
  std::int64_t clock = 0;
  std::int32_t position = 0;    ///< into CompiledProgram::streams[..].items
  std::int32_t step = -1;       ///< into CompiledGraph::steps; -1: at the beginning of an item
  std::int32_t next = kNobody;  ///< next in the list of waiters it stands in
  std::int32_t last_span = -1;
  // While it waits for others to join a transfer:
  std::int64_t arrival = 0;
  std::int32_t cause = -1;
};

/// A communicator between calls, or with some of its members waiting.
struct Rendezvous {
  std::int32_t arrived = 0;
  std::int32_t waiters = kNobody;
  std::int64_t latest = 0;
  std::int32_t latest_rank = -1;
  std::int32_t cause = -1;
};

/// One message of one channel, kept at the receiver.
struct Mail {
  std::int32_t waiter = kNobody;  ///< stream of whoever came first
  bool sent = false;              ///< eager: on its way or here
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int32_t cause = -1;
};

class Simulation {
 public:
  Simulation(const StepGraph& graph, const CompiledGraph& compiled, const EngineOptions& options)
      : graph_(graph), compiled_(compiled), record_spans_(options.record_spans), stream_count_(graph.streams.size()) {
    const std::size_t ranks = graph.ranks.size();
    streams_.resize(ranks * stream_count_);
    events_.resize(ranks * static_cast<std::size_t>(graph.rank_events));
    local_events_.resize(ranks * static_cast<std::size_t>(graph.local_events) * kLocalRing);
    rendezvous_.resize(graph.communicators.size());
    clocks_.resize(ranks);
    hosts_.resize(ranks);
    std::size_t mails = 0;
    for (const Rank& rank : graph.ranks) {
      first_mail_.push_back(mails);
      mails += rank.channels.size() * static_cast<std::size_t>(graph.microbatches);
    }
    mails_.resize(mails);
  }

  Result<Timeline> run() {
    for (std::size_t stream = streams_.size(); stream-- > 0;) ready_.push_back(static_cast<std::int32_t>(stream));
    for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(graph_.ranks.size()); ++rank) advance_host(rank);
    while (!ready_.empty()) {
      const std::int32_t stream = ready_.back();
      ready_.pop_back();
      advance(stream);
    }
    for (std::int32_t stream = 0; stream < static_cast<std::int32_t>(streams_.size()); ++stream)
      if (!finished(stream)) return tl::unexpected<Error>(describe_deadlock(collect_waits()));
    return finish();
  }

 private:
  // ---- Where a stream is -------------------------------------------------------------------------------------------

  std::int32_t rank_of(std::int32_t stream) const { return stream / static_cast<std::int32_t>(stream_count_); }
  std::size_t stream_of(std::int32_t stream) const { return static_cast<std::size_t>(stream) % stream_count_; }
  const Rank& rank(std::int32_t index) const { return graph_.ranks[static_cast<std::size_t>(index)]; }
  const CompiledProgram& program(std::int32_t rank_index) const {
    return compiled_.programs[static_cast<std::size_t>(rank(rank_index).program)];
  }
  const std::vector<std::int32_t>& items(std::int32_t stream) const {
    return program(rank_of(stream)).streams[stream_of(stream)].items;
  }
  StreamState& state(std::int32_t stream) { return streams_[static_cast<std::size_t>(stream)]; }
  const StreamState& state(std::int32_t stream) const { return streams_[static_cast<std::size_t>(stream)]; }
  bool finished(std::int32_t stream) const {
    return state(stream).position == static_cast<std::int32_t>(items(stream).size());
  }
  std::int32_t item_of(std::int32_t stream) const {
    return items(stream)[static_cast<std::size_t>(state(stream).position)];
  }
  const ProgramItem& program_item(std::int32_t rank_index, std::int32_t item) const {
    return graph_.programs[static_cast<std::size_t>(rank(rank_index).program)][static_cast<std::size_t>(item)];
  }
  const CompiledTemplate& compiled_template(std::int32_t index) const {
    return compiled_.templates[static_cast<std::size_t>(index)];
  }

  /// What one step needs to know about where it stands.
  struct Place {
    std::int32_t stream;
    std::int32_t rank;
    std::int32_t item;
    std::int32_t template_index;
    std::int32_t microbatch;
    std::int64_t host_base;
  };

  // ---- Events ------------------------------------------------------------------------------------------------------

  Event& event(const Place& at, EventRef ref) {
    if (ref.local()) {
      const auto locals = static_cast<std::size_t>(graph_.local_events);
      const auto ring = static_cast<std::size_t>(at.item % kLocalRing);
      return local_events_[(static_cast<std::size_t>(at.rank) * kLocalRing + ring) * locals +
                           static_cast<std::size_t>(ref.base)];
    }
    const std::int32_t index = ref.base + ref.stride * at.microbatch;
    return events_[static_cast<std::size_t>(at.rank) * static_cast<std::size_t>(graph_.rank_events) +
                   static_cast<std::size_t>(index)];
  }

  bool recorded(const Place& at, EventRef ref, const Event& e) const {
    if (!ref.local()) return e.version >= 0;
    TRACECAST_ASSERT(e.version <= at.item, "local events connect streams that move in step");
    return e.version == at.item;
  }

  void record(const Place& at, EventRef ref, Interval interval, std::int32_t span) {
    if (ref.none()) return;
    Event& e = event(at, ref);
    TRACECAST_ASSERT(ref.local() || e.version < 0, "a rank event is recorded once");
    e.interval = interval;
    e.version = at.item;
    e.span = span;
    wake(e.waiters);
    if (hosts_[static_cast<std::size_t>(at.rank)].stalled) advance_host(at.rank);
  }

  void wake(std::int32_t& list) {
    for (std::int32_t stream = std::exchange(list, kNobody); stream != kNobody;)
      ready_.push_back(std::exchange(stream, std::exchange(state(stream).next, kNobody)));
  }

  void wait_in(std::int32_t& list, std::int32_t stream) { state(stream).next = std::exchange(list, stream); }

  // ---- The host ----------------------------------------------------------------------------------------------------

  struct Host {
    std::vector<std::int64_t> base;   ///< [item] when the host begins to issue it; only for programs with a host_sync
    std::vector<std::int32_t> cause;  ///< [item] span that the host last waited for before it
    std::int32_t waiters = kNobody;   ///< streams that came to an item which the host has not reached
    bool stalled = false;             ///< waits for an event
  };

  /// When the host begins item `item`; -1 while it is still waiting before it.
  std::int64_t host_base(std::int32_t rank_index, std::int32_t item) const {
    const CompiledProgram& used = program(rank_index);
    const auto index = static_cast<std::size_t>(item);
    if (!used.has_sync) return used.host_base[index];
    const std::vector<std::int64_t>& base = hosts_[static_cast<std::size_t>(rank_index)].base;
    return index < base.size() ? base[index] : -1;
  }

  /// The span that the host had waited for when it began item `item`; -1: none.
  std::int32_t host_cause(std::int32_t rank_index, std::int32_t item) const {
    const std::vector<std::int32_t>& cause = hosts_[static_cast<std::size_t>(rank_index)].cause;
    return static_cast<std::size_t>(item) < cause.size() ? cause[static_cast<std::size_t>(item)] : -1;
  }

  /// Lets the host issue items until it has to wait for an event. Called again whenever one is recorded.
  void advance_host(std::int32_t rank_index) {
    const CompiledProgram& used = program(rank_index);
    if (!used.has_sync) return;
    Host& host = hosts_[static_cast<std::size_t>(rank_index)];
    const std::size_t before = host.base.size();
    issue_items(rank_index, used, host);
    if (host.base.size() > before) wake(host.waiters);
  }

  void issue_items(std::int32_t rank_index, const CompiledProgram& used, Host& host) {
    if (host.base.empty()) {
      host.base.push_back(0);
      host.cause.push_back(-1);
    }
    while (host.base.size() < used.host_base.size()) {
      const auto item = static_cast<std::int32_t>(host.base.size()) - 1;
      const ProgramItem& what = program_item(rank_index, item);
      const CompiledTemplate& issued = compiled_template(what.template_index);
      std::int64_t end = host.base.back() + issued.host_total;
      std::int32_t cause = host.cause.back();
      if (issued.sync_op >= 0) {
        const Place at{kNobody, rank_index, item, what.template_index, what.microbatch, 0};
        const Op& op = graph_.templates[static_cast<std::size_t>(what.template_index)]
                           .ops[static_cast<std::size_t>(issued.sync_op)];
        for (EventRef ref : op.waits) {
          const Event& e = event(at, ref);
          host.stalled = !recorded(at, ref, e);
          if (host.stalled) return;
          if (e.interval.end > end) std::tie(end, cause) = std::pair(e.interval.end, e.span);
        }
      }
      host.base.push_back(end);
      host.cause.push_back(cause);
    }
  }

  // ---- Streams -----------------------------------------------------------------------------------------------------

  void advance(std::int32_t stream) {
    StreamState& s = state(stream);
    const std::vector<std::int32_t>& own_items = items(stream);
    while (s.position < static_cast<std::int32_t>(own_items.size())) {
      const std::int32_t item = own_items[static_cast<std::size_t>(s.position)];
      const std::int32_t rank_index = rank_of(stream);
      const std::int64_t base = host_base(rank_index, item);
      if (base < 0) return wait_in(hosts_[static_cast<std::size_t>(rank_index)].waiters, stream);
      const ProgramItem& what = program_item(rank_index, item);
      const CompiledTemplate& used = compiled_template(what.template_index);
      if (s.step < 0) s.step = used.first_step[stream_of(stream)];
      const Place at{stream, rank_index, item, what.template_index, what.microbatch, base};
      for (const std::int32_t end = used.first_step[stream_of(stream) + 1]; s.step < end;) {
        if (!run_step(at, compiled_.steps[static_cast<std::size_t>(s.step)])) return;
        ++s.step;
      }
      s.step = -1;
      ++s.position;
    }
  }

  /// The time at which all waits of a step are over, and the event that decided it.
  struct Readiness {
    bool known = false;
    std::int64_t time = 0;
    const Event* decisive = nullptr;
  };

  Readiness readiness(const Place& at, const Step& step, std::int64_t clock) {
    Readiness result{true, clock, nullptr};
    for (EventRef ref : compiled_.waits_of(step)) {
      Event& e = event(at, ref);
      if (!recorded(at, ref, e)) {
        wait_in(e.waiters, at.stream);
        return {};
      }
      if (e.interval.end > result.time) result = {true, e.interval.end, &e};
    }
    return result;
  }

  /// Runs one step if everything it needs is known; otherwise leaves the stream where it will be woken.
  bool run_step(const Place& at, const Step& step) {
    StreamState& s = state(at.stream);
    const Readiness ready = readiness(at, step, s.clock);
    if (!ready.known) return false;
    if (step.type == OpType::compute) {
      run_compute(at, step, ready);
      return true;
    }
    const std::int64_t issued = at.host_base + step.issue;
    s.arrival = std::max(ready.time, issued);
    s.cause = issued > ready.time         ? host_cause(at.rank, at.item)
              : ready.decisive != nullptr ? ready.decisive->span
                                          : s.last_span;
    if (step.type == OpType::collective) return join_collective(at, step);
    return step.type == OpType::send ? send(at, step) : receive(at, step);
  }

  void run_compute(const Place& at, const Step& step, const Readiness& ready) {
    StreamState& s = state(at.stream);
    const std::int64_t begin = s.clock;
    const std::int64_t end = std::max(ready.time + step.total, at.host_base + step.lag);
    if (stream_of(at.stream) == kComputeStream) {
      RankClock& clock = clocks_[static_cast<std::size_t>(at.rank)];
      if (ready.decisive != nullptr) clock.waited(begin, ready.time, ready.decisive->interval);
      clock.computed(step.total, end - ready.time - step.total, phase_of(at) == Phase::optimizer);
    }
    executed_ += step.member_count;
    std::int32_t span = -1;
    if (record_spans_) span = record_run(at, step, ready);
    s.clock = end;
    record(at, step.records, {ready.time, ready.time, end, -1}, span);
  }

  bool join_collective(const Place& at, const Step& step) {
    const CostedCollective& call = graph_.collectives[static_cast<std::size_t>(step.payload)];
    const auto communicator =
        static_cast<std::size_t>(rank(at.rank).communicators[static_cast<std::size_t>(call.slot)]);
    Rendezvous& meeting = rendezvous_[communicator];
    const StreamState& s = state(at.stream);
    if (meeting.arrived == 0 || s.arrival > meeting.latest ||
        (s.arrival == meeting.latest && at.rank < meeting.latest_rank)) {
      meeting.latest = s.arrival;
      meeting.latest_rank = at.rank;
      meeting.cause = s.cause;
    }
    ++meeting.arrived;
    if (meeting.arrived < static_cast<std::int32_t>(graph_.communicators[communicator].members.size())) {
      wait_in(meeting.waiters, at.stream);
      return false;
    }
    const std::int64_t end = meeting.latest + step.total;
    const Rendezvous met = std::exchange(meeting, Rendezvous{});
    for (std::int32_t other = met.waiters; other != kNobody;) {
      const std::int32_t next = std::exchange(state(other).next, kNobody);
      resume(other, met.latest, end, met.cause);
      other = next;
    }
    transferred(at, step, met.latest, end, met.cause);
    return true;
  }

  Mail& mail(std::int32_t rank_index, std::int32_t channel, std::int32_t microbatch) {
    return mails_[first_mail_[static_cast<std::size_t>(rank_index)] +
                  static_cast<std::size_t>(channel) * static_cast<std::size_t>(graph_.microbatches) +
                  static_cast<std::size_t>(microbatch)];
  }

  bool send(const Place& at, const Step& step) {
    const Message& message = graph_.messages[static_cast<std::size_t>(step.payload)];
    const ChannelEnd to = rank(at.rank).channels[static_cast<std::size_t>(message.channel)];
    TRACECAST_ASSERT(to.rank >= 0, "a send has a receiver");
    Mail& box = mail(to.rank, to.channel, at.microbatch);
    const StreamState& s = state(at.stream);
    if (box.waiter == kNobody && !message.eager) {
      box.waiter = at.stream;
      return false;
    }
    std::int64_t start = s.arrival;
    std::int32_t cause = s.cause;
    if (box.waiter != kNobody) {
      const StreamState& receiver = state(box.waiter);
      if (!message.eager && receiver.arrival > start)
        std::tie(start, cause) = std::pair(receiver.arrival, receiver.cause);
      resume(std::exchange(box.waiter, kNobody), start, std::max(receiver.arrival, start + step.total), cause);
    } else {
      box = {kNobody, true, start, start + step.total, cause};
    }
    transferred(at, step, start, start + step.total, cause);
    return true;
  }

  bool receive(const Place& at, const Step& step) {
    const Message& message = graph_.messages[static_cast<std::size_t>(step.payload)];
    Mail& box = mail(at.rank, message.channel, at.microbatch);
    const StreamState& s = state(at.stream);
    if (box.sent) {
      const std::int64_t end = std::max(s.arrival, box.end);
      transferred(at, step, std::min(end, std::max(s.arrival, box.start)), end,
                  s.arrival > box.end ? s.cause : box.cause);
      return true;
    }
    if (box.waiter == kNobody) {
      box.waiter = at.stream;
      return false;
    }
    const StreamState& sender = state(box.waiter);
    const bool late = s.arrival > sender.arrival;
    const std::int64_t start = late ? s.arrival : sender.arrival;
    const std::int32_t cause = late ? s.cause : sender.cause;
    resume(std::exchange(box.waiter, kNobody), start, start + step.total, cause);
    transferred(at, step, start, start + step.total, cause);
    return true;
  }

  /// Ends the transfer at which `stream` has been waiting and lets it go on.
  void resume(std::int32_t stream, std::int64_t start, std::int64_t end, std::int32_t cause) {
    StreamState& s = state(stream);
    const std::int32_t rank_index = rank_of(stream);
    const std::int32_t item = item_of(stream);
    const ProgramItem& what = program_item(rank_index, item);
    const Place at{stream, rank_index, item, what.template_index, what.microbatch, host_base(rank_index, item)};
    transferred(at, compiled_.steps[static_cast<std::size_t>(s.step)], start, end, cause);
    ++s.step;
    ready_.push_back(stream);
  }

  /// Books a transfer that is over on this rank.
  void transferred(const Place& at, const Step& step, std::int64_t start, std::int64_t end, std::int32_t cause) {
    StreamState& s = state(at.stream);
    const Interval interval{s.arrival, start, end, static_cast<std::int8_t>(traffic_of(step))};
    clocks_[static_cast<std::size_t>(at.rank)].transferred(interval);
    ++executed_;
    std::int32_t span = -1;
    if (record_spans_) span = add_span(at, step.first_op, s.arrival, start, end, cause);
    s.clock = end;
    record(at, step.records, interval, span);
  }

  Traffic traffic_of(const Step& step) const {
    if (step.type != OpType::collective) return Traffic::pipeline;
    return graph_.collectives[static_cast<std::size_t>(step.payload)].traffic;
  }
  Phase phase_of(const Place& at) const { return graph_.templates[static_cast<std::size_t>(at.template_index)].phase; }

  // ---- Spans -------------------------------------------------------------------------------------------------------

  std::int32_t add_span(const Place& at, std::int32_t op, std::int64_t arrival, std::int64_t start, std::int64_t end,
                        std::int32_t cause) {
    const auto index = static_cast<std::int32_t>(spans_.size());
    spans_.push_back({at.rank, at.template_index, at.microbatch, op, {arrival}, {start}, {end}, cause});
    state(at.stream).last_span = index;
    return index;
  }

  /// The operations of a run, each as it ran.
  std::int32_t record_run(const Place& at, const Step& step, const Readiness& ready) {
    const Template& source = graph_.templates[static_cast<std::size_t>(at.template_index)];
    const CompiledTemplate& used = compiled_template(at.template_index);
    std::int64_t clock = ready.time;
    std::int32_t cause = ready.decisive != nullptr ? ready.decisive->span : state(at.stream).last_span;
    for (std::int32_t op : compiled_.members_of(step)) {
      const auto index = static_cast<std::size_t>(op);
      const std::int64_t issued = at.host_base + used.issue[index];
      const std::int64_t start = std::max(clock, issued);
      const std::int64_t end = start + source.ops[index].duration.picoseconds;
      cause = add_span(at, op, clock, start, end, issued > clock ? host_cause(at.rank, at.item) : cause);
      clock = end;
    }
    return cause;
  }

  /// Sorts by rank, stream and order of execution; causes follow.
  std::vector<Span> sorted_spans() {
    std::vector<std::int32_t> order(spans_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    const auto key = [this](std::int32_t i) {
      const Span& span = spans_[static_cast<std::size_t>(i)];
      const Op& op =
          graph_.templates[static_cast<std::size_t>(span.template_index)].ops[static_cast<std::size_t>(span.op)];
      return std::pair(span.rank, op.stream);
    };
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return key(a) < key(b); });
    std::vector<std::int32_t> place(order.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      place[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
    std::vector<Span> sorted;
    sorted.reserve(order.size());
    for (std::int32_t i : order) {
      Span span = spans_[static_cast<std::size_t>(i)];
      if (span.cause >= 0) span.cause = place[static_cast<std::size_t>(span.cause)];
      sorted.push_back(span);
    }
    return sorted;
  }

  // ---- The end -----------------------------------------------------------------------------------------------------

  Timeline finish() {
    Timeline timeline;
    for (const StreamState& s : streams_)
      timeline.step_time.picoseconds = std::max(timeline.step_time.picoseconds, s.clock);
    for (std::size_t r = 0; r < clocks_.size(); ++r) {
      const std::int64_t compute_end = streams_[r * stream_count_ + kComputeStream].clock;
      timeline.ranks.push_back(clocks_[r].close(compute_end, timeline.step_time.picoseconds));
      TRACECAST_ASSERT(timeline.ranks.back().total() == timeline.step_time,
                       "the parts of a rank's time sum to the step time");
    }
    timeline.spans = sorted_spans();
    timeline.events = executed_;
    return timeline;
  }

  // ---- Deadlocks ---------------------------------------------------------------------------------------------------

  std::string describe(const Place& at, const Op& op) const {
    const Template& used = graph_.templates[static_cast<std::size_t>(at.template_index)];
    return "rank " + std::to_string(rank(at.rank).representative) + " (" + graph_.streams[op.stream].name + ", " +
           used.name + ", micro-batch " + std::to_string(at.microbatch) + ")";
  }

  Place place_of(std::int32_t stream) const {
    const std::int32_t rank_index = rank_of(stream);
    const std::int32_t item = item_of(stream);
    const ProgramItem& what = program_item(rank_index, item);
    return {stream, rank_index, item, what.template_index, what.microbatch, 0};
  }

  const Step* step_at(std::int32_t stream) const {
    const StreamState& s = state(stream);
    if (s.step < 0) return nullptr;  // waits for the host, before the first step of an item
    return &compiled_.steps[static_cast<std::size_t>(s.step)];
  }

  /// The stream of the same rank that has yet to record `ref`.
  std::int32_t recorder_of(const Place& at, EventRef ref) const {
    const auto first = at.rank * static_cast<std::int32_t>(stream_count_);
    for (std::int32_t stream = first; stream < first + static_cast<std::int32_t>(stream_count_); ++stream) {
      const std::vector<std::int32_t>& own = items(stream);
      for (auto position = static_cast<std::size_t>(state(stream).position); position < own.size(); ++position) {
        const ProgramItem& what = program_item(at.rank, own[position]);
        for (const Op& op : graph_.templates[static_cast<std::size_t>(what.template_index)].ops) {
          if (op.stream != stream_of(stream) || op.records.none() || op.records.local() != ref.local()) continue;
          const bool same = ref.local() ? own[position] == at.item && op.records.base == ref.base
                                        : op.records.base + op.records.stride * what.microbatch ==
                                              ref.base + ref.stride * at.microbatch;
          if (same) return stream;
        }
      }
    }
    return kNobody;
  }

  std::vector<engine::Wait> collect_waits() {
    std::vector<std::int32_t> index(streams_.size(), kNobody);
    std::vector<std::int32_t> waiting;
    for (std::int32_t stream = 0; stream < static_cast<std::int32_t>(streams_.size()); ++stream) {
      if (finished(stream) || step_at(stream) == nullptr) continue;
      index[static_cast<std::size_t>(stream)] = static_cast<std::int32_t>(waiting.size());
      waiting.push_back(stream);
    }
    std::vector<engine::Wait> waits;
    for (std::int32_t stream : waiting) {
      engine::Wait wait = explain_wait(stream);
      std::erase_if(wait.on, [&](std::int32_t other) {
        return other == kNobody || index[static_cast<std::size_t>(other)] == kNobody;
      });
      for (std::int32_t& other : wait.on) other = index[static_cast<std::size_t>(other)];
      waits.push_back(std::move(wait));
    }
    return waits;
  }

  engine::Wait explain_wait(std::int32_t stream) {
    const Place at = place_of(stream);
    const Step& step = *step_at(stream);
    const Op& op =
        graph_.templates[static_cast<std::size_t>(at.template_index)].ops[static_cast<std::size_t>(step.first_op)];
    engine::Wait wait{describe(at, op), "", {}};
    for (EventRef ref : op.waits) {
      if (recorded(at, ref, event(at, ref))) continue;
      const std::int32_t recorder = recorder_of(at, ref);
      wait.what = recorder == kNobody ? "waits for an event that nobody records"
                                      : "waits for " + graph_.streams[stream_of(recorder)].name;
      wait.on.push_back(recorder);
      return wait;
    }
    if (op.type == OpType::collective) return explain_collective(std::move(wait), at, step);
    const Message& message = graph_.messages[static_cast<std::size_t>(step.payload)];
    const ChannelEnd end = rank(at.rank).channels[static_cast<std::size_t>(message.channel)];
    const bool sends = op.type == OpType::send;
    if (end.rank < 0) {
      wait.what = "receives from nobody";
      return wait;
    }
    wait.what =
        "waits for rank " + std::to_string(rank(end.rank).representative) + (sends ? " to receive" : " to send");
    wait.on.push_back(partner_of(end, at.microbatch, sends ? OpType::receive : OpType::send));
    return wait;
  }

  engine::Wait explain_collective(engine::Wait wait, const Place& at, const Step& step) {
    const CostedCollective& call = graph_.collectives[static_cast<std::size_t>(step.payload)];
    const std::int32_t communicator = rank(at.rank).communicators[static_cast<std::size_t>(call.slot)];
    const Communicator& group = graph_.communicators[static_cast<std::size_t>(communicator)];
    wait.what = "waits in " + std::string(to_string(call.call.collective)) + " of " + group.name;
    for (std::int32_t member : group.members) {
      if (member == at.rank) continue;
      const std::int32_t other =
          member * static_cast<std::int32_t>(stream_count_) + static_cast<std::int32_t>(stream_of(at.stream));
      const bool there = !finished(other) && step_at(other) != nullptr && step_at(other)->type == OpType::collective &&
                         joined(other, communicator);
      if (there) continue;
      wait.what += " for rank " + std::to_string(rank(member).representative);
      wait.on.push_back(other);
      break;
    }
    return wait;
  }

  /// Whether a waiting stream stands in the meeting of `communicator`.
  bool joined(std::int32_t stream, std::int32_t communicator) const {
    for (std::int32_t other = rendezvous_[static_cast<std::size_t>(communicator)].waiters; other != kNobody;
         other = state(other).next)
      if (other == stream) return true;
    return false;
  }

  /// The stream at the other end of a channel that has yet to handle the message of this micro-batch.
  std::int32_t partner_of(ChannelEnd end, std::int32_t microbatch, OpType type) const {
    const auto first = end.rank * static_cast<std::int32_t>(stream_count_);
    for (std::int32_t stream = first; stream < first + static_cast<std::int32_t>(stream_count_); ++stream) {
      const std::vector<std::int32_t>& own = items(stream);
      for (auto position = static_cast<std::size_t>(state(stream).position); position < own.size(); ++position) {
        const ProgramItem& what = program_item(end.rank, own[position]);
        if (what.microbatch != microbatch) continue;
        for (const Op& op : graph_.templates[static_cast<std::size_t>(what.template_index)].ops)
          if (op.type == type && op.stream == stream_of(stream) &&
              graph_.messages[static_cast<std::size_t>(op.payload)].channel == end.channel)
            return stream;
      }
    }
    return kNobody;
  }

  const StepGraph& graph_;
  const CompiledGraph& compiled_;
  const bool record_spans_;
  const std::size_t stream_count_;
  std::vector<StreamState> streams_;    // [rank x streams + stream]
  std::vector<Event> events_;           // [rank x rank_events + event]
  std::vector<Event> local_events_;     // [(rank x ring + item mod ring) x local_events + event]
  std::vector<Rendezvous> rendezvous_;  // [communicator]
  std::vector<RankClock> clocks_;       // [rank]
  std::vector<Host> hosts_;             // [rank]
  std::vector<std::size_t> first_mail_;
  std::vector<Mail> mails_;
  std::vector<std::int32_t> ready_;
  std::vector<Span> spans_;
  std::int64_t executed_ = 0;
};

}  // namespace

Result<Timeline> simulate(const StepGraph& graph, const EngineOptions& options) {
  const CompiledGraph compiled = engine::compile(graph);
  return Simulation(graph, compiled, options).run();
}

}  // namespace tracecast
