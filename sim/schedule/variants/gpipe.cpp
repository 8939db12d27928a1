/// GPipe: all forwards, then all backwards. Every rank keeps all M micro-batches.
/// Source: Huang et al. 2019, docs/references.md#gpipe
#include <array>

#include "sim/schedule/placement.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

constexpr std::array<std::string_view, 1> kGpipeAliases{"ScheduleGPipe"};

Result<Schedule> make_gpipe(const ScheduleRequest& request) {
  Schedule schedule = start_schedule(request, loop_placement(request.ranks, 1));
  for (std::vector<Action>& list : schedule.actions) {
    for (int m = 0; m < request.microbatches; ++m) list.push_back(forward(0, m));
    for (int m = 0; m < request.microbatches; ++m) list.push_back(backward(0, m));
  }
  return schedule;
}

}  // namespace

constexpr ScheduleVariant kGpipe{
    .name = "gpipe",
    .aliases = kGpipeAliases,
    .summary = "all forwards, then all backwards",
    .make = make_gpipe,
};

}  // namespace tracecast
