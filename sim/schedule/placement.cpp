#include "sim/schedule/placement.hpp"

#include <cstddef>
#include <utility>

namespace tracecast {

namespace {

template <class StageOf>
Placement placement(int ranks, int chunks, StageOf stage_of) {
  Placement result(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      result[static_cast<std::size_t>(rank)].push_back(stage_of(rank, chunk));
    }
  }
  return result;
}

}  // namespace

Placement loop_placement(int ranks, int chunks) {
  return placement(ranks, chunks, [&](int rank, int chunk) { return chunk * ranks + rank; });
}

Placement snake_placement(int ranks, int chunks) {
  return placement(ranks, chunks,
                   [&](int rank, int chunk) { return chunk * ranks + (chunk % 2 == 0 ? rank : ranks - 1 - rank); });
}

Schedule start_schedule(const ScheduleRequest& request, Placement placement) {
  Schedule schedule;
  schedule.ranks = request.ranks;
  schedule.microbatches = request.microbatches;
  schedule.chunks = static_cast<int>(placement.front().size());
  const auto ranks = static_cast<std::size_t>(request.ranks);
  schedule.weight_versions.assign(ranks, 1);
  schedule.stage_of = std::move(placement);
  schedule.replica_of.assign(ranks, std::vector<int>(static_cast<std::size_t>(schedule.chunks), 0));
  schedule.actions.resize(ranks);
  return schedule;
}

Schedule start_bidirectional_schedule(const ScheduleRequest& request) {
  const int ranks = request.ranks;
  Schedule schedule = start_schedule(
      request, placement(ranks, 2, [&](int rank, int chunk) { return chunk == 0 ? rank : ranks - 1 - rank; }));
  schedule.replicas = 2;
  for (std::vector<int>& replicas : schedule.replica_of) replicas = {0, 1};
  return schedule;
}

}  // namespace tracecast
