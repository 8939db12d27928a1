// Recordings of several ranks in one step graph: collectives become rendezvous between the ranks.

#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "tracer/replay.hpp"

namespace tracecast {
namespace {

/// Identifies a collective on all ranks: group, sequence number, and how often the number occurred before on the same rank.
using CallKey = std::tuple<std::uint64_t, std::int64_t, std::int64_t>;

/// A rank's part in a collective.
struct Part {
  std::int32_t rank = 0;     ///< index into StepGraph::ranks
  std::int32_t payload = 0;  ///< index into StepGraph::collectives
  std::int32_t slot = 0;
};

/// The calls that the ranks of a group share.
struct Group {
  std::set<std::int32_t> ranks;
  std::map<std::int32_t, std::vector<CallKey>> order;  ///< [rank] its calls in program order
  std::map<CallKey, std::vector<Part>> calls;
};

/// Appends `from` to `to` and shifts its indices.
void append(StepGraph& to, StepGraph from) {
  const auto operators = static_cast<std::int32_t>(to.operators.size());
  const auto collectives = static_cast<std::int32_t>(to.collectives.size());
  const auto templates = static_cast<std::int32_t>(to.templates.size());
  const auto programs = static_cast<std::int32_t>(to.programs.size());
  const auto communicators = static_cast<std::int32_t>(to.communicators.size());
  const auto ranks = static_cast<std::int32_t>(to.ranks.size());
  if (from.streams.size() > to.streams.size()) to.streams = from.streams;
  to.rank_events = std::max(to.rank_events, from.rank_events);
  to.microbatches = std::max(to.microbatches, from.microbatches);
  for (CostedOperator& each : from.operators) to.operators.push_back(std::move(each));
  for (CostedCollective& each : from.collectives) {
    each.slot += communicators;
    to.collectives.push_back(each);
  }
  for (Template& part : from.templates) {
    for (Op& op : part.ops)
      if (op.payload >= 0) op.payload += op.type == OpType::collective ? collectives : operators;
    to.templates.push_back(std::move(part));
  }
  for (std::vector<ProgramItem>& program : from.programs) {
    for (ProgramItem& item : program) item.template_index += templates;
    to.programs.push_back(std::move(program));
  }
  for (Communicator& communicator : from.communicators) {
    for (std::int32_t& member : communicator.members) member += ranks;
    to.communicators.push_back(std::move(communicator));
  }
  for (Rank& rank : from.ranks) {
    rank.program += programs;
    to.ranks.push_back(std::move(rank));
  }
}

/// Without calls that other ranks cannot know.
std::map<std::uint64_t, Group> groups_of(const StepGraph& graph, const std::vector<RecordedCall>& calls,
                                         std::set<std::string>& notes) {
  std::map<std::uint64_t, Group> groups;
  std::map<std::tuple<std::int32_t, std::uint64_t, std::int64_t>, std::int64_t> again;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].alone != nullptr) {
      notes.insert(fmt::format("{} were not matched across ranks", calls[i].alone));
      continue;
    }
    const std::int32_t slot = graph.collectives[i].slot;
    const std::int32_t rank = graph.communicators[static_cast<std::size_t>(slot)].members.front();
    const CallKey key{calls[i].group, calls[i].sequence, again[{rank, calls[i].group, calls[i].sequence}]++};
    Group& group = groups[calls[i].group];
    group.ranks.insert(rank);
    group.order[rank].push_back(key);
    group.calls[key].push_back({rank, static_cast<std::int32_t>(i), slot});
  }
  return groups;
}

/// A message has one rank that sends it and one that receives it.
bool same_collective(const StepGraph& graph, const std::vector<RecordedCall>& calls, const std::vector<Part>& parts) {
  const auto in_direction = [&](int direction) {
    return std::ranges::count_if(
        parts, [&](const Part& part) { return calls[static_cast<std::size_t>(part.payload)].direction == direction; });
  };
  if (in_direction(1) > 1 || in_direction(-1) > 1) return false;
  return std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
    return graph.collectives[static_cast<std::size_t>(part.payload)].call.collective ==
           graph.collectives[static_cast<std::size_t>(parts.front().payload)].call.collective;
  });
}

/// Sequence numbers below 0, which calls in their order share, of which ranks made different numbers of calls: if one is missing, all
/// calls behind it would be matched with the wrong ones.
std::set<std::int64_t> miscounted(const Group& group, std::set<std::string>& notes) {
  std::map<std::int64_t, std::map<std::int32_t, std::int64_t>> counts;
  for (const auto& [rank, keys] : group.order)
    for (const auto& [number, sequence, again] : keys)
      if (sequence < 0) ++counts[sequence][rank];
  std::set<std::int64_t> found;
  for (const auto& [sequence, of_rank] : counts) {
    const auto [least, most] = std::ranges::minmax(of_rank | std::views::values);
    const std::int64_t fewest = of_rank.size() < group.ranks.size() ? 0 : least;
    if (fewest == most) continue;
    found.insert(sequence);
    const bool named = std::get<0>(group.calls.begin()->first) != UINT64_MAX;
    notes.insert(fmt::format(
        "{} without sequence numbers were not matched across ranks, which recorded {} to {} of them",
        named ? fmt::format("calls of {}", to_string(static_cast<Collective>(-1 - sequence))) : "NCCL kernels", fewest,
        most));
  }
  return found;
}

/// The calls that all ranks of a group made. None if ranks made them in different orders: they could deadlock.
std::vector<CallKey> common_calls(const StepGraph& graph, const std::vector<RecordedCall>& calls, const Group& group,
                                  std::set<std::string>& notes) {
  if (group.ranks.size() < 2) return {};
  const std::set<std::int64_t> left_out = miscounted(group, notes);
  std::vector<CallKey> first;
  for (const std::int32_t rank : group.ranks) {
    std::vector<CallKey> common;
    for (const CallKey& key : group.order.at(rank)) {
      const std::vector<Part>& parts = group.calls.at(key);
      if (parts.size() != group.ranks.size() || !same_collective(graph, calls, parts)) continue;
      if (left_out.contains(std::get<1>(key))) continue;
      common.push_back(key);
    }
    if (rank == *group.ranks.begin()) first = common;
    if (common != first) {
      notes.insert("calls of a group that its ranks made in different orders were not matched across ranks");
      return {};
    }
  }
  return first;
}

class Joiner {
 public:
  explicit Joiner(std::vector<Replay> replays) {
    for (Replay& replay : replays) {
      const auto number = static_cast<std::int32_t>(recorded_.size());
      recorded_.push_back(replay.recorded);
      for (std::size_t i = 0; i < replay.graph.ranks.size(); ++i) replay_of_.push_back(number);
      result_.calls.insert(result_.calls.end(), replay.calls.begin(), replay.calls.end());
      result_.works += replay.works;
      result_.waits += replay.waits;
      result_.syncs += replay.syncs;
      append(result_.graph, std::move(replay.graph));
    }
  }

  Replay join() {
    durations_.resize(result_.calls.size());
    for (const Template& part : result_.graph.templates)
      for (const Op& op : part.ops)
        if (op.type == OpType::collective) durations_[static_cast<std::size_t>(op.payload)] = op.duration;
    std::set<std::string> notes;
    for (const auto& [number, group] : groups_of(result_.graph, result_.calls, notes))
      meet(group, common_calls(result_.graph, result_.calls, group, notes));
    result_.notes.assign(notes.begin(), notes.end());
    for (Template& part : result_.graph.templates)
      for (Op& op : part.ops)
        if (op.type == OpType::collective) op.duration = durations_[static_cast<std::size_t>(op.payload)];
    delay();
    number_ranks();
    return std::move(result_);
  }

 private:
  /// NCCL runs the calls of a communicator one after the other, whichever streams they are on (PyTorch: waited for, on the caller's
  /// stream; else on one of its own). In the engine a communicator belongs to one stream of each rank, so there is one for each
  /// combination of streams. What waits for what is recorded, in the order of issue, which is the same on all ranks.
  void meet(const Group& group, const std::vector<CallKey>& calls) {
    StepGraph& graph = result_.graph;
    std::map<std::vector<std::int32_t>, std::int32_t> slots;  // [slot of each part] the common one
    for (const CallKey& key : calls) {
      const std::vector<Part>& parts = group.calls.at(key);
      std::vector<std::int32_t> own;
      for (const Part& part : parts) own.push_back(part.slot);
      const auto [found, added] = slots.try_emplace(own, static_cast<std::int32_t>(graph.communicators.size()));
      const std::int32_t slot = found->second;
      if (added) {
        Communicator communicator = graph.communicators[static_cast<std::size_t>(own.front())];
        communicator.members.assign(group.ranks.begin(), group.ranks.end());
        graph.communicators.push_back(std::move(communicator));
      }
      Duration shortest = durations_[static_cast<std::size_t>(parts.front().payload)];
      for (const Part& part : parts) shortest = std::min(shortest, durations_[static_cast<std::size_t>(part.payload)]);
      for (const Part& part : parts) {
        const auto payload = static_cast<std::size_t>(part.payload);
        graph.collectives[payload].slot = slot;
        graph.collectives[payload].cost.duration = shortest;
        durations_[payload] = shortest;
        compare_clocks(parts.front(), part);
      }
      ++result_.met;
    }
  }

  /// A collective ends on all members at the same time, even if their clocks differ.
  void compare_clocks(const Part& first, const Part& other) {
    const std::int32_t from = replay_of_[static_cast<std::size_t>(first.rank)];
    const std::int32_t to = replay_of_[static_cast<std::size_t>(other.rank)];
    if (from == to) return;
    ahead_[{from, to}].push_back((result_.calls[static_cast<std::size_t>(first.payload)].end -
                                  result_.calls[static_cast<std::size_t>(other.payload)].end)
                                     .picoseconds);
  }

  /// Offsets of the recordings relative to the first, propagated through the collectives that they share.
  void delay() {
    std::vector<std::int64_t> begins(recorded_.size(), 0);
    std::vector<bool> known(recorded_.size(), false);
    known[0] = true;
    for (std::size_t round = 0; round < recorded_.size(); ++round)
      for (auto& [pair, differences] : ahead_) {
        const auto from = static_cast<std::size_t>(pair.first);
        const auto to = static_cast<std::size_t>(pair.second);
        if (known[from] == known[to]) continue;
        std::sort(differences.begin(), differences.end());
        const std::int64_t median = differences[differences.size() / 2];
        if (known[from])
          begins[to] = begins[from] + median;
        else
          begins[from] = begins[to] - median;
        known[from] = known[to] = true;
      }
    const std::int64_t first = *std::min_element(begins.begin(), begins.end());
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const Duration later{begins[i] - first};
      result_.recorded = std::max(result_.recorded, later + recorded_[i]);
      for (std::size_t r = 0; r < replay_of_.size(); ++r)
        if (replay_of_[r] == static_cast<std::int32_t>(i)) begin_later(result_.graph.ranks[r], later);
    }
  }

  /// The host issues its first operation this much later. Each template belongs to one rank.
  void begin_later(const Rank& rank, Duration later) {
    const std::vector<ProgramItem>& program = result_.graph.programs[static_cast<std::size_t>(rank.program)];
    if (program.empty()) return;
    Template& part = result_.graph.templates[static_cast<std::size_t>(program.front().template_index)];
    if (!part.ops.empty()) part.ops.front().host += later;
  }

  void number_ranks() {
    std::set<std::int32_t> numbers;
    for (const Rank& rank : result_.graph.ranks) numbers.insert(rank.representative);
    std::vector<std::int32_t> all(result_.graph.communicators.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int32_t>(i);
    const bool unique = numbers.size() == result_.graph.ranks.size();
    std::int32_t next = 0;
    for (Rank& rank : result_.graph.ranks) {
      if (!unique) rank.representative = next++;
      rank.communicators = all;
    }
  }

  Replay result_;
  std::vector<Duration> recorded_;                                                    ///< [replay]
  std::vector<std::int32_t> replay_of_;                                               ///< [rank]
  std::vector<Duration> durations_;                                                   ///< [collective]
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::int64_t>> ahead_;  ///< [replays] ps between ends
};

}  // namespace

Replay join_ranks(std::vector<Replay> replays) {
  TRACECAST_ASSERT(!replays.empty(), "at least one recording is required");
  return Joiner(std::move(replays)).join();
}

}  // namespace tracecast
