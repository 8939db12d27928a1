/// Interleaved zero bubble (PyTorch's InterleavedZeroBubble): the table of interleaved 1F1B with the backward split, fewer
/// forwards ahead, min(P-1-r + (V-1) G, M V), and weight gradients that lag r backwards behind on rank r.
/// Groups of micro-batches as PyTorch makes them unless the request says otherwise: G = P when P divides M.
/// Source: torch.distributed.pipelining, docs/references.md#pytorch-pipelining
#include <array>

#include "sim/schedule/interleaved.hpp"
#include "sim/schedule/placement.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

constexpr std::array<std::string_view, 2> kInterleavedZbAliases{"InterleavedZeroBubble",
                                                                "ScheduleInterleavedZeroBubble"};

Result<Schedule> make_interleaved_zb(const ScheduleRequest& request) {
  if (Result<void> ok = check_group(request); !ok) return tl::unexpected(std::move(ok.error()));
  const std::optional<int> group = request.group_size > 0 ? request.group_size : pytorch_group(request);
  if (!group) {
    return fail_key("microbatches", request.microbatches,
                    "interleaved-zb needs a multiple of its rounds, floor(microbatches / stages) = " +
                        std::to_string(request.microbatches / request.ranks));
  }
  const int ranks = request.ranks;
  const int chunks = request.chunks;
  Schedule schedule = start_schedule(request, loop_placement(ranks, chunks));
  const std::vector<ChunkPass> table = interleaved_table(request.microbatches, chunks, *group);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<Action>& list = schedule.actions[static_cast<std::size_t>(rank)];
    list.reserve(3 * table.size());
    const auto lag = static_cast<std::size_t>(rank);
    const std::size_t ahead = static_cast<std::size_t>(ranks - 1 - rank) +
                              static_cast<std::size_t>(chunks - 1) * static_cast<std::size_t>(*group);
    const std::size_t warmup = std::min(ahead, table.size());
    for (std::size_t i = 0; i < warmup; ++i) list.push_back(forward(table[i].chunk, table[i].microbatch));
    for (std::size_t j = 0; j < table.size() + lag; ++j) {
      const std::size_t i = j + warmup;
      if (i < table.size()) list.push_back(forward(table[i].chunk, table[i].microbatch));
      if (j < table.size()) list.push_back(backward_input(chunks - 1 - table[j].chunk, table[j].microbatch));
      if (j >= lag) list.push_back(backward_weight(chunks - 1 - table[j - lag].chunk, table[j - lag].microbatch));
    }
  }
  return schedule;
}

}  // namespace

constexpr ScheduleVariant kInterleavedZb{
    .name = "interleaved-zb",
    .aliases = kInterleavedZbAliases,
    .summary = "interleaved 1F1B with weight gradients in its bubble",
    .default_chunks = 2,
    .any_chunks = true,
    .make = make_interleaved_zb,
};

}  // namespace tracecast
