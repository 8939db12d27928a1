/// \file
/// Writes the work lists of layer.hpp: everything about the run that shapes depend on, worked out once, and the vocabulary
/// that the lists are written in. Internal to sim/graph; each part of a layer has a file of its own.
///
/// layer_writer.cpp        operators, collectives, linear layers, norms and residuals
/// attention_work.cpp      attention with its projections, context parallelism
/// feed_forward_work.cpp   the dense feed-forward; operator-wise recomputation
/// moe_work.cpp            routed and shared experts
/// model_ends_work.cpp     embedding, output layer, loss
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/integers.hpp"
#include "sim/graph/layer.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/precision.hpp"

namespace tracecast {

/// How a weight matrix is divided over the tensor-parallel group.
enum class MatrixSplit { column, row, replicated };

/// One weight matrix: out x in per rank.
struct Linear {
  std::string name;
  std::int64_t in = 0;   ///< per rank
  std::int64_t out = 0;  ///< per rank
  MatrixSplit split = MatrixSplit::replicated;
  Precision precision = Precision::bf16;
  bool tied = false;    ///< shares its matrix with the embedding on this rank, or with another use of the output layer
  bool frozen = false;  ///< passes gradients on, but has no weight gradient
  std::int64_t adapter_rank = 0;  ///< of LoRA adapters beside it (plan/fine_tuning.hpp); 0: none
  std::int64_t parameters() const { return (tied ? 0 : in * out) + adapters(); }
  std::int64_t adapters() const { return adapter_rank * (in + out); }
  std::int64_t trained() const { return (tied || frozen ? 0 : in * out) + adapters(); }
};

/// Bytes per element that element-wise work moves forward and backward.
struct Moved {
  std::int64_t forward;
  std::int64_t backward;
};

class LayerWriter {
 public:
  /// `layer`: whose work it is; -1 at both ends of the model. `expert_nodes`: as in LayerWork.
  LayerWriter(const Model& model, const Plan& plan, int layer, int expert_nodes, bool recomputed = false)
      : model_(model),
        plan_(plan),
        training_(plan.training),
        layer_(layer),
        expert_nodes_(expert_nodes),
        t_(plan.parallel.tp),
        tokens_(plan.tokens()),
        sequence_parallel_(plan.parallel.sequence_parallel && plan.parallel.tp > 1),
        local_tokens_(sequence_parallel_ ? ceil_div(tokens_, t_) : tokens_),
        element_(plan.training.dtype == Precision::fp32 ? 4 : 2),
        recomputed_(recomputed) {}

  WorkList take() { return std::move(list_); }
  void append(WorkList more);

  void compute(OperatorKind kind, Pass pass, Precision precision, std::string name, OperatorShape shape);
  /// Memory-bound work over `elements` elements that moves `bytes_per_element` bytes for each.
  void elementwise(OperatorKind kind, Pass pass, const std::string& name, std::int64_t elements,
                   std::int64_t bytes_per_element);
  void collective(Traffic traffic, Collective what, Bytes size, Work::Kind kind = Work::Kind::collective,
                  int ticket = 0);
  void join(int ticket);
  void gradients(std::int64_t parameters, bool expert = false);
  /// The [T, h] message of tensor parallelism.
  Bytes tensor_message() const { return Bytes{tokens_ * model_.hidden_size * element_}; }
  void gather_sequence();
  /// tp_split gather: every linear layer is divided by columns, and its result is made whole before the next one.
  bool gathers_layers() const { return plan_.parallel.tp_split == TensorSplit::gather && t_ > 1; }
  /// With it: the [T, width] result of a linear layer, or of attention.
  void gather_result(std::int64_t width);
  Collective reduction() const { return sequence_parallel_ ? Collective::reduce_scatter : Collective::all_reduce; }
  void reduce_partial_sums();
  /// The end of attention or feed-forward: sums of the row-parallel layer, or with gathers_layers() all columns.
  void finish_block();

  // ---- Linear layers ---------------------------------------------------------------------------------------------------

  Precision precision_of(LinearPart part) const { return linear_precision(model_, training_, layer_, part); }
  /// 8-bit and 4-bit operands are quantised from 16 bit, together with the transposed copy that the weight gradient needs:
  /// 2 bytes read, both copies with their scales written.
  void quantise(const std::string& name, Precision precision, Pass pass, std::int64_t elements);
  /// ZeRO-3 has the weights in 16 bit each time they have been gathered: one copy is made for every use. Elsewhere copies
  /// are made once per step (end_of_step.hpp).
  void quantise_weights(const std::string& name, Precision precision, Pass pass, std::int64_t elements);
  /// Freezes `linear` and gives it adapters as the training settings want it for `target` ("qkv", "proj", "fc1", "fc2").
  Linear tuned(Linear linear, const std::string& target) const;
  void adapter_forward(const Linear& linear);
  void adapter_dgrad(const Linear& linear);
  void adapter_wgrad(const Linear& linear);
  bool trains_weights() const { return tracecast::trains_weights(model_, training_, layer_); }
  std::int64_t rows(const Linear& linear) const {
    return linear.split == MatrixSplit::replicated ? local_tokens_ : tokens_;
  }
  void linear_forward(const Linear& linear);
  void linear_dgrad(const Linear& linear);
  void linear_wgrad(const Linear& linear);
  /// Backward of the second layer of a pair. Row-parallel: its output gradient has been gathered; the input gradient needs
  /// no reduction. With gathers_layers() it is a column-parallel one.
  void row_backward(const Linear& linear, BackwardPart part);
  /// What the tensor ranks reduce of the input gradient of a column-parallel layer.
  Bytes input_gradient_message(const Linear& linear) const {
    return gathers_layers() ? Bytes{tokens_ * linear.in * element_} : tensor_message();
  }
  /// Backward of a column-parallel layer: gather the input again beside dgrad, reduce the input gradient beside wgrad.
  void column_backward(const Linear& linear, BackwardPart part);

  // ---- Norms, residuals ------------------------------------------------------------------------------------------------

  std::int64_t norm_parameters() const { return model_.hidden_size * (model_.norm_bias ? 2 : 1); }
  std::string norm_name() const { return model_.norm == Norm::rms_norm ? "rms_norm" : "layer_norm"; }
  /// Bytes that were counted for 16-bit tensors, for those of this run.
  Moved widened(Moved moved) const { return {moved.forward * element_ / 2, moved.backward * element_ / 2}; }
  Moved norm_traffic() const;
  /// Read x, write y; with the residual addition fused in (compiled): read two, write two.
  void norm_forward();
  /// Read x and dy, write dx; and add the gradient that came past the block.
  void norm_backward(BackwardPart part);
  void residual_forward();
  /// The mask is read as a byte per element.
  void residual_backward(BackwardPart part);

  // ---- Attention: attention_work.cpp -----------------------------------------------------------------------------------

  std::int64_t heads() const { return model_.num_attention_heads / t_; }
  std::int64_t kv_heads() const { return std::max<std::int64_t>(1, model_.num_query_groups / t_); }
  std::int64_t qk_dim() const;
  std::int64_t v_dim() const { return model_.latent_attention ? model_.latent_attention->v_dim : model_.head_dim; }
  /// The projections before the attention core, in order.
  std::vector<Linear> attention_inputs() const;
  Linear attention_output() const;
  std::int64_t micro_batch() const { return training_.micro_batch_size; }
  std::int64_t seq() const { return training_.seq_length; }
  int cp() const { return plan_.parallel.cp; }
  AttentionShape attention_shape(std::int64_t q_len, std::int64_t kv_len, bool causal) const;
  void rope(Pass pass);
  /// Encoder layers see the whole sequence, decoder layers what came before.
  bool causal() const;
  /// Decoder layers of an encoder-decoder model have a second attention, from the encoder's result.
  bool attends_encoder() const;
  Linear cross_query() const;
  Linear cross_key_value() const;
  Linear cross_output() const;
  void attention_core(Pass pass, bool causal);
  void core_backward(bool causal, bool recompute);
  void cross_attention_forward();
  void cross_attention_backward(BackwardPart part, bool recompute_core);
  /// Both multiplications of each direction, and softmax with mask and dropout over [b, a, s, s] between them.
  void unfused_attention(Pass pass);
  /// Bytes of the keys and values of one context rank.
  Bytes kv_block() const;
  /// Keys and values travel round the ring while the block that has arrived is worked on. With the zig-zag split every
  /// block but the first costs half of a full one. Backward moves keys, values and their gradients.
  void ring_attention(Pass pass, bool causal);
  void gathered_attention(Pass pass, bool causal);
  /// Ulysses: heads for sequence and back, four exchanges in each direction.
  void head_exchange_attention(Pass pass, bool causal);
  void qk_norm(Pass pass);
  void attention_forward();
  void attention_backward(BackwardPart part, bool recompute_core);

  // ---- Feed-forward: feed_forward_work.cpp -----------------------------------------------------------------------------

  int gamma() const { return model_.gated() ? 2 : 1; }
  Linear fc1(std::int64_t width) const;
  Linear fc2(std::int64_t width) const;
  /// Forward: gated reads two and writes one; backward: gated reads three and writes two.
  void activation(Pass pass, std::int64_t elements);
  /// Columns of a feed-forward's inner width that every tensor rank works on.
  std::int64_t activated(std::int64_t width) const { return gathers_layers() ? width : width / t_; }
  void dense_forward();
  void dense_backward(BackwardPart part);

  // ---- Mixture of experts: moe_work.cpp --------------------------------------------------------------------------------

  const MixtureOfExperts& moe() const { return *model_.moe; }
  int etp() const { return plan_.parallel.etp > 0 ? plan_.parallel.etp : t_; }
  int chunks() const { return plan_.parallel.moe_chunks; }
  /// Token copies that one rank sends: tensor ranks hold different tokens only with sequence parallelism.
  std::int64_t routed_tokens() const { return local_tokens_ * moe().topk; }
  /// Token copies that the experts of the fullest rank work on: those of etp ranks together.
  std::int64_t expert_tokens() const;
  std::int64_t local_experts() const { return std::max<std::int64_t>(1, moe().experts / plan_.parallel.ep); }
  std::int64_t expert_width() const { return moe().ffn_hidden / etp(); }
  std::int64_t expert_parameters() const;
  /// What one exchange moves: a copy of a token per expert, or with DeepEP per node (inside one node: per rank).
  Bytes exchange_size(Precision precision) const;
  /// `experts` on every chunk of the tokens between its dispatch in `precision` and its way back; the exchanges of other
  /// chunks, and `beside`, run meanwhile.
  void exchange_tokens(Precision precision, const std::function<void()>& experts,
                       const std::function<void()>& beside = {});
  /// Expert-tensor ranks work on the same tokens.
  void gather_expert_tokens(Precision precision);
  void reduce_expert_tokens();
  /// One multiplication of every local expert, on one of `parts` parts of the tokens.
  void grouped(Pass pass, const std::string& name, std::int64_t out, std::int64_t in, int parts);
  void permute(Pass pass, const std::string& name);
  Linear router() const {
    return tuned({"router", model_.hidden_size, moe().experts, MatrixSplit::replicated, Precision::bf16}, "");
  }
  Linear shared_fc1() const;
  Linear shared_fc2() const;
  void shared_forward();
  void shared_backward(BackwardPart part);
  void expert_weight_gradients();
  void moe_forward();
  void expert_block();  ///< between norm and residual sum
  void moe_backward(BackwardPart part);

  // ---- Recomputation: feed_forward_work.cpp ----------------------------------------------------------------------------

  /// Half of one matrix multiplication's forward: of two layers one repeats it.
  void half_forward(Linear linear);
  /// What torchtitan's op-level option repeats of a layer; attention and every second multiplication are kept.
  void selected_operators(bool moe_layer);
  /// What recompute_modules repeats of a layer.
  void repeated_modules(bool moe_layer);

  // ---- Both ends of the model: model_ends_work.cpp ---------------------------------------------------------------------

  std::int64_t vocab() const { return ceil_div(model_.vocab_size, t_); }
  /// `again`: another use of the same matrix, by multi-token prediction.
  Linear output_layer(bool again = false) const;
  void embedding_forward();
  void embedding_backward();
  void embedding_gradient();  ///< the scatter-add alone: the table's gradient is complete elsewhere
  /// Three all-reduces of one fp32 value per token: maximum, target logit, sum of exponentials.
  void loss_reductions();
  void head_forward(bool again = false);
  void head_backward(BackwardPart part, bool again = false);
  /// Before the layer of a multi-token-prediction module: the next words are looked up, normed beside the last hidden
  /// state, and both projected to one width.
  void prediction_input_forward();
  void prediction_input_backward(BackwardPart part);
  Linear prediction_projection() const;
  /// Parameters of a module beside its layer: projection and three norms.
  std::int64_t prediction_parameters() const { return prediction_projection().parameters() + 3 * norm_parameters(); }

 private:
  const Model& model_;
  const Plan& plan_;
  const Training& training_;
  const int layer_;
  const int expert_nodes_;
  const int t_;
  const std::int64_t tokens_;
  const bool sequence_parallel_;
  const std::int64_t local_tokens_;
  const std::int64_t element_;  ///< bytes of an activation
  bool recomputed_;
  WorkList list_;
};

}  // namespace tracecast
