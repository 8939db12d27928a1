/// Checks that a schedule is complete, that each stage has its rank, and that no ranks wait for each other in a cycle.
#include <cstddef>
#include <string>

#include <fmt/format.h>

#include "sim/schedule/run_order.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

namespace {

Result<void> invalid(std::string message) { return fail_key("schedule", "", std::move(message)); }

bool has_shape(const Schedule& s) {
  const auto ranks = static_cast<std::size_t>(s.ranks);
  if (s.ranks < 1 || s.microbatches < 1 || s.chunks < 1 || s.replicas < 1) return false;
  if (s.chunks % s.replicas != 0 || s.microbatches % s.replicas != 0) return false;
  if (s.actions.size() != ranks || s.stage_of.size() != ranks || s.replica_of.size() != ranks) return false;
  if (s.weight_versions.size() != ranks) return false;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto chunks = static_cast<std::size_t>(s.chunks);
    if (s.stage_of[rank].size() != chunks || s.replica_of[rank].size() != chunks) return false;
  }
  return true;
}

Result<void> check_placement(const Schedule& s) {
  std::vector<int> holders(static_cast<std::size_t>(s.replicas * s.stages()), 0);
  for (std::size_t rank = 0; rank < s.stage_of.size(); ++rank) {
    for (std::size_t chunk = 0; chunk < s.stage_of[rank].size(); ++chunk) {
      const int stage = s.stage_of[rank][chunk];
      const int replica = s.replica_of[rank][chunk];
      if (stage < 0 || stage >= s.stages() || replica < 0 || replica >= s.replicas) {
        return invalid(fmt::format("rank {} holds stage {} of replica {}, which does not exist", rank, stage, replica));
      }
      if (holders[static_cast<std::size_t>(replica * s.stages() + stage)]++ > 0) {
        return invalid(fmt::format("stage {} is on two ranks, one of them rank {}", stage, rank));
      }
    }
  }
  return {};
}

/// How often each part of a (stage, micro-batch) was seen.
struct Seen {
  std::int8_t forward = 0;
  std::int8_t backward = 0;
  std::int8_t input = 0;
  std::int8_t weight = 0;
};

class Counter {
 public:
  explicit Counter(const Schedule& schedule)
      : s_(schedule), seen_(static_cast<std::size_t>(s_.stages()) * static_cast<std::size_t>(s_.microbatches)) {}

  /// The first action that names a chunk or micro-batch that is not there, or that repeats another.
  Result<void> count() {
    for (int rank = 0; rank < s_.ranks; ++rank) {
      const std::vector<Action>& list = s_.actions[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < list.size(); ++i) {
        if (Result<void> ok = count(rank, i, list[i]); !ok) return ok;
      }
    }
    return {};
  }

  /// The first (stage, micro-batch) that lacks something.
  Result<void> complete() const {
    for (int stage = 0; stage < s_.stages(); ++stage) {
      for (int m = 0; m < s_.microbatches; ++m) {
        const Seen& seen = seen_[at(stage, m)];
        const char* missing = seen.forward == 0                     ? "F"
                              : seen.backward + seen.input == 0     ? "B"
                              : seen.input == 1 && seen.weight == 0 ? "W"
                                                                    : nullptr;
        if (missing != nullptr) return invalid(fmt::format("{}{}{} is missing", stage, missing, m));
      }
    }
    return {};
  }

 private:
  std::size_t at(int stage, int m) const {
    return static_cast<std::size_t>(stage) * static_cast<std::size_t>(s_.microbatches) + static_cast<std::size_t>(m);
  }

  Result<void> count(int rank, std::size_t index, const Action& action) {
    const bool pair = action.kind == ActionKind::forward_backward;
    if (Result<void> ok = known(rank, index, action.chunk, action.microbatch); !ok) return ok;
    if (pair) {
      if (Result<void> ok = known(rank, index, action.chunk2, action.microbatch2); !ok) return ok;
    }
    Seen& first = slot(rank, action.chunk, action.microbatch);
    bool twice = false;
    switch (action.kind) {
      case ActionKind::forward:
        twice = ++first.forward > 1;
        break;
      case ActionKind::backward:
        twice = ++first.backward + first.input + first.weight > 1;
        break;
      case ActionKind::backward_input:
        twice = first.backward + ++first.input > 1;
        break;
      case ActionKind::backward_weight:
        twice = first.backward + ++first.weight > 1;
        break;
      case ActionKind::forward_backward: {
        Seen& second = slot(rank, action.chunk2, action.microbatch2);
        twice = ++first.forward > 1 || ++second.backward + second.input + second.weight > 1;
        break;
      }
    }
    if (!twice) return {};
    return invalid(fmt::format("rank {} action {}: {} repeats work that is already in the schedule", rank, index,
                               to_string(s_, rank, action)));
  }

  Result<void> known(int rank, std::size_t index, int chunk, int microbatch) const {
    if (chunk < 0 || chunk >= s_.chunks) {
      return invalid(fmt::format("rank {} action {}: chunk {} does not exist", rank, index, chunk));
    }
    if (microbatch < 0 || microbatch >= s_.microbatches) {
      return invalid(fmt::format("rank {} action {}: micro-batch {} does not exist (allowed: 0..{})", rank, index,
                                 microbatch, s_.microbatches - 1));
    }
    if (s_.replica_of_microbatch(microbatch) !=
        s_.replica_of[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)]) {
      return invalid(fmt::format("rank {} action {}: micro-batch {} belongs to the other copy of the model", rank,
                                 index, microbatch));
    }
    return {};
  }

  Seen& slot(int rank, int chunk, int m) {
    return seen_[at(s_.stage_of[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)], m)];
  }

  const Schedule& s_;
  std::vector<Seen> seen_;
};

}  // namespace

Result<void> check(const Schedule& schedule) {
  if (!has_shape(schedule)) return invalid("the sizes of its lists do not fit its ranks, chunks and replicas");
  if (Result<void> ok = check_placement(schedule); !ok) return ok;
  Counter counter(schedule);
  if (Result<void> ok = counter.count(); !ok) return ok;
  if (Result<void> ok = counter.complete(); !ok) return ok;
  const std::vector<std::size_t> reached =
      run_order(schedule, [](int /*rank*/, std::size_t /*index*/, const Dependencies& /*d*/) {});
  for (std::size_t rank = 0; rank < reached.size(); ++rank) {
    if (reached[rank] < schedule.actions[rank].size()) return invalid("deadlock: " + describe_cycle(schedule, reached));
  }
  return {};
}

}  // namespace tracecast
