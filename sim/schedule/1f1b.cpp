/// 1F1B with a flush (PipeDream-flush, DAPPLE, DeepSpeed's TrainSchedule): rank r runs P-1-r forwards ahead, then one
/// forward and one backward in turn, so it keeps at most P-r micro-batches.
/// Source: Narayanan et al. 2021 (PipeDream-2BW), Fan et al. 2021 (DAPPLE); DOMAIN.md 5.2.
#include <algorithm>

#include "sim/schedule/placement.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

Result<Schedule> make_1f1b(const ScheduleRequest& request) {
  if (auto one = require_chunks(request, "1f1b", 1); !one) return tl::unexpected(one.error());
  Schedule schedule = start_schedule("1f1b", request, loop_placement(request.ranks, 1));
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

}  // namespace tracecast
