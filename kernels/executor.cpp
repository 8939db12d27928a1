#include "kernels/executor.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

const std::vector<ProgramItem>& program_of(const StepGraph& graph, std::int32_t rank) {
  return graph.programs[static_cast<std::size_t>(graph.ranks[static_cast<std::size_t>(rank)].program)];
}

bool takes_time(const Op& op) { return op.payload >= 0 && op.type != OpType::host_sync; }

void run(const StepGraph& graph, const Rank& rank, const Op& op, std::int32_t microbatch, Device& device) {
  const auto payload = static_cast<std::size_t>(op.payload);
  switch (op.type) {
    case OpType::compute:
      return device.compute(graph.operators[payload].op);
    case OpType::collective: {
      const CostedCollective& call = graph.collectives[payload];
      return device.collective(call.call, rank.communicators[static_cast<std::size_t>(call.slot)]);
    }
    case OpType::send: {
      const Message& message = graph.messages[payload];
      return device.send(rank.channels[static_cast<std::size_t>(message.channel)], microbatch, message.size);
    }
    case OpType::receive:
      return device.receive(graph.messages[payload].channel, microbatch, graph.messages[payload].size);
    case OpType::host_sync:
      break;
  }
}

/// Builds the timeline from the operations of all ranks.
class Assembler {
 public:
  Assembler(const StepGraph& graph, const std::vector<std::vector<ExecutedOp>>& ranks) : graph_(graph), ranks_(ranks) {
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    for (const auto& list : ranks)
      for (const ExecutedOp& done : list) first = std::min(first, done.begin.picoseconds);
    origin_ = {first};
    find_last_arrivals();
  }

  Timeline assemble(bool overlapped) {
    Timeline timeline;
    for (const auto& list : ranks_)
      for (const ExecutedOp& done : list) timeline.step_time = std::max(timeline.step_time, done.end - origin_);
    for (std::int32_t rank = 0; rank < static_cast<std::int32_t>(ranks_.size()); ++rank)
      overlapped ? add_overlapped_rank(rank, timeline) : add_rank(rank, timeline);
    return timeline;
  }

 private:
  struct Place {
    std::int32_t rank;
    const ExecutedOp* done;
    const ProgramItem* item;
    const Op* op;
  };

  template <class Function>
  void for_each(std::int32_t rank, Function function) const {
    for (const ExecutedOp& done : ranks_[static_cast<std::size_t>(rank)]) {
      const ProgramItem& item = program_of(graph_, rank)[static_cast<std::size_t>(done.item)];
      const Template& used = graph_.templates[static_cast<std::size_t>(item.template_index)];
      function(Place{rank, &done, &item, &used.ops[static_cast<std::size_t>(done.op)]});
    }
  }

  std::int32_t communicator_of(const Place& at) const {
    const CostedCollective& call = graph_.collectives[static_cast<std::size_t>(at.op->payload)];
    return graph_.ranks[static_cast<std::size_t>(at.rank)].communicators[static_cast<std::size_t>(call.slot)];
  }
  std::int32_t channel_of(const Place& at) const {
    return graph_.messages[static_cast<std::size_t>(at.op->payload)].channel;
  }

  /// Computes when the last member joined the n-th call of each communicator, and when each message was sent.
  void find_last_arrivals() {
    for (std::int32_t r = 0; r < static_cast<std::int32_t>(ranks_.size()); ++r) {
      std::map<std::int32_t, int> calls;
      for_each(r, [&](const Place& at) {
        if (at.op->type == OpType::collective) {
          const std::int32_t communicator = communicator_of(at);
          Duration& latest = last_arrivals_[{communicator, calls[communicator]++}];
          latest = std::max(latest, at.done->begin);
        } else if (at.op->type == OpType::send) {
          const ChannelEnd to =
              graph_.ranks[static_cast<std::size_t>(r)].channels[static_cast<std::size_t>(channel_of(at))];
          sent_[{to.rank, to.channel, at.item->microbatch}] = at.done->begin;
        }
      });
    }
  }

  /// When the operation began to transfer or compute.
  Duration start_of(const Place& at, std::map<std::int32_t, int>& calls) const {
    Duration others = at.done->begin;
    if (at.op->type == OpType::collective) {
      const std::int32_t communicator = communicator_of(at);
      others = last_arrivals_.at({communicator, calls[communicator]++});
    } else if (at.op->type == OpType::receive) {
      const auto sent = sent_.find({at.rank, channel_of(at), at.item->microbatch});
      if (sent != sent_.end()) others = sent->second;
    }
    return std::clamp(others, at.done->begin, at.done->end);
  }

  Traffic traffic_of(const Op& op) const {
    return op.type == OpType::collective ? graph_.collectives[static_cast<std::size_t>(op.payload)].traffic
                                         : Traffic::pipeline;
  }

  void add_span(const Place& at, Duration start, Timeline& timeline) const {
    timeline.spans.push_back({at.rank, at.item->template_index, at.item->microbatch, at.done->op,
                              at.done->begin - origin_, start - origin_, at.done->end - origin_, -1});
    ++timeline.events;
  }

  /// A rank that finished at `clock` waits for the others; its spans begin at `first`.
  void close_rank(RankTime time, Duration clock, std::size_t first, Timeline& timeline) const {
    time.bubble += timeline.step_time - (clock - origin_);
    timeline.ranks.push_back(time);
    sort_by_stream(timeline, first);
  }

  void add_rank(std::int32_t rank, Timeline& timeline) {
    RankTime time;
    std::map<std::int32_t, int> calls;
    Duration clock = origin_;
    const std::size_t first = timeline.spans.size();
    for_each(rank, [&](const Place& at) {
      const Duration start = start_of(at, calls);
      const Phase phase = graph_.templates[static_cast<std::size_t>(at.item->template_index)].phase;
      time.host += at.done->begin - clock;
      if (at.op->type == OpType::compute) {
        (phase == Phase::optimizer ? time.optimizer : time.compute) += at.done->end - at.done->begin;
      } else {
        time.bubble += start - at.done->begin;
        time.exposed[static_cast<std::size_t>(traffic_of(*at.op))] += at.done->end - start;
      }
      clock = at.done->end;
      add_span(at, start, timeline);
    });
    close_rank(time, clock, first, timeline);
  }

  void sort_by_stream(Timeline& timeline, std::size_t first) const {
    const auto stream = [this](const Span& span) {
      return graph_.templates[static_cast<std::size_t>(span.template_index)]
          .ops[static_cast<std::size_t>(span.op)]
          .stream;
    };
    std::stable_sort(timeline.spans.begin() + static_cast<std::ptrdiff_t>(first), timeline.spans.end(),
                     [&](const Span& a, const Span& b) { return stream(a) < stream(b); });
  }

  /// A transfer that the compute stream may have waited for.
  struct Transfer {
    Duration begin;
    Duration start;
    Duration end;
    Traffic traffic;
  };
  using Transfers = std::vector<Transfer>;

  /// Splits the idle time [clock, begin): bubble until `transfers` start to move, then exposed communication; the rest is host
  /// time.
  static void explain_gap(Duration clock, Duration begin, Transfers transfers, RankTime& time) {
    std::sort(transfers.begin(), transfers.end(), [](const Transfer& a, const Transfer& b) { return a.end < b.end; });
    for (const Transfer& transfer : transfers) {
      const Duration from = std::clamp(transfer.begin, clock, std::max(clock, begin));
      const Duration to = std::clamp(transfer.end, from, std::max(from, begin));
      if (to == from) continue;
      const Duration moves = std::clamp(transfer.start, from, to);
      time.host += from - clock;
      time.bubble += moves - from;
      time.exposed[static_cast<std::size_t>(transfer.traffic)] += to - moves;
      clock = to;
    }
    if (begin > clock) time.host += begin - clock;
  }

  /// The transfers behind the events that an operation waits for.
  static Transfers waited(const Place& at, const std::map<std::pair<bool, std::int32_t>, Transfers>& events) {
    Transfers all;
    for (const EventRef& event : at.op->waits) {
      const auto found = events.find(key_of(event, at.item->microbatch));
      if (found != events.end()) all.insert(all.end(), found->second.begin(), found->second.end());
    }
    return all;
  }
  static std::pair<bool, std::int32_t> key_of(const EventRef& event, std::int32_t microbatch) {
    return {event.local(), event.local() ? event.base : event.base + event.stride * microbatch};
  }

  void add_overlapped_rank(std::int32_t rank, Timeline& timeline) {
    RankTime time;
    std::map<std::int32_t, int> calls;
    std::map<std::pair<bool, std::int32_t>, Transfers> events;
    Duration clock = origin_;
    const std::size_t first = timeline.spans.size();
    for_each(rank, [&](const Place& at) {
      const bool computes = at.op->type == OpType::compute;
      const Duration start = at.op->payload < 0 ? at.done->begin : start_of(at, calls);
      Transfers behind = waited(at, events);
      if (at.op->stream == kComputeStream) {
        if (at.done->begin > clock) explain_gap(clock, at.done->begin, behind, time);
        const Duration busy = at.done->end - std::max(clock, at.done->begin);
        const Phase phase = graph_.templates[static_cast<std::size_t>(at.item->template_index)].phase;
        if (computes) (phase == Phase::optimizer ? time.optimizer : time.compute) += busy;
        if (!computes) time.exposed[static_cast<std::size_t>(traffic_of(*at.op))] += busy;
        clock = std::max(clock, at.done->end);
      }
      if (!computes) behind = {{at.done->begin, start, at.done->end, traffic_of(*at.op)}};
      if (computes && at.op->payload >= 0) behind.clear();
      if (!at.op->records.none()) events[key_of(at.op->records, at.item->microbatch)] = std::move(behind);
      add_span(at, start, timeline);
    });
    close_rank(time, clock, first, timeline);
  }

  const StepGraph& graph_;
  const std::vector<std::vector<ExecutedOp>>& ranks_;
  Duration origin_;
  std::map<std::pair<std::int32_t, int>, Duration> last_arrivals_;                 // [communicator, number of the call]
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, Duration> sent_;  // [receiver, channel, micro-batch]
};

}  // namespace

std::vector<ExecutedOp> execute_rank(const StepGraph& graph, std::int32_t rank, Device& device) {
  const Rank& self = graph.ranks[static_cast<std::size_t>(rank)];
  const std::vector<ProgramItem>& program = program_of(graph, rank);
  std::size_t count = 0;
  for (const ProgramItem& item : program)
    count += graph.templates[static_cast<std::size_t>(item.template_index)].ops.size();
  std::vector<ExecutedOp> executed;
  executed.reserve(count);  // no allocation between two operations
  for (std::size_t i = 0; i < program.size(); ++i) {
    const Template& used = graph.templates[static_cast<std::size_t>(program[i].template_index)];
    for (std::size_t o = 0; o < used.ops.size(); ++o) {
      if (!takes_time(used.ops[o])) continue;
      ExecutedOp done{static_cast<std::int32_t>(i), static_cast<std::int32_t>(o), device.now(), {}};
      run(graph, self, used.ops[o], program[i].microbatch, device);
      done.end = device.now();
      executed.push_back(done);
    }
  }
  return executed;
}

Timeline timeline_of(const StepGraph& graph, const std::vector<std::vector<ExecutedOp>>& ranks) {
  TRACECAST_ASSERT(ranks.size() == graph.ranks.size(), "every rank of the graph was executed");
  return Assembler(graph, ranks).assemble(false);
}

Timeline overlapped_timeline_of(const StepGraph& graph, const std::vector<std::vector<ExecutedOp>>& ranks) {
  TRACECAST_ASSERT(ranks.size() == graph.ranks.size(), "every rank of the graph was executed");
  return Assembler(graph, ranks).assemble(true);
}

}  // namespace tracecast
