/// Looped breadth-first: chunk after chunk, each for all micro-batches; backwards in the reverse order of both.
/// Source: Lamy-Poirier 2023; torch.distributed.pipelining; DOMAIN.md 5.2.
#include "sim/schedule/placement.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

Result<Schedule> make_looped_bfs(const ScheduleRequest& request) {
  Schedule schedule = start_schedule("looped-bfs", request, loop_placement(request.ranks, request.chunks));
  for (std::vector<Action>& list : schedule.actions) {
    for (int chunk = 0; chunk < request.chunks; ++chunk) {
      for (int m = 0; m < request.microbatches; ++m) list.push_back(forward(chunk, m));
    }
    for (int chunk = request.chunks - 1; chunk >= 0; --chunk) {
      for (int m = request.microbatches - 1; m >= 0; --m) list.push_back(backward(chunk, m));
    }
  }
  return schedule;
}

}  // namespace tracecast
