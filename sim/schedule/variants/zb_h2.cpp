/// ZB-H2: up to 2P-1 micro-batches in flight close the bubble of the first half of the step; the ranks then end one after
/// the other, and the next step may begin that much earlier on each (its bubble is counted within each rank's span).
/// Source: Qi et al. 2023, docs/references.md#zero-bubble
#include <algorithm>

#include "sim/schedule/placement.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

Result<Schedule> make_zb_h2(const ScheduleRequest& request) {
  Schedule schedule = start_schedule(request, loop_placement(request.ranks, 1));
  for (int rank = 0; rank < request.ranks; ++rank) {
    std::vector<Action>& list = schedule.actions[static_cast<std::size_t>(rank)];
    int f = 0;
    int w = 0;
    const auto next_forward = [&] {
      if (f < request.microbatches) list.push_back(forward(0, f++));
    };
    const int warmup = std::min(2 * (request.ranks - 1 - rank) + 1, request.microbatches);
    while (f < warmup) next_forward();
    for (int j = 0; j < request.microbatches; ++j) {
      list.push_back(backward_input(0, j));
      // While the ranks fill up, rank r puts off 2r weight gradients in favour of forwards.
      const bool filling = f < request.microbatches && j < 2 * rank;
      if (!filling) list.push_back(backward_weight(0, w++));
      next_forward();
    }
    while (w < request.microbatches) list.push_back(backward_weight(0, w++));
  }
  return schedule;
}

}  // namespace

constexpr ScheduleVariant kZbH2{
    .name = "zb-h2",
    .summary = "zero bubble within each rank's span, at twice 1F1B's memory",
    .make = make_zb_h2,
};

}  // namespace tracecast
