/// \file
/// The order in which interleaved schedules take (micro-batch, chunk): groups of micro-batches, and within a group one
/// chunk after the other.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "sim/schedule/schedule.hpp"

namespace tracecast {

struct ChunkPass {
  int chunk = 0;
  int microbatch = 0;
};

/// Forward order of M micro-batches in groups of `group` (the last may be short) over V chunks. Backwards take the same
/// table with chunk V-1-c in place of c.
inline std::vector<ChunkPass> interleaved_table(int microbatches, int chunks, int group) {
  std::vector<ChunkPass> table;
  table.reserve(static_cast<std::size_t>(microbatches) * static_cast<std::size_t>(chunks));
  for (int first = 0; first < microbatches; first += group) {
    const int last = std::min(first + group, microbatches);
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int m = first; m < last; ++m) table.push_back({chunk, m});
    }
  }
  return table;
}

/// PyTorch's group: M / rounds micro-batches, rounds = max(1, floor(M/P)); P when P divides M. None when the rounds do
/// not divide M.
inline std::optional<int> pytorch_group(const ScheduleRequest& request) {
  const int rounds = std::max(1, request.microbatches / request.ranks);
  if (request.microbatches % rounds != 0) return std::nullopt;
  return request.microbatches / rounds;
}

/// Errors: key group_size, more than the micro-batches
Result<void> check_group(const ScheduleRequest& request);
/// Micro-batches per group where a request names no group: PyTorch's, else the smallest that Megatron-Core accepts.
int usual_group(const ScheduleRequest& request);

/// Interleaved 1F1B in the request's groups (interleaved_1f1b.cpp). With `pairs` a rank runs one forward more ahead, and
/// then every forward overlaps with a backward (combined_1f1b.cpp).   Errors: key group_size, as check_group, or groups that deadlock
Result<Schedule> make_interleaved(const ScheduleRequest& request, bool pairs);
/// Forwards ahead of the first backward, of pairs one more; groups have at least min(P, M) micro-batches.
std::int64_t interleaved_chunks_in_flight(const ScheduleRequest& request, int rank, bool pairs);

}  // namespace tracecast
