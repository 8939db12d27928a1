#include "sim/graph/parameter_units.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast {

Bucket& Bucket::operator+=(const Bucket& other) {
  dense += other.dense;
  expert += other.expert;
  dense_gathered += other.dense_gathered;
  expert_gathered += other.expert_gathered;
  quantised += other.quantised;
  return *this;
}

Bucket ParameterUnits::make(int unit, const Parameters& dense, const Parameters& expert) const {
  const Training& training = plan_.training;
  const std::int64_t wide = training.dtype == Precision::fp32 ? 4 : 2;
  const auto gathered = [&](const Parameters& parameters) {
    if (!training.fp8_param_gather) return Bytes{parameters.all * wide};
    const double narrow = quantised_size(training.dtype) * static_cast<double>(parameters.quantised);
    return Bytes{(parameters.all - parameters.quantised) * wide + std::llround(narrow)};
  };
  return {unit, dense.all, expert.all, gathered(dense), gathered(expert), dense.quantised + expert.quantised};
}

Bucket ParameterUnits::unit(const Stage& stage, int unit) const {
  if (stage.embedding && unit == 0) return make(unit, {work_.embedding_parameters(), 0}, {});
  if (stage.head && unit == head(stage)) return make(unit, {work_.head_parameters(), 0}, {});
  const int layer = stage.first_layer + unit - (stage.embedding ? 1 : 0);
  const std::int64_t expert = expert_parameters(layer);
  return make(unit, {work_.layer_parameters(layer) - expert, work_.quantised_parameters(layer, false)},
              {expert, work_.quantised_parameters(layer, true)});
}

Bucket ParameterUnits::stage(const Stage& stage) const {
  Bucket sum;
  for (int index = 0; index < count(stage); ++index) sum += unit(stage, index);
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
    if (!open) buckets.emplace_back().first_unit = index;
    buckets.back() += own;
    open = buckets.back().total() < bucket_size();
  }
  return buckets;
}

}  // namespace tracecast
