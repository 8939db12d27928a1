#include "sim/plan/group_spans.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include "sim/plan/plan.hpp"

namespace tracecast {
namespace {

/// Ranks of a stage are consecutive up to the stride of the pipeline axis; then the next ones are `pp` times as far.
std::int64_t span_in_stage(std::int64_t positions, const RankGrid& grid) {
  return positions <= grid.stride(Axis::pp) ? positions : positions * grid.size(Axis::pp);
}

}  // namespace

std::vector<int> group_spans(const Parallel& parallel, int world_size) {
  const auto order = parse_rank_order(parallel.rank_order);
  const std::array degrees{parallel.tp, parallel.cp, parallel.pp, parallel.ep};
  const bool positive = std::ranges::all_of(degrees, [&](int degree) { return degree >= 1 && degree <= world_size; });
  if (!order || !positive) return {};
  const std::int64_t model = parallel.model_ranks();
  if (model > world_size) return {};
  const RankGrid grid({parallel.tp, parallel.cp, static_cast<int>(world_size / model), parallel.pp}, *order);
  std::vector<std::int64_t> spans;
  for (const Axis axis : {Axis::tp, Axis::cp})
    if (grid.size(axis) > 1) spans.push_back(std::int64_t{grid.stride(axis)} * grid.size(axis));
  if (parallel.ep > 1) spans.push_back(span_in_stage(std::int64_t{parallel.expert_tensor_ranks()} * parallel.ep, grid));
  std::vector<int> result;
  for (const std::int64_t span : spans) result.push_back(static_cast<int>(std::min<std::int64_t>(span, world_size)));
  return result;
}

}  // namespace tracecast
