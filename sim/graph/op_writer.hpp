/// \file
/// Writes work lists: OpWriter appends operators and collectives, LayerShape knows the sizes and precisions of one
/// layer on one rank. The parts of a layer are functions over an OpWriter, a file for each:
///
///   linear_layer.hpp        linear layers, their casts and adapters; collectives of tensor parallelism
///   norm.hpp                norms and residual sums
///   attention.hpp           attention with its projections, context parallelism
///   linear_attention.hpp    the same of Mamba-2 and delta rules
///   feed_forward.hpp        the dense feed-forward
///   mixture_of_experts.hpp  routed and shared experts
///   model_ends.hpp          embedding, output layer, loss, inputs of multi-token prediction
///   recomputation.hpp       forward work that the backward repeats
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "sim/graph/work_list.hpp"
#include "sim/model/model.hpp"
#include "sim/plan/plan.hpp"
#include "sim/plan/precision.hpp"

namespace tracecast {

/// What the shapes of one layer's work depend on. Letters as in layer.hpp.
/// Requires that `model` and `plan` outlive it
struct LayerShape {
  /// `layer`: -1 at both ends of the model. `expert_nodes`, `one_table`: as in LayerWork.
  LayerShape(const Model& model, const Plan& plan, int layer, int expert_nodes, bool one_table);
  /// The same layer for `tokens` of all tokens.
  LayerShape(const LayerShape& all, std::int64_t tokens);

  const Model& model;
  const Plan& plan;
  const Training& training;
  const int layer;
  const int expert_nodes;
  const bool one_table;
  const int tp;               ///< t
  const std::int64_t tokens;  ///< T
  const bool sequence_parallel;
  const std::int64_t local_tokens;   ///< of element-wise work: T/t with sequence parallelism, else T
  const std::int64_t element_bytes;  ///< of an activation (wide_size)

  Precision precision_of(LinearPart part) const { return linear_precision(model, training, layer, part); }
  /// True if the layer's own matrices and norms are trained.
  bool trains_weights() const;
  /// Decoder layers of an encoder-decoder model have a second attention, over the encoder's result.
  bool attends_encoder() const { return model.encoder_layers > 0 && layer >= model.encoder_layers; }
  /// tp_split gather: every linear layer is divided by columns, and its result is gathered before the next one.
  bool gathers_layers() const;
  /// Attention and feed-forward read the same input and are summed before the tensor ranks reduce: one reduction for both
  /// (docs/references.md#parallel-residual).
  bool sums_blocks() const;
  /// Sequence parallelism of PyTorch's DTensor.
  bool uses_dtensor() const { return sequence_parallel && plan.parallel.dtensor; }
  /// The [T, h] message of tensor parallelism.
  Bytes tensor_message() const { return tensor_message(model.hidden_size); }
  Bytes tensor_message(std::int64_t width) const { return Bytes{tokens * width * element_bytes}; }
  /// The collective that adds up partial sums of the tensor ranks.
  Collective reduction() const { return sequence_parallel ? Collective::reduce_scatter : Collective::all_reduce; }
};

/// Appends to a work list.
class OpWriter {
 public:
  /// `recomputed`: the work repeats a forward in the backward.
  explicit OpWriter(const LayerShape& layer, bool recomputed = false) : shape(layer), recomputed_(recomputed) {}

  const LayerShape shape;

  WorkList take() { return std::move(list_); }
  void append(WorkList more);
  void set_recomputed(bool recomputed) { recomputed_ = recomputed; }
  bool recomputed() const { return recomputed_; }
  /// True if CUDA graphs launch this part of a layer.
  bool captures(GraphModule module) const;
  /// Writes the work of `part`, as one CUDA graph if the run captures `module`: the host launches only its first entry.
  void capture(GraphModule module, const std::function<void()>& part);

  void compute(OperatorKind kind, Pass pass, Precision precision, std::string name, OperatorShape operands);
  /// Memory-bound work over `elements` elements that moves `bytes_per_element` bytes for each; none without elements.
  void elementwise(OperatorKind kind, Pass pass, const std::string& name, std::int64_t elements,
                   std::int64_t bytes_per_element);
  /// The host launches the last work with that before it: a stack's host time per operator was fitted to the operators of a layer without
  /// such small ones, and includes theirs.
  void share_launch() { list_.back().shares_launch = true; }
  /// The host launches the last work with so many calls of the framework, which take less time than an operator of a stack, with its
  /// casts and scales.
  void launch_by_calls(std::int64_t calls) { list_.back().calls = static_cast<int>(calls); }
  void collective(Traffic traffic, Collective what, Bytes size, Work::Kind kind = Work::Kind::collective,
                  int ticket = 0);
  /// Starts an exchange of the tokens of experts.
  void exchange_experts(const CollectiveCall& call, int ticket);
  /// The last collective is exposed in full, with tp_comm_overlap, too.
  void do_not_tile() { list_.back().untiled = true; }
  /// Between the ranks that share each expert. Userbuffers, which tile, are for dense layers.
  void expert_tensor_collective(Collective what, Bytes size);
  void join(int ticket);
  void host_sync();
  void gradients(std::int64_t parameters, bool expert = false);

 private:
  bool recomputed_;
  WorkList list_;
};

/// Bytes per element that element-wise work moves forward and backward.
struct Moved {
  std::int64_t forward;
  std::int64_t backward;
  std::int64_t in(Pass pass) const { return pass == Pass::forward ? forward : backward; }
};
/// Bytes that were counted for 16-bit tensors, for those of this run.
Moved widened(Moved moved, const LayerShape& shape);

}  // namespace tracecast
