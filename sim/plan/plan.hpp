/// \file
/// The plan: a parallel layout that was checked against a model and a number of GPUs, with everything derived from it.
///
/// Rank layout: `rank_order` lists the axes from fastest to slowest, rank = sum over axes of coordinate x stride.
/// With the default tp-cp-ep-dp-pp: rank = tp + t (cp + C (dp + D pp)); ep has no stride, expert ranks
/// subdivide the cp x dp index.            Source: Megatron-LM parallel_state, docs/references.md#rank-order
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/model/model.hpp"
#include "sim/plan/expert_routing.hpp"
#include "sim/plan/packing.hpp"
#include "sim/plan/parallel.hpp"

namespace tracecast {

enum class Axis { tp, cp, dp, pp };
inline constexpr int kAxes = 4;

/// Position of one rank on each axis.
struct Coordinates {
  std::array<int, kAxes> at{};
  int operator[](Axis axis) const { return at[static_cast<std::size_t>(axis)]; }
  int& operator[](Axis axis) { return at[static_cast<std::size_t>(axis)]; }
  bool operator==(const Coordinates&) const = default;
};

/// The mixed-radix numbering of ranks.
class RankGrid {
 public:
  RankGrid() = default;
  /// `order`: axes from fastest to slowest. Requires every axis once.
  RankGrid(std::array<int, kAxes> sizes, std::array<Axis, kAxes> order);

  int size(Axis axis) const { return sizes_[static_cast<std::size_t>(axis)]; }
  int stride(Axis axis) const { return strides_[static_cast<std::size_t>(axis)]; }
  int ranks() const;
  Coordinates coordinates(int rank) const;
  int rank(const Coordinates& coordinates) const;
  /// The ranks that differ from `rank` only along `axes`, ascending.
  std::vector<int> group(int rank, std::vector<Axis> axes) const;

 private:
  std::array<int, kAxes> sizes_{1, 1, 1, 1};
  std::array<int, kAxes> strides_{1, 1, 1, 1};
};

/// Part of the model that one virtual stage holds.
struct Stage {
  int first_layer = 0;
  int num_layers = 0;
  bool embedding = false;  ///< input embedding
  bool head = false;       ///< final norm, output layer, loss
  bool operator==(const Stage&) const = default;
};

struct Plan {
  Parallel parallel;  ///< with dp, etp, pp_schedule filled in
  Training training;
  RankGrid grid;
  int world_size = 0;
  int num_microbatches = 0;
  ExpertLoad expert_load;                     ///< of a model with experts
  std::vector<Stage> stages;                  ///< pp x vpp virtual stages, in the order of the model
  std::shared_ptr<const PackedSteps> packed;  ///< of training.documents; null: every sequence is one document

  /// Tokens of one micro-batch on one tensor-parallel group: micro_batch x seq_length / cp.
  std::int64_t tokens() const;
  /// Ranks that gradients are reduced over (dp x cp).
  int gradient_group() const;
  /// Ranks that optimizer states (zero_stage >= 1) are divided by.
  int shard_group() const;
  /// zero_stage 3: are embedding and output layer (`root`) or the layers gathered again in the backward?
  bool gathers_again(bool root) const;
  /// The ranks that share each expert are not those that share each dense layer.
  bool has_own_expert_tensor_groups() const { return parallel.etp > 1 && parallel.etp != parallel.tp; }
  /// Ranks among those that share each expert which bring different tokens: all of them, but for tensor ranks that do not divide
  /// sequences.
  int expert_token_parts() const;
  /// True if micro-batches differ in their documents, and with them in the time of attention.
  bool batches_vary() const { return packed && packed->varies && training.documents->mask; }
  /// True if they differ in the context ranks that their documents are divided over.
  bool context_varies() const { return packed && packed->dynamic(); }
  /// The number of the rank's micro-batch 0 among those of all ranks that vary (VaryingWork); -1: they do not.
  std::int32_t first_batch(const Coordinates& at) const;
  /// Ranks with micro-batches of their own.   Requires batches_vary()
  int batch_owners() const { return parallel.dp * (context_varies() ? parallel.cp : 1); }
};

/// Checks and completes. Errors (all found are reported, keys as in a scenario file):
///   parallel: product tp pp dp cp != world_size; tp does not divide heads, hidden, ffn or the padded vocabulary;
///   pp_layout does not sum to the layers; fewer layers than virtual stages; ep does not divide experts, ep etp does
///   not divide tp cp dp; sequence_parallel without tp; unknown rank_order or zero_stage; those of sharding.hpp;
///   training: global_batch_size not divisible by micro_batch_size x dp; seq_length not divisible by cp (2 cp with p2p).
Result<Plan> make_plan(const Model& model, const Parallel& parallel, const Training& training, int world_size);

/// What training.documents makes of the batches of `plan`, whose `parallel` and `training` are complete.   Requires documents
PackedSteps packed_steps(const Plan& plan);

/// Tokens that the whole training takes with batches of this size: train_tokens, and more where a critical batch is given
/// (tokens_with_batch of model/scaling.hpp). 0: not asked.
double tokens_to_train(const Training& training);
/// Steps in which all samples of the data set are seen once; the last batch may be smaller and counts as a step.
/// Requires a checked training with dataset_samples
std::int64_t steps_of_epoch(const Training& training);

/// Names of the axes in `order` as in "tp-cp-ep-dp-pp".
Result<std::array<Axis, kAxes>> parse_rank_order(const std::string& order);

}  // namespace tracecast
