/// \file
/// The work of each layer and of both ends of a model on one rank: operators and collectives of one micro-batch in the
/// order in which they are issued, and the parameters of each part. Leaves out times and streams.
///
/// Letters: T = b s / C tokens of one tensor-parallel group, t = tp, e bytes per element. With sequence parallelism,
/// element-wise work outside the tensor-parallel blocks runs on T/t tokens.
///
/// Forward of a dense layer (* with sequence parallelism, + without):
///   norm · all_gather* · qkv · rope · attention · proj · reduce_scatter* or all_reduce+ · residual ·
///   norm · all_gather* · fc1 · activation · fc2 · reduce_scatter* or all_reduce+ · residual
/// Backward, from the end: all_gather* of the output gradient; every linear layer computes its input gradient, starts
/// the reduction of it (column-parallel ones) and computes its weight gradient meanwhile; with sequence parallelism
/// the input of column-parallel layers is gathered again meanwhile.
/// With Model::parallel_residual both blocks read one gathered input, and one reduction ends them (LayerShape::sums_blocks).
/// A layer of linear attention (linear_attention.hpp) has in_proj · causal_conv · scan · gated_norm · out_proj in attention's
/// place; a layer that is one block (Model::layer_pattern) ends after it, or begins at the second norm.
/// Source: docs/references.md#gemm-shapes, docs/references.md#elementwise-bytes,
/// docs/references.md#tensor-parallel-traffic, docs/references.md#context-parallel,
/// docs/references.md#expert-parallel
#pragma once

#include <cstdint>
#include <string>

#include "sim/graph/work_list.hpp"
#include "sim/model/model.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/rank_parameters.hpp"

namespace tracecast {

struct LayerShape;

/// Trained parameters of one rank: of routed experts, and all others.
struct Trained {
  std::int64_t dense = 0;
  std::int64_t experts = 0;
};

/// Makes the work lists of one run: every layer of the model under one plan.
/// Requires that model and plan outlive it
class LayerWork {
 public:
  /// `expert_nodes`: nodes (scale-up domains) that an expert-parallel group has members in. `one_table`: the rank of the output
  /// layer holds the embedding, too, so that tied embeddings and multi-token prediction need no second table of words.
  LayerWork(const Model& model, const Plan& plan, int expert_nodes, bool one_table);
  /// Without a schedule: one table without pipeline parallelism only.
  LayerWork(const Model& model, const Plan& plan, int expert_nodes = 1)
      : LayerWork(model, plan, expert_nodes, plan.parallel.pp == 1) {}

  /// Layers of one kind have the same work and parameters.
  std::string kind(int layer) const;

  WorkList forward(int layer) const;
  /// `recompute_all`: repeats the whole forward first, else what the training settings repeat of a layer.
  WorkList backward(int layer, BackwardPart part, bool recompute_all) const;

  WorkList embedding_forward() const;
  WorkList embedding_backward() const;
  /// Final norm, output layer, cross-entropy; and the same for every multi-token-prediction module after its layer
  /// (DeepSeek-V3, arXiv 2412.19437, 2.2): next words looked up, two norms, 2h -> h projection, a transformer layer.
  WorkList head_forward() const;
  WorkList head_backward(BackwardPart part) const;

  /// Parameters that one rank holds of each part, before data-parallel sharding.
  RankParameters parameters(int layer) const;  ///< without what Muon asks for
  std::int64_t layer_parameters(int layer) const { return parameters(layer).total(); }
  std::int64_t embedding_parameters() const;
  std::int64_t head_parameters() const;
  /// Of them, what 8- or 4-bit multiplications read of the output layer.
  std::int64_t quantised_head() const;
  /// Of the routed experts in layer_parameters(layer) and head_parameters().
  std::int64_t expert_parameters(int layer) const;
  std::int64_t head_expert_parameters() const;
  /// What gets gradients, announced by the `gradients` entries of a backward.
  Trained trained(int layer) const;
  Trained trained_embedding() const;
  Trained trained_head() const;

 private:
  LayerShape shape(int layer) const;
  std::int64_t norms_of(int layer) const;
  bool begins_decoder(int layer) const;
  bool copies_table() const;

  const Model& model_;
  const Plan& plan_;
  int expert_nodes_;
  bool one_table_;
};

}  // namespace tracecast
