/// Combined 1F1B: interleaved 1F1B (or 1F1B, with one chunk) in which every forward overlaps with a backward of another
/// micro-batch, so that each hides the other's exchange of expert-parallel tokens. A rank runs one forward more ahead
/// than interleaved 1F1B, because a backward may not overlap with the forward of its own micro-batch. Works with one rank,
/// too: F0, (F1, B0), (F2, B1) ...
///
/// Source: Megatron-Core's combined_1f1b.py and schedules.py (--overlap-moe-expert-parallel-comm),
/// docs/references.md#combined-1f1b
#include <array>

#include "sim/schedule/interleaved.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

constexpr std::array<std::string_view, 1> kCombined1f1bAliases{"overlap-moe-expert-parallel-comm"};

Result<Schedule> make_combined_1f1b(const ScheduleRequest& request) { return make_interleaved(request, true); }

std::int64_t chunks_in_flight(const ScheduleRequest& request, int rank) {
  return interleaved_chunks_in_flight(request, rank, true);
}

}  // namespace

constexpr ScheduleVariant kCombined1f1b{
    .name = "combined-1f1b",
    .aliases = kCombined1f1bAliases,
    .summary = "interleaved 1F1B whose forwards and backwards hide each other's exchange of experts",
    .default_chunks = 1,
    .any_chunks = true,
    .make = make_combined_1f1b,
    .has_pairs = true,
    .chunks_in_flight = chunks_in_flight,
};

}  // namespace tracecast
