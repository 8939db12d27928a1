/// PipeDream-2BW: the lists of 1F1B without a flush. Gradients of the M >= P micro-batches of a step are accumulated
/// before the update, so that two versions of the weights are enough on every rank, and weights are one step old.
/// Source: Narayanan et al. 2021; DOMAIN.md 5.2.
#include "sim/schedule/variants.hpp"

namespace tracecast {

Result<Schedule> make_pipedream_2bw(const ScheduleRequest& request) {
  if (auto one = require_chunks(request, "pipedream-2bw", 1); !one) return tl::unexpected(one.error());
  if (request.microbatches < request.ranks) {
    return refuse(
        "microbatches", request.microbatches,
        "pipedream-2bw accumulates over at least as many micro-batches as stages = " + std::to_string(request.ranks));
  }
  Result<Schedule> schedule = make_1f1b(request);
  if (!schedule) return schedule;
  schedule->name = "pipedream-2bw";
  schedule->flush = false;
  schedule->weight_versions.assign(schedule->weight_versions.size(), 2);
  return schedule;
}

}  // namespace tracecast
