#include "sim/schedule/run_order.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/result.hpp"

namespace tracecast {

namespace {

/// Stage of a chunk of a rank.
int stage_at(const Schedule& schedule, int rank, int chunk) {
  return schedule.stage_of[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)];
}

bool makes(const Schedule& schedule, int rank, const Action& action, const Output& output) {
  const Dependencies d = dependencies(schedule, rank, action);
  return std::any_of(d.makes.begin(), d.makes.end(), [&](const Output& o) {
    return o.stage == output.stage && o.backward == output.backward && o.microbatch == output.microbatch;
  });
}

/// Where an output is made: rank and index in its list. Every output is made somewhere once `check` has counted them.
std::pair<int, std::size_t> producer(const Schedule& schedule, const Output& output) {
  const auto replica = static_cast<std::size_t>(schedule.replica_of_microbatch(output.microbatch));
  const int rank = rank_of_stage(schedule)[replica][static_cast<std::size_t>(output.stage)];
  const std::vector<Action>& list = schedule.actions[static_cast<std::size_t>(rank)];
  const auto found =
      std::find_if(list.begin(), list.end(), [&](const Action& a) { return makes(schedule, rank, a, output); });
  TRACECAST_ASSERT(found != list.end(), "an output that is waited for has a producer");
  return {rank, static_cast<std::size_t>(found - list.begin())};
}

struct Wait {
  int rank = 0;
  std::string text;
  int for_rank = 0;
};

Wait wait_of(const Schedule& schedule, const std::vector<std::size_t>& stuck_at, int rank) {
  const Action& action = schedule.actions[static_cast<std::size_t>(rank)][stuck_at[static_cast<std::size_t>(rank)]];
  for (const Output& need : dependencies(schedule, rank, action).needs) {
    if (need.stage < 0) continue;
    const auto [peer, index] = producer(schedule, need);
    if (index < stuck_at[static_cast<std::size_t>(peer)]) continue;
    const std::string wanted = to_string(schedule, peer, schedule.actions[static_cast<std::size_t>(peer)][index]);
    const std::string where = peer == rank ? "which comes later in its own list" : fmt::format("of rank {}", peer);
    return {rank, fmt::format("rank {} waits at {} for {} {}", rank, to_string(schedule, rank, action), wanted, where),
            peer};
  }
  TRACECAST_ASSERT(false, "a rank that is stuck waits for something");
}

}  // namespace

Dependencies dependencies(const Schedule& schedule, int rank, const Action& action) {
  Dependencies d;
  const auto need_backward = [&](int chunk, int m) {
    const int stage = stage_at(schedule, rank, chunk);
    d.needs[1] = {false, stage, m};
    if (stage + 1 < schedule.stages()) d.needs[2] = {true, stage + 1, m};
    d.makes[1] = {true, stage, m};
  };
  const auto need_forward = [&](int chunk, int m) {
    const int stage = stage_at(schedule, rank, chunk);
    if (stage > 0) d.needs[0] = {false, stage - 1, m};
    d.makes[0] = {false, stage, m};
  };
  switch (action.kind) {
    case ActionKind::forward:
      need_forward(action.chunk, action.microbatch);
      break;
    case ActionKind::backward:
    case ActionKind::backward_input:
      need_backward(action.chunk, action.microbatch);
      break;
    case ActionKind::backward_weight:
      d.needs[0] = {true, stage_at(schedule, rank, action.chunk), action.microbatch};
      break;
    case ActionKind::forward_backward:
      need_forward(action.chunk, action.microbatch);
      need_backward(action.chunk2, action.microbatch2);
      break;
  }
  return d;
}

std::vector<std::vector<int>> rank_of_stage(const Schedule& schedule) {
  std::vector<std::vector<int>> holder(static_cast<std::size_t>(schedule.replicas),
                                       std::vector<int>(static_cast<std::size_t>(schedule.stages()), -1));
  for (std::size_t rank = 0; rank < schedule.stage_of.size(); ++rank) {
    for (std::size_t chunk = 0; chunk < schedule.stage_of[rank].size(); ++chunk) {
      holder[static_cast<std::size_t>(schedule.replica_of[rank][chunk])]
            [static_cast<std::size_t>(schedule.stage_of[rank][chunk])] = static_cast<int>(rank);
    }
  }
  return holder;
}

std::string describe_cycle(const Schedule& schedule, const std::vector<std::size_t>& stuck_at) {
  int rank = 0;
  while (stuck_at[static_cast<std::size_t>(rank)] == schedule.actions[static_cast<std::size_t>(rank)].size()) ++rank;
  std::vector<Wait> path;
  const auto seen = [&](int r) {
    return std::find_if(path.begin(), path.end(), [r](const Wait& w) { return w.rank == r; });
  };
  while (seen(rank) == path.end()) {
    path.push_back(wait_of(schedule, stuck_at, rank));
    rank = path.back().for_rank;
  }
  std::string text;
  for (auto wait = seen(rank); wait != path.end(); ++wait) text += (text.empty() ? "" : "; ") + wait->text;
  return text;
}

}  // namespace tracecast
