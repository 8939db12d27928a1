#include "sim/graph/parameter_units.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/precision.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast {

Bucket& Bucket::operator+=(const Bucket& other) {
  parameters += other.parameters;
  dense_gathered += other.dense_gathered;
  expert_gathered += other.expert_gathered;
  return *this;
}

/// ZeRO-3 gathers everything before it is used, the other stages what the optimizer has changed. Parameters in MXFP8 are gathered in
/// 16 bit, in the buffer of the gradients, and quantised by each rank, which needs both copies (docs/references.md#mxfp8-gathers).
Bytes ParameterUnits::gather_bytes(std::int64_t all, std::int64_t trained, std::int64_t quantised) const {
  const Training& training = plan_.training;
  const std::int64_t wide = wide_size(training);
  const std::int64_t gathered = plan_.parallel.zero_stage == 3 ? all : trained;
  if (!training.fp8_param_gather || (training.dtype == Precision::mxfp8 && plan_.parallel.zero_stage < 3))
    return Bytes{gathered * wide};
  const std::int64_t narrow = std::min(gathered, quantised);
  return Bytes{(gathered - narrow) * wide + std::llround(quantised_size(training.dtype) * static_cast<double>(narrow))};
}

bool ParameterUnits::separates_experts() const {
  return !reduces_units(plan_.parallel) || plan_.parallel.ep > 1 || plan_.has_own_expert_tensor_groups();
}

bool ParameterUnits::has_one_root(const Stage& stage) const {
  return stage.embedding && stage.head && root_is_one_unit(plan_.parallel);
}

bool ParameterUnits::has_backward(const Stage& stage, int unit) const {
  if (stage.embedding && unit == 0) return trains_embedding(plan_.training);
  return (stage.head && unit == head(stage)) ||
         trains_layer(model_, plan_.training, stage.first_layer + unit - (stage.embedding ? 1 : 0));
}

RankParameters ParameterUnits::parameters_of(const Stage& stage, int unit) const {
  RankParameters own;
  const auto set = [&](std::int64_t all, std::int64_t experts, Trained trained) {
    own.dense = all - experts;
    own.experts = experts;
    own.trained = trained.dense;
    own.trained_experts = trained.experts;
  };
  if (stage.embedding && unit == 0) {
    set(work_.embedding_parameters(), 0, work_.trained_embedding());
  } else if (stage.head && unit == head(stage)) {
    set(work_.head_parameters(), work_.head_expert_parameters(), work_.trained_head());
    own.quantised = work_.quantised_head();
  } else {
    return layer_parameters(stage.first_layer + unit - (stage.embedding ? 1 : 0));
  }
  return own;
}

const RankParameters& ParameterUnits::layer_parameters(int layer) const {
  const auto [found, added] = layers_.try_emplace(work_.kind(layer));
  if (added) found->second = work_.parameters(layer);
  return found->second;
}

Bucket ParameterUnits::unit(const Stage& stage, int unit) const {
  Bucket bucket;
  bucket.first_unit = unit;
  RankParameters& own = bucket.parameters = parameters_of(stage, unit);
  bucket.dense_gathered = gather_bytes(own.dense, own.trained, own.quantised);
  bucket.expert_gathered = gather_bytes(own.experts, own.trained_experts, own.quantised_experts);
  if (!separates_experts()) bucket.dense_gathered += std::exchange(bucket.expert_gathered, Bytes{});
  if (own.trained < own.quantised) own.quantised = 0;
  if (own.trained_experts < own.quantised_experts) own.quantised_experts = 0;
  return bucket;
}

Bucket ParameterUnits::stage(const Stage& stage) const {
  Bucket sum;
  for (int index = 0; index < count(stage); ++index) sum += unit(stage, index);
  return sum;
}

Bucket ParameterUnits::gathered(const Stage& stage, int index) const {
  Bucket whole = unit(stage, index);
  const std::int64_t kept = persistent_parameters(groups(stage, index), model_, plan_.parallel);
  whole.parameters.dense -= kept;
  whole.dense_gathered -= Bytes{kept * wide_size(plan_.training)};  // small tensors are not quantised
  return whole;
}

std::vector<ParameterGroup> ParameterUnits::groups(const Stage& stage, int unit) const {
  if (stage.embedding && unit == 0) return embedding_parameter_groups(model_);
  if (stage.head && unit == head(stage)) return head_parameter_groups(model_);
  return layer_parameter_groups(model_, stage.first_layer + unit - (stage.embedding ? 1 : 0));
}

std::int64_t ParameterUnits::bucket_size(const Stage& stage, bool first) const {
  const Parallel& parallel = plan_.parallel;
  switch (rules_of(parallel).buckets) {
    case BucketRule::ddp: {
      const std::int64_t mebibytes = first ? 1 : ddp_bucket_mib(parallel);
      return (mebibytes << 20) / element_size(plan_.training.grad_reduce_dtype);
    }
    case BucketRule::deepspeed:
      return deepspeed_bucket(parallel);
    case BucketRule::megatron:
      break;
  }
  // Megatron-LM's, whose distributed data parallelism has buckets on the first stage only; FSDP has units on all.
  if (parallel.pp > 1 && !stage.embedding && parallel.zero_stage <= 1) return std::numeric_limits<std::int64_t>::max();
  return megatron_bucket(parallel);
}

std::int64_t ParameterUnits::gather_size(const Stage& stage) const {
  if (rules_of(plan_.parallel).has_sized_buffers()) return deepspeed_gather(plan_.parallel);
  return bucket_size(stage, false);
}

std::int64_t ParameterUnits::prefetch_size() const { return deepspeed_prefetch(plan_.parallel); }

std::vector<Bucket> ParameterUnits::buckets(const Stage& stage) const {
  const std::int64_t full = gather_size(stage);
  std::vector<Bucket> buckets;
  bool open = false;
  for (int index = 0; index < count(stage); ++index) {
    const Bucket own = unit(stage, index);
    if (!open) buckets.emplace_back().first_unit = index;
    buckets.back() += own;
    open = buckets.back().parameters.total() < full;
  }
  return buckets;
}

}  // namespace tracecast
