/// Chimera: two model copies run in opposite directions, M/2 micro-batches each, so that one fills the other's bubble.
///
/// Orders come from a unit-time picture with backwards as long as forwards. Micro-batch j = u P/2 + k of a copy has its
/// forward of stage q in slot 2 P u + 2 k + q and its backward in slot 2 P u + 2 k + 2 P - 1 - q. For even P no two
/// operations of a rank share a slot: the two copies' stages on it, r and P-1-r, have different parity.
///
/// Source: Li and Hoefler 2021, docs/references.md#chimera
#include <algorithm>
#include <utility>

#include "sim/schedule/placement.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

Result<Schedule> make_chimera(const ScheduleRequest& request) {
  const int ranks = request.ranks;
  const int half = request.microbatches / 2;
  if (ranks % 2 != 0) return fail_key("stages", ranks, "chimera needs an even number");
  if (request.microbatches % ranks != 0) {
    return fail_key("microbatches", request.microbatches,
                    "chimera needs a multiple of stages = " + std::to_string(ranks));
  }
  Schedule schedule = start_bidirectional_schedule(request);
  for (std::size_t rank = 0; rank < schedule.actions.size(); ++rank) {
    std::vector<std::pair<int, Action>> slots;
    for (int replica = 0; replica < 2; ++replica) {
      const int stage = schedule.stage_of[rank][static_cast<std::size_t>(replica)];
      for (int j = 0; j < half; ++j) {
        const int first = 2 * ranks * (j / (ranks / 2)) + 2 * (j % (ranks / 2));
        slots.emplace_back(first + stage, forward(replica, replica * half + j));
        slots.emplace_back(first + 2 * ranks - 1 - stage, backward(replica, replica * half + j));
      }
    }
    std::sort(slots.begin(), slots.end());
    for (const auto& [slot, action] : slots) schedule.actions[rank].push_back(action);
  }
  return schedule;
}

}  // namespace

constexpr ScheduleVariant kChimera{
    .name = "chimera",
    .summary = "two copies of the model in opposite directions",
    .make = make_chimera,
};

}  // namespace tracecast
