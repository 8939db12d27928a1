#include "sim/graph/parameter_units.hpp"

#include <algorithm>

namespace tracecast {

Bucket ParameterUnits::unit(const Stage& stage, int unit) const {
  if (stage.embedding && unit == 0) return {unit, work_.embedding_parameters(), 0};
  if (stage.head && unit == head(stage)) return {unit, work_.head_parameters(), 0};
  const int layer = stage.first_layer + unit - (stage.embedding ? 1 : 0);
  const std::int64_t expert = expert_parameters(layer);
  return {unit, work_.layer_parameters(layer) - expert, expert};
}

Bucket ParameterUnits::stage(const Stage& stage) const {
  Bucket sum;
  for (int index = 0; index < count(stage); ++index) {
    const Bucket own = unit(stage, index);
    sum.dense += own.dense;
    sum.expert += own.expert;
  }
  return sum;
}

std::int64_t ParameterUnits::expert_parameters(int layer) const {
  std::int64_t sum = 0;
  if (!model_.is_moe_layer(layer)) return sum;
  for (const Work& work : work_.backward(layer, BackwardPart::weight_gradients, false))
    if (work.kind == Work::Kind::gradients && work.expert_parameters) sum += work.parameters;
  return sum;
}

std::int64_t ParameterUnits::bucket_size() const {
  if (plan_.parallel.ddp_bucket_size > 0) return plan_.parallel.ddp_bucket_size;
  // Megatron-LM's default (DOMAIN.md 2.2).
  return std::max<std::int64_t>(40'000'000, 1'000'000LL * plan_.parallel.dp);
}

std::vector<Bucket> ParameterUnits::buckets(const Stage& stage) const {
  std::vector<Bucket> buckets;
  bool open = false;
  for (int index = 0; index < count(stage); ++index) {
    const Bucket own = unit(stage, index);
    if (!open) buckets.push_back({index, 0, 0});
    buckets.back().dense += own.dense;
    buckets.back().expert += own.expert;
    open = buckets.back().total() < bucket_size();
  }
  return buckets;
}

}  // namespace tracecast
