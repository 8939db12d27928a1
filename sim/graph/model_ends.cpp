#include "sim/graph/model_ends.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/integers.hpp"
#include "sim/graph/norm.hpp"
#include "sim/plan/activations.hpp"
#include "sim/plan/fine_tuning.hpp"

namespace tracecast {
namespace {

/// Words that one rank holds.
std::int64_t vocabulary(const LayerShape& s) { return ceil_div(s.model.vocab_size, s.tp); }

/// Positions without a label are left out before the output layer: it and the loss see the other tokens only.
LayerShape labelled(const LayerShape& s) {
  const double tokens = s.training.loss_mask_fraction * static_cast<double>(s.tokens);
  return {s, std::max<std::int64_t>(1, std::llround(tokens))};
}

/// All-reduces of one fp32 value per token: maximum, target logit, sum of exponentials. Megatron-LM's compiled loss reduces the
/// last two as one message, Transformer Engine's kernel gathers all three. docs/references.md#vocabulary-parallel-loss
void loss_reductions(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  if (s.tp == 1) return;
  const Bytes value{s.tokens * 4};
  const CrossEntropy loss = loss_of(s.plan.parallel, s.training);
  if (loss == CrossEntropy::fused && s.training.transformer_engine)
    return writer.collective(Traffic::tensor_parallel, Collective::all_gather, value * (3 * s.tp));
  writer.collective(Traffic::tensor_parallel, Collective::all_reduce, value);
  if (loss == CrossEntropy::fused_native)
    return writer.collective(Traffic::tensor_parallel, Collective::all_reduce, value * 2);
  writer.collective(Traffic::tensor_parallel, Collective::all_reduce, value);
  writer.collective(Traffic::tensor_parallel, Collective::all_reduce, value);
}

constexpr Moved kPyTorchLoss{22, 26};

/// Per logit, fp32 inside (docs/references.md#loss-bytes). Megatron-LM's: cast, maximum, difference, exponential, sum, quotient; product,
/// cast. Compiled by Megatron-LM: cast and maximum; difference, exponential and sum; quotient; product and cast. PyTorch's: cast,
/// log-softmax, which reads three times; zeros, softmax's gradient, which reads four times, cast. Compiled with
/// the model: the same three reads, of 16-bit logits; backward reads them once and writes the gradient. Fused: one kernel each way;
/// Transformer Engine's forward reads twice and writes the gradient, which the backward scales.
Moved loss_traffic(const LayerShape& s) {
  switch (loss_of(s.plan.parallel, s.training)) {
    case CrossEntropy::vocab_parallel:
      return {38, 14};
    case CrossEntropy::fused_native:
      return {22, 10};
    case CrossEntropy::pytorch:
      return kPyTorchLoss;
    case CrossEntropy::compiled:
      return {6, 4};
    case CrossEntropy::fused:
    case CrossEntropy::automatic:
      break;
  }
  return s.training.transformer_engine ? Moved{6, 4} : Moved{4, 4};
}

void cross_entropy(OpWriter& writer, Pass pass) {
  writer.elementwise(OperatorKind::cross_entropy, pass, "cross_entropy", writer.shape.tokens * vocabulary(writer.shape),
                     loss_traffic(writer.shape).in(pass));
}

/// Each metric casts the logits to fp32 and takes PyTorch's log-softmax of them. docs/references.md#train-metrics
void metric_losses(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  for (int metric = 0; metric < s.training.metric_losses; ++metric)
    writer.elementwise(OperatorKind::cross_entropy, Pass::forward, "metric", s.tokens * vocabulary(s),
                       kPyTorchLoss.forward);
}

Linear prediction_projection(const LayerShape& s) {
  return tuned(s,
               {"mtp_proj", 2 * s.model.hidden_size, s.model.hidden_size / s.tp, MatrixSplit::column,
                s.precision_of(LinearPart::mlp)},
               "");
}

/// After the projection of a prediction layer, and before its backward: not a gather that tp_comm_overlap hides.
/// docs/references.md#prediction-gathers
void gather_whole_tensor(OpWriter& writer) {
  writer.collective(Traffic::tensor_parallel, Collective::all_gather, writer.shape.tensor_message());
  writer.do_not_tile();
}

}  // namespace

std::int64_t table_parameters(const LayerShape& s) { return vocabulary(s) * s.model.hidden_size; }

Linear output_layer(const LayerShape& s, bool again) {
  const Precision precision = s.training.fp8_output_layer ? s.training.dtype : wide_precision(s.training);
  Linear linear{"lm_head", s.model.hidden_size, vocabulary(s), MatrixSplit::column, precision};
  linear.tied = again || (s.model.tied_embeddings && s.one_table);
  linear.frozen = !trains_output(s.model, s.training);
  return linear;
}

std::int64_t prediction_parameters(const LayerShape& s) {
  return prediction_projection(s).parameters() + 3 * norm_parameters(s.model);
}

void embedding_forward(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  writer.elementwise(OperatorKind::embedding, Pass::forward, "embedding", s.tokens * s.model.hidden_size,
                     2 * s.element_bytes);
  reduce_partial_sums(writer);
  if (s.model.embedding_norm) norm_forward(writer);
}

void embedding_backward(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  if (!trains_embedding(s.training)) return;
  if (s.model.embedding_norm) norm_backward(writer, BackwardPart::all);
  embedding_gradient(writer);
  writer.gradients(table_parameters(s));
}

void embedding_gradient(OpWriter& writer) {
  gather_sequence(writer);
  writer.elementwise(OperatorKind::embedding, Pass::backward, "embedding",
                     writer.shape.tokens * writer.shape.model.hidden_size, 8);
}

void head_forward(OpWriter& writer, bool again) {
  const Linear output = output_layer(writer.shape, again);
  if (writer.shape.model.final_norm) norm_forward(writer);
  OpWriter loss(labelled(writer.shape), writer.recomputed());
  gather_sequence(loss, output.precision, output.in);
  linear_forward(loss, output);
  cross_entropy(loss, Pass::forward);
  loss_reductions(loss);
  writer.append(loss.take());
}

void head_backward(OpWriter& writer, BackwardPart part, bool again) {
  OpWriter loss(labelled(writer.shape), writer.recomputed());
  if (has_input_gradients(part)) {
    if (!again) metric_losses(loss);
    cross_entropy(loss, Pass::backward);
  }
  column_backward(loss, output_layer(writer.shape, again), part);
  writer.append(loss.take());
  if (writer.shape.model.final_norm) norm_backward(writer, part);
}

void prediction_input_forward(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  embedding_forward(writer);
  norm_forward(writer);
  norm_forward(writer);
  writer.elementwise(OperatorKind::copy, Pass::forward, "concat", 2 * s.local_tokens * s.model.hidden_size,
                     2 * s.element_bytes);
  gather_sequence(writer);
  gather_sequence(writer);
  linear_forward(writer, prediction_projection(s));
  // Every tensor rank has a part of the width and gathers all of it; with sequence parallelism it keeps its part of the tokens.
  if (s.tp > 1) gather_whole_tensor(writer);
}

void prediction_input_backward(OpWriter& writer, BackwardPart part) {
  if (has_input_gradients(part) && writer.shape.sequence_parallel) gather_whole_tensor(writer);
  column_backward(writer, prediction_projection(writer.shape), part);
  norm_backward(writer, part);
  norm_backward(writer, part);
  if (has_input_gradients(part) && trains_embedding(writer.shape.training)) embedding_gradient(writer);
}

}  // namespace tracecast
