/// PipeDream-2BW: the lists of 1F1B without a flush. Gradients of the M >= P micro-batches of a step are accumulated
/// before the update, so that two versions of the weights are enough on every rank, and weights are one step old.
/// Source: Narayanan et al. 2021, docs/references.md#pipedream-2bw
#include <array>

#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

constexpr std::array<std::string_view, 1> kPipedream2bwAliases{"2bw"};

Result<Schedule> make_pipedream_2bw(const ScheduleRequest& request) {
  if (request.microbatches < request.ranks) {
    return fail_key(
        "microbatches", request.microbatches,
        "pipedream-2bw accumulates over at least as many micro-batches as stages = " + std::to_string(request.ranks));
  }
  Result<Schedule> schedule = k1f1b.make(request);
  if (!schedule) return schedule;
  schedule->flush = false;
  schedule->weight_versions.assign(schedule->weight_versions.size(), 2);
  return schedule;
}

}  // namespace

constexpr ScheduleVariant kPipedream2bw{
    .name = "pipedream-2bw",
    .aliases = kPipedream2bwAliases,
    .summary = "1F1B that never flushes; two weight versions",
    .make = make_pipedream_2bw,
};

}  // namespace tracecast
