#include "sim/graph/merge_jobs.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace tracecast {
namespace {

/// Added to the numbers of the second job.
struct Offsets {
  explicit Offsets(const StepGraph& first)
      : templates(size(first.templates)),
        programs(size(first.programs)),
        communicators(size(first.communicators)),
        ranks(size(first.ranks)),
        operators(size(first.operators)),
        collectives(size(first.collectives)),
        messages(size(first.messages)) {
    for (const Rank& rank : first.ranks) slots = std::max(slots, size(rank.communicators));
  }

  std::int32_t of_payload(OpType type) const {
    switch (type) {
      case OpType::compute:
        return operators;
      case OpType::collective:
        return collectives;
      case OpType::send:
      case OpType::receive:
        return messages;
      case OpType::host_sync:
        break;
    }
    return 0;
  }

  std::int32_t templates;
  std::int32_t programs;
  std::int32_t communicators;
  std::int32_t ranks;
  std::int32_t operators;
  std::int32_t collectives;
  std::int32_t messages;
  std::int32_t slots = 0;

 private:
  template <class List>
  static std::int32_t size(const List& list) {
    return static_cast<std::int32_t>(list.size());
  }
};

void move(std::int32_t& number, std::int32_t by) {
  if (number >= 0) number += by;
}

Template moved(Template each, const Offsets& by) {
  for (Op& op : each.ops) move(op.payload, by.of_payload(op.type));
  return each;
}

Rank moved(Rank rank, const Offsets& by) {
  rank.program += by.programs;
  for (std::int32_t& communicator : rank.communicators) move(communicator, by.communicators);
  rank.communicators.insert(rank.communicators.begin(), static_cast<std::size_t>(by.slots), -1);
  for (ChannelEnd& end : rank.channels) move(end.rank, by.ranks);
  return rank;
}

template <class List>
void append(List& to, const List& from) {
  to.insert(to.end(), from.begin(), from.end());
}

/// The event of the same purpose `step` steps later, with micro-batch numbers that continue from step to step.
void move_on(EventRef& event, const StepGraph& one, std::int32_t step) {
  if (event.none() || event.local()) return;
  event.base += step * (one.rank_events - event.stride * one.microbatches);
}

}  // namespace

StepGraph repeated(StepGraph graph, int steps) {
  const StepGraph one = graph;
  for (std::int32_t step = 1; step < steps; ++step) {
    for (Template each : one.templates) {
      for (Op& op : each.ops) {
        for (EventRef& event : op.waits) move_on(event, one, step);
        move_on(op.records, one, step);
      }
      graph.templates.push_back(std::move(each));
    }
    for (std::size_t program = 0; program < one.programs.size(); ++program)
      for (ProgramItem item : one.programs[program]) {
        item.template_index += step * static_cast<std::int32_t>(one.templates.size());
        item.microbatch += step * one.microbatches;
        graph.programs[program].push_back(item);
      }
  }
  graph.rank_events *= steps;
  graph.microbatches *= steps;
  return graph;
}

StepGraph merge_jobs(StepGraph first, const StepGraph& second) {
  const Offsets by(first);
  for (std::size_t i = first.streams.size(); i < second.streams.size(); ++i) first.streams.push_back(second.streams[i]);
  first.rank_events = std::max(first.rank_events, second.rank_events);
  first.local_events = std::max(first.local_events, second.local_events);
  first.microbatches = std::max(first.microbatches, second.microbatches);
  append(first.operators, second.operators);
  append(first.messages, second.messages);
  for (CostedCollective each : second.collectives) {
    each.slot += by.slots;
    first.collectives.push_back(each);
  }
  for (const Template& each : second.templates) first.templates.push_back(moved(each, by));
  first.first_layers.resize(first.programs.size());
  append(first.first_layers, second.first_layers);
  for (std::vector<ProgramItem> program : second.programs) {
    for (ProgramItem& item : program) item.template_index += by.templates;
    first.programs.push_back(std::move(program));
  }
  for (Communicator each : second.communicators) {
    for (std::int32_t& member : each.members) member += by.ranks;
    first.communicators.push_back(std::move(each));
  }
  for (const Rank& rank : second.ranks) first.ranks.push_back(moved(rank, by));
  return first;
}

}  // namespace tracecast
