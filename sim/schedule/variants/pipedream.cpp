/// PipeDream: the lists of 1F1B, never flushed. Weights are updated after every backward, so a rank keeps the version that
/// each micro-batch in flight began with: P-r of them, also where a step has fewer micro-batches than ranks, since those of the
/// steps after it follow at once. Rank r computes with weights P-1-r updates old.
/// Source: Harlap et al. 2018, Narayanan et al. 2019, docs/references.md#pipedream
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

Result<Schedule> make_pipedream(const ScheduleRequest& request) {
  Result<Schedule> schedule = k1f1b.make(request);
  if (!schedule) return schedule;
  schedule->flush = false;
  for (int rank = 0; rank < request.ranks; ++rank) {
    schedule->weight_versions[static_cast<std::size_t>(rank)] = request.ranks - rank;
  }
  return schedule;
}

}  // namespace

constexpr ScheduleVariant kPipedream{
    .name = "pipedream",
    .summary = "1F1B that never flushes; a weight version per micro-batch in flight",
    .make = make_pipedream,
    .updates_every_backward = true,
};

}  // namespace tracecast
