/// \file
/// The parameters of a rank in units (what FSDP gathers as one: embedding, layers, head) and in the buckets of
/// data-parallel all-gathers. Sizes of buckets: Megatron-LM's, PyTorch DDP's and DeepSpeed's defaults
/// (docs/references.md#fsdp-variants).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/graph/layer.hpp"
#include "sim/model/parameters.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/rank_parameters.hpp"

namespace tracecast {

/// Parameters of consecutive units that are gathered or reduced together, before data-parallel sharding.
struct Bucket {
  int first_unit = 0;
  RankParameters parameters;  ///< quantised: only where all of a unit's quantised ones are trained
  Bytes dense_gathered;       ///< size of the all-gather; of all, unless separates_experts()
  Bytes expert_gathered;      ///< of routed experts, which have separate data-parallel groups
  std::int64_t trained() const { return parameters.trained + parameters.trained_experts; }
  std::int64_t quantised() const { return parameters.quantised + parameters.quantised_experts; }
  Bucket& operator+=(const Bucket& other);  ///< keeps first_unit
};

class ParameterUnits {
 public:
  ParameterUnits(const Model& model, const Plan& plan, const LayerWork& work)
      : model_(model), plan_(plan), work_(work) {}

  /// Unit 0 is the embedding if the stage has it, then come the layers, then the head.
  int count(const Stage& stage) const { return (stage.embedding ? 1 : 0) + stage.num_layers + (stage.head ? 1 : 0); }
  int layer(const Stage& stage, int layer) const { return (stage.embedding ? 1 : 0) + layer - stage.first_layer; }
  int head(const Stage& stage) const { return count(stage) - 1; }
  /// FSDP's root module holds what no layer holds.
  bool is_root(const Stage& stage, int unit) const {
    return (stage.embedding && unit == 0) || (stage.head && unit == head(stage));
  }

  /// True if routed experts have collectives of their own. FSDP has one for all parameters of a unit, where each rank holds all experts.
  bool separates_experts() const;
  /// True if this stage has both ends of the model, and FSDP gathers and reduces them together.
  bool has_one_root(const Stage& stage) const;
  /// False for what lies below the first trained layer.
  bool has_backward(const Stage& stage, int unit) const;

  Bucket unit(const Stage& stage, int unit) const;
  /// What ZeRO-3 gathers of a unit: without the small tensors that DeepSpeed leaves whole
  /// (param_persistence_threshold). Each end of a root that is one unit is counted for itself.
  Bucket gathered(const Stage& stage, int unit) const;
  Bucket stage(const Stage& stage) const;

  /// Elements after which a bucket of a stage's gradients is closed; DDP's first is smaller. Megatron-LM's are of the first stage
  /// of a pipeline only: those of the others end earlier.   Source: docs/references.md#megatron-buckets
  std::int64_t bucket_size(const Stage& stage, bool first) const;
  /// Parameters of the gathers of ZeRO stages 1 and 2: whole units in forward order, closed as soon as a bucket is
  /// full.
  std::vector<Bucket> buckets(const Stage& stage) const;
  /// Elements that DeepSpeed's stage 3 gathers ahead.
  std::int64_t prefetch_size() const;

 private:
  RankParameters parameters_of(const Stage& stage, int unit) const;
  const RankParameters& layer_parameters(int layer) const;
  Bytes gather_bytes(std::int64_t all, std::int64_t trained, std::int64_t quantised) const;
  std::int64_t gather_size(const Stage& stage) const;
  std::vector<ParameterGroup> groups(const Stage& stage, int unit) const;

  const Model& model_;
  const Plan& plan_;
  const LayerWork& work_;
  mutable std::map<std::string, RankParameters> layers_;  ///< by LayerWork::kind(), as far as asked for
};

}  // namespace tracecast
