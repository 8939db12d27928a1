/// GPipe: all forwards, then all backwards. Every rank keeps all M micro-batches.
/// Source: Huang et al. 2019; DOMAIN.md 5.2.
#include "sim/schedule/placement.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

Result<Schedule> make_gpipe(const ScheduleRequest& request) {
  if (auto one = require_chunks(request, "gpipe", 1); !one) return tl::unexpected(one.error());
  Schedule schedule = start_schedule("gpipe", request, loop_placement(request.ranks, 1));
  for (std::vector<Action>& list : schedule.actions) {
    for (int m = 0; m < request.microbatches; ++m) list.push_back(forward(0, m));
    for (int m = 0; m < request.microbatches; ++m) list.push_back(backward(0, m));
  }
  return schedule;
}

}  // namespace tracecast
