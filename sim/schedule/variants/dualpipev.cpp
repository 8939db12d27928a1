/// DualPipeV: DualPipe cut in half. One copy of the model in a V (rank r holds stages r and 2P-1-r); the two phases are the
/// two chunks of a rank.
/// Source: Sea AI Lab 2025 ("cut-in-half"), DeepSeek-AI's repository; see dual_pipe_phases.hpp.
#include <array>

#include "sim/schedule/dual_pipe_phases.hpp"
#include "sim/schedule/placement.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

constexpr std::array<std::string_view, 1> kDualpipevAliases{"ScheduleDualPipeV"};

Result<Schedule> make_dualpipev(const ScheduleRequest& request) {
  if (request.microbatches < 2 * request.ranks) {
    return fail_key("microbatches", request.microbatches,
                    "dualpipev needs at least 2 x stages = " + std::to_string(2 * request.ranks));
  }
  Schedule schedule = start_schedule(request, snake_placement(request.ranks, 2));
  for (int rank = 0; rank < request.ranks; ++rank) {
    schedule.actions[static_cast<std::size_t>(rank)] =
        dual_pipe_phases({.position = rank, .depth = request.ranks, .microbatches = request.microbatches});
  }
  return schedule;
}

}  // namespace

constexpr ScheduleVariant kDualpipev{
    .name = "dualpipev",
    .aliases = kDualpipevAliases,
    .summary = "DualPipe with one copy of the model in a V",
    .default_chunks = 2,
    .make = make_dualpipev,
    .has_pairs = true,
};

}  // namespace tracecast
