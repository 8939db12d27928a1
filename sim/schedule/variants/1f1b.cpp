/// 1F1B with a flush (PipeDream-flush, DAPPLE, DeepSpeed's TrainSchedule): rank r runs P-1-r forwards ahead, then one
/// forward and one backward in turn, so it keeps at most P-r micro-batches.
/// Source: Narayanan et al. 2021 (PipeDream-2BW), Fan et al. 2021 (DAPPLE), docs/references.md#dapple
#include <algorithm>
#include <array>

#include "sim/schedule/placement.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

constexpr std::array<std::string_view, 4> k1F1BAliases{"Schedule1F1B", "dapple", "pipedream-flush", "TrainSchedule"};

Result<Schedule> make_1f1b(const ScheduleRequest& request) {
  Schedule schedule = start_schedule(request, loop_placement(request.ranks, 1));
  const int microbatches = request.microbatches;
  for (int rank = 0; rank < request.ranks; ++rank) {
    std::vector<Action>& list = schedule.actions[static_cast<std::size_t>(rank)];
    const int warmup = std::min(request.ranks - 1 - rank, microbatches);
    for (int m = 0; m < warmup; ++m) list.push_back(forward(0, m));
    for (int m = warmup; m < microbatches; ++m) {
      list.push_back(forward(0, m));
      list.push_back(backward(0, m - warmup));
    }
    for (int m = microbatches - warmup; m < microbatches; ++m) list.push_back(backward(0, m));
  }
  return schedule;
}

std::int64_t chunks_in_flight(const ScheduleRequest& request, int rank) {
  return std::min(request.ranks - rank, request.microbatches);
}

}  // namespace

constexpr ScheduleVariant k1f1b{
    .name = "1f1b",
    .aliases = k1F1BAliases,
    .summary = "one forward, one backward in turn; keeps at most P micro-batches",
    .make = make_1f1b,
    .host_waits_for_messages = true,
    .chunks_in_flight = chunks_in_flight,
};

}  // namespace tracecast
