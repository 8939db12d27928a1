/// Interleaved 1F1B: every rank holds V chunks of the model, so a bubble of a stage is V times shorter, for V times the
/// messages. Micro-batches go in groups of G (default P); rank r runs min(2 (P-1-r) + (V-1) G, M V) chunk forwards ahead.
///
/// interleaved-1f1b          as Megatron-LM: groups of G, the last one short when G does not divide M
/// interleaved-1f1b-pytorch  as torch.distributed.pipelining: equal groups, see pytorch_group
///
/// Source: Narayanan et al. 2021 (SC21); DOMAIN.md 5.2; ECOSYSTEM.md 1.
#include "sim/schedule/interleaved.hpp"
#include "sim/schedule/placement.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

Schedule interleaved_schedule(const char* name, const ScheduleRequest& request, int group) {
  const int ranks = request.ranks;
  const int chunks = request.chunks;
  Schedule schedule = start_schedule(name, request, loop_placement(ranks, chunks));
  const std::vector<ChunkStep> table = interleaved_table(request.microbatches, chunks, group);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action>& list = schedule.actions[static_cast<std::size_t>(rank)];
    list.reserve(2 * table.size());
    const auto ahead = static_cast<std::size_t>(2 * (ranks - 1 - rank) + (chunks - 1) * group);
    const std::size_t warmup = std::min(ahead, table.size());
    for (std::size_t i = 0; i < table.size() + warmup; ++i) {
      if (i < table.size()) list.push_back(forward(table[i].chunk, table[i].microbatch));
      if (i >= warmup) {
        const ChunkStep& step = table[i - warmup];
        list.push_back(backward(chunks - 1 - step.chunk, step.microbatch));
      }
    }
  }
  return schedule;
}

}  // namespace

Result<int> pytorch_group(const ScheduleRequest& request) {
  const int rounds = std::max(1, request.microbatches / request.ranks);
  if (request.microbatches % rounds == 0) return request.microbatches / rounds;
  return refuse("microbatches", request.microbatches,
                "PyTorch needs a multiple of the rounds, floor(microbatches / stages) = " + std::to_string(rounds));
}

Result<Schedule> make_interleaved_1f1b(const ScheduleRequest& request) {
  const int group = request.group_size > 0 ? request.group_size : request.ranks;
  return interleaved_schedule("interleaved-1f1b", request, group);
}

Result<Schedule> make_interleaved_1f1b_pytorch(const ScheduleRequest& request) {
  return pytorch_group(request).map(
      [&](int group) { return interleaved_schedule("interleaved-1f1b-pytorch", request, group); });
}

}  // namespace tracecast
