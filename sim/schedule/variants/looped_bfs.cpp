/// Looped breadth-first: chunk after chunk, each for all micro-batches; backwards in the reverse order of both.
/// Source: Lamy-Poirier 2023, docs/references.md#breadth-first; torch.distributed.pipelining
#include <array>

#include "sim/schedule/placement.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

constexpr std::array<std::string_view, 3> kLoopedBfsAliases{"LoopedBFS", "ScheduleLoopedBFS", "bfs"};

Result<Schedule> make_looped_bfs(const ScheduleRequest& request) {
  Schedule schedule = start_schedule(request, loop_placement(request.ranks, request.chunks));
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

}  // namespace

constexpr ScheduleVariant kLoopedBfs{
    .name = "looped-bfs",
    .aliases = kLoopedBfsAliases,
    .summary = "V chunks per rank, each for all micro-batches in turn",
    .default_chunks = 2,
    .any_chunks = true,
    .make = make_looped_bfs,
};

}  // namespace tracecast
