/// Interleaved 1F1B: every rank holds V chunks of the model, so a bubble of a stage is V times shorter, for V times
/// the messages. Micro-batches go in groups of G; rank r runs min(2 (P-1-r) + (V-1) G, M V) chunk forwards ahead.
///
/// G is the request's, else P when P divides M, else PyTorch's (M / max(1, floor(M/P)), when that divides), else the
/// smallest that Megatron-Core accepts: G >= P, and M mod G is 0 or at least P.
///
/// Source: Narayanan et al. 2021 (SC21), docs/references.md#interleaved-1f1b, docs/references.md#pytorch-pipelining;
/// megatron/core/pipeline_parallel/schedules.py
#include <array>

#include <fmt/format.h>

#include "sim/schedule/interleaved.hpp"
#include "sim/schedule/placement.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

constexpr std::array<std::string_view, 3> kInterleaved1f1bAliases{"Interleaved1F1B", "ScheduleInterleaved1F1B",
                                                                  "interleaved"};

Schedule interleaved_schedule(const ScheduleRequest& request, int group, bool pairs) {
  const int ranks = request.ranks;
  const int chunks = request.chunks;
  Schedule schedule = start_schedule(request, loop_placement(ranks, chunks));
  const std::vector<ChunkPass> table = interleaved_table(request.microbatches, chunks, group);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action>& list = schedule.actions[static_cast<std::size_t>(rank)];
    list.reserve(2 * table.size());
    const auto ahead = static_cast<std::size_t>(2 * (ranks - 1 - rank) + (chunks - 1) * group + (pairs ? 1 : 0));
    const std::size_t warmup = std::min(ahead, table.size());
    for (std::size_t i = 0; i < table.size() + warmup; ++i) {
      const ChunkPass* next = i < table.size() ? &table[i] : nullptr;
      const ChunkPass* done = i >= warmup ? &table[i - warmup] : nullptr;
      if (pairs && next != nullptr && done != nullptr) {
        list.push_back(overlapped(next->chunk, next->microbatch, chunks - 1 - done->chunk, done->microbatch));
        continue;
      }
      if (next != nullptr) list.push_back(forward(next->chunk, next->microbatch));
      if (done != nullptr) list.push_back(backward(chunks - 1 - done->chunk, done->microbatch));
    }
  }
  return schedule;
}

/// Megatron-Core's rule for groups that never make a rank wait for itself: as many as ranks, and in the last group too.
bool is_safe(int microbatches, int ranks, int group) {
  const int last = microbatches % group;
  return group >= ranks && (last == 0 || last >= ranks);
}

int smallest_safe_group(int microbatches, int ranks) {
  for (int group = ranks; group < microbatches; ++group) {
    if (is_safe(microbatches, ranks, group)) return group;
  }
  return microbatches;
}

std::int64_t chunks_in_flight(const ScheduleRequest& request, int rank) {
  return interleaved_chunks_in_flight(request, rank, false);
}

Result<Schedule> make_interleaved_1f1b(const ScheduleRequest& request) { return make_interleaved(request, false); }

}  // namespace

Result<void> check_group(const ScheduleRequest& request) {
  if (request.group_size <= request.microbatches) return {};
  return fail_key("group_size", request.group_size,
                  fmt::format("is more than the micro-batches (allowed: 1..{})", request.microbatches));
}

int usual_group(const ScheduleRequest& request) {
  const std::optional<int> group = pytorch_group(request);
  return group ? *group : smallest_safe_group(request.microbatches, request.ranks);
}

std::int64_t interleaved_chunks_in_flight(const ScheduleRequest& request, int rank, bool pairs) {
  const int ahead =
      2 * (request.ranks - 1 - rank) + (request.chunks - 1) * std::min(request.ranks, request.microbatches);
  return std::min<std::int64_t>(ahead + (pairs ? 1 : 0), std::int64_t{request.microbatches} * request.chunks);
}

Result<Schedule> make_interleaved(const ScheduleRequest& request, bool pairs) {
  if (Result<void> ok = check_group(request); !ok) return tl::unexpected(std::move(ok.error()));
  const int group = request.group_size > 0 ? request.group_size : usual_group(request);
  Schedule schedule = interleaved_schedule(request, group, pairs);
  // Chunk c+1 of a group comes a group later than chunk c, but its input needs P hops: a shorter group may wait for
  // itself. Often backwards in between give it the time, so only the order itself can tell.
  if (!is_safe(request.microbatches, request.ranks, group) && !check(schedule)) {
    return fail_key("group_size", group,
                    fmt::format("groups of {} and a last one of {} deadlock on {} ranks (groups of {} do not)", group,
                                request.microbatches % group, request.ranks,
                                smallest_safe_group(request.microbatches, request.ranks)));
  }
  return schedule;
}

constexpr ScheduleVariant kInterleaved1f1b{
    .name = "interleaved-1f1b",
    .aliases = kInterleaved1f1bAliases,
    .summary = "1F1B over V chunks per rank: a bubble V times shorter",
    .default_chunks = 2,
    .any_chunks = true,
    .make = make_interleaved_1f1b,
    .host_waits_for_messages = true,
    .chunks_in_flight = chunks_in_flight,
};

}  // namespace tracecast
