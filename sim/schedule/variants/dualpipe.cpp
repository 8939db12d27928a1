/// DualPipe: two model copies run in opposite directions, M/2 micro-batches each; where they meet, the forward of one
/// runs together with the backward of the other, so that each hides the other's communication.
/// Source: DeepSeek-AI 2024 (DeepSeek-V3); see dual_pipe_phases.hpp.
#include <algorithm>

#include "sim/schedule/dual_pipe_phases.hpp"
#include "sim/schedule/placement.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

Result<Schedule> make_dualpipe(const ScheduleRequest& request) {
  const int ranks = request.ranks;
  const int half = request.microbatches / 2;
  if (ranks % 2 != 0) return fail_key("stages", ranks, "dualpipe needs an even number");
  if (request.microbatches % 2 != 0 || request.microbatches < 2 * ranks) {
    return fail_key("microbatches", request.microbatches,
                    "dualpipe needs an even number of at least 2 x stages = " + std::to_string(2 * ranks));
  }
  Schedule schedule = start_bidirectional_schedule(request);
  for (int rank = 0; rank < ranks; ++rank) {
    // A rank of the second half meets the copy that starts at its own end first.
    const int first = rank < ranks / 2 ? 0 : 1;
    schedule.actions[static_cast<std::size_t>(rank)] =
        dual_pipe_phases({.position = std::min(rank, ranks - 1 - rank),
                          .depth = ranks / 2,
                          .microbatches = half,
                          .chunk = {first, 1 - first},
                          .first_microbatch = {first * half, (1 - first) * half}});
  }
  return schedule;
}

}  // namespace

constexpr ScheduleVariant kDualpipe{
    .name = "dualpipe",
    .summary = "two copies in opposite directions, forwards overlapped with backwards",
    .make = make_dualpipe,
    .has_pairs = true,
};

}  // namespace tracecast
