#include "sim/graph/gradient_copies.hpp"

#include <algorithm>

#include "sim/base/integers.hpp"

namespace tracecast {
namespace {

using Types = GradientTypes;

// Bytes of a parameter that one kernel reads and writes.
constexpr std::int64_t copy(std::int64_t size) { return 2 * size; }
constexpr std::int64_t concatenate(std::int64_t size) { return 2 * size; }
constexpr std::int64_t divide(std::int64_t size) { return 2 * size; }
constexpr std::int64_t copy_as(std::int64_t from, std::int64_t to) { return from + to; }
constexpr std::int64_t cast(std::int64_t from, std::int64_t to) { return from == to ? 0 : copy_as(from, to); }
constexpr std::int64_t add(std::int64_t gradient, std::int64_t sum) { return gradient + 2 * sum; }

Bytes fsdp1_copies(const Types& t, const ReducedGradients& r) {
  const std::int64_t whole = concatenate(t.made) + cast(t.made, t.summed) + divide(t.summed);
  // Before and after the reduction it divides by about the root of the number of ranks.
  const std::int64_t shard = (r.ranks > 2 ? divide(t.summed) : 0) + cast(t.summed, t.updated);
  const std::int64_t own = ceil_div(r.parameters, std::int64_t{r.ranks});
  const std::int64_t earlier =
      ceil_div(own * add(t.updated, t.updated) * (r.reductions - 1), std::int64_t{r.reductions});
  return Bytes{r.parameters * whole + own * shard + earlier};
}

Bytes fsdp2_copies(const Types& t, const ReducedGradients& r) {
  const std::int64_t from = r.summed ? std::max(t.made, t.summed) : t.made;
  return Bytes{r.parameters * copy_as(from, t.summed)};
}

/// Divided on the way into the bucket, and copied back behind the reduction.
Bytes ddp_copies(const Types& t, const ReducedGradients& r) {
  return Bytes{r.parameters * (divide(t.summed) + copy(t.summed))};
}

/// Copied into the bucket, divided, flattened; cast to what is sent and back.
Bytes deepspeed_copies(const Types& t, const ReducedGradients& r) {
  return Bytes{r.parameters * (copy(t.made) + divide(t.made) + concatenate(t.made) + 2 * cast(t.made, t.sent))};
}

/// Cast before it is concatenated and divided, and afterwards its shard alone, which is left out.
Bytes stage3_copies(const Types& t, const ReducedGradients& r) {
  return Bytes{r.parameters * (copy(t.made) + cast(t.made, t.sent) + concatenate(t.sent) + divide(t.sent))};
}

/// Autograd adds to what is there, from the second micro-batch on.
constexpr GradientSum added_in_place(std::int64_t size) { return {0, add(size, size), add(size, size)}; }

/// The gradients of a unit's views become one, which autograd adds; the reduction's copies have the last concatenation.
GradientSum fsdp1_sum(const Types& t) {
  const std::int64_t one = concatenate(t.made);
  return {one, one + add(t.made, t.made), add(t.made, t.made)};
}

/// The first is cast to the type that is reduced, if that is wider.
GradientSum fsdp2_sum(const Types& t) {
  if (t.made >= t.summed) return added_in_place(t.made);
  return {copy_as(t.made, t.summed), add(t.made, t.summed), add(t.made, t.summed)};
}

struct FrameworkBytes {
  DataParallelFramework framework;
  Bytes (*copies)(const Types&, const ReducedGradients&);
  GradientSum (*sum)(const Types&);
};

using Framework = DataParallelFramework;
constexpr FrameworkBytes kFrameworks[] = {
    {Framework::megatron, [](const Types&, const ReducedGradients&) { return Bytes{}; },
     [](const Types&) { return GradientSum{}; }},
    {Framework::fsdp1, fsdp1_copies, fsdp1_sum},
    {Framework::fsdp2, fsdp2_copies, fsdp2_sum},
    {Framework::ddp, ddp_copies, [](const Types& t) { return added_in_place(t.summed); }},
    {Framework::deepspeed, deepspeed_copies, [](const Types& t) { return added_in_place(t.made); }},
    {Framework::deepspeed_stage3, stage3_copies, [](const Types& t) { return added_in_place(t.made); }},
};

const FrameworkBytes& row_of(DataParallelFramework framework) {
  return *std::ranges::find(kFrameworks, framework, &FrameworkBytes::framework);
}

}  // namespace

Bytes copied_bytes(DataParallelFramework framework, const GradientTypes& types, const ReducedGradients& reduced) {
  return row_of(framework).copies(types, reduced);
}

GradientSum summed_bytes(DataParallelFramework framework, const GradientTypes& types) {
  return row_of(framework).sum(types);
}

}  // namespace tracecast
