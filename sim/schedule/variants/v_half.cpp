/// V-Half: two chunks per rank in a V with hops 2, 1, 2, 1: activations live half as long as in ZB-V. About half of 1F1B's
/// memory (P/2 + 1 micro-batches at most) for about half of its bubble.
/// Source: Qi et al. 2024 (bubble B/2, memory 1/2), docs/references.md#controllable-memory
#include "sim/schedule/building_block.hpp"
#include "sim/schedule/fill_weight_gradients.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

Result<Schedule> make_v_half(const ScheduleRequest& request) {
  const Schedule order = repeat_building_block(request, {2, 1, 2, 1});
  // P+1 chunks is what the order itself needs; the next even number lets weight gradients wait for a gap.
  const int limit = 2 * (request.ranks / 2 + 1);
  return fill_weight_gradients(order, uniform_times(order, request.times), limit);
}

}  // namespace

constexpr ScheduleVariant kVHalf{
    .name = "v-half",
    .summary = "two chunks in a V: half of 1F1B's memory for half of its bubble",
    .default_chunks = 2,
    .make = make_v_half,
    .uses_times = true,
};

}  // namespace tracecast
