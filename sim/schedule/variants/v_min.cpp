/// V-Min: two chunks per rank in a V with hops of one slot: activations live as short as possible. About a third of 1F1B's
/// memory for about two thirds of its bubble.
/// Source: Qi et al. 2024 (bubble 2B/3 + O(n), memory 1/3), docs/references.md#controllable-memory
#include "sim/schedule/building_block.hpp"
#include "sim/schedule/fill_weight_gradients.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

Result<Schedule> make_v_min(const ScheduleRequest& request) {
  const Schedule order = repeat_building_block(request, {1, 1, 1, 1});
  return fill_weight_gradients(order, uniform_times(order, request.times), 2 * ((request.ranks + 1) / 3 + 1));
}

}  // namespace

constexpr ScheduleVariant kVMin{
    .name = "v-min",
    .summary = "two chunks in a V: a third of 1F1B's memory for two thirds of its bubble",
    .default_chunks = 2,
    .make = make_v_min,
    .uses_times = true,
};

}  // namespace tracecast
