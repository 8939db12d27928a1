#include "sim/schedule/building_block.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "sim/schedule/placement.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

constexpr int kPeriod = 6;

/// Slots of F0, F1, I1, I0 of micro-batch 0.
using Slots = std::array<int, 4>;

/// Where the passes begin: F1 on the last rank, I1 on rank 0, I0 on the last rank; F0 begins at slot 0 on rank 0.
struct Turns {
  int forward1 = 0;
  int input1 = 0;
  int input0 = 0;
};

Slots slots_of_rank(int rank, int ranks, const Hops& hops, const Turns& turns) {
  const int from_end = ranks - 1 - rank;
  return {rank * hops.forward0, turns.forward1 + from_end * hops.forward1, turns.input1 + rank * hops.input1,
          turns.input0 + from_end * hops.input0};
}

bool shares_a_slot(Slots slots) {
  for (int& slot : slots) slot %= kPeriod;
  std::sort(slots.begin(), slots.end());
  return std::adjacent_find(slots.begin(), slots.end()) != slots.end();
}

bool fits(int ranks, const Hops& hops, const Turns& turns) {
  for (int rank = 0; rank < ranks; ++rank) {
    if (shares_a_slot(slots_of_rank(rank, ranks, hops, turns))) return false;
  }
  return true;
}

/// The earliest turns that fit: least delay in all, then least delay first.
Turns find_turns(int ranks, const Hops& hops) {
  std::optional<Turns> best;
  int best_delay = 0;
  const int hops_between_ends = ranks - 1;
  for (int d1 = 0; d1 < kPeriod; ++d1) {
    for (int d2 = 0; d2 < kPeriod; ++d2) {
      for (int d3 = 0; d3 < kPeriod; ++d3) {
        Turns turns;
        turns.forward1 = hops_between_ends * hops.forward0 + 1 + d1;
        turns.input1 = turns.forward1 + hops_between_ends * hops.forward1 + 1 + d2;
        turns.input0 = turns.input1 + hops_between_ends * hops.input1 + 1 + d3;
        if ((best && best_delay <= d1 + d2 + d3) || !fits(ranks, hops, turns)) continue;
        best = turns;
        best_delay = d1 + d2 + d3;
      }
    }
  }
  TRACECAST_ASSERT(best.has_value(), "the hops leave space for four passes");
  return *best;
}

}  // namespace

Schedule repeat_building_block(const ScheduleRequest& request, const Hops& hops) {
  Schedule schedule = start_schedule(request, snake_placement(request.ranks, 2));
  const Turns turns = find_turns(request.ranks, hops);
  for (int rank = 0; rank < request.ranks; ++rank) {
    const Slots slots = slots_of_rank(rank, request.ranks, hops, turns);
    std::vector<std::pair<int, Action>> order;
    for (int m = 0; m < request.microbatches; ++m) {
      const int later = kPeriod * m;
      order.emplace_back(slots[0] + later, forward(0, m));
      order.emplace_back(slots[1] + later, forward(1, m));
      order.emplace_back(slots[2] + later, backward_input(1, m));
      order.emplace_back(slots[3] + later, backward_input(0, m));
    }
    std::sort(order.begin(), order.end());
    for (const auto& [slot, action] : order) schedule.actions[static_cast<std::size_t>(rank)].push_back(action);
  }
  return schedule;
}

}  // namespace tracecast
