#include "sim/graph/layer_writer.hpp"

namespace tracecast {

Linear LayerWriter::output_layer(bool again) const {
  Linear linear{"lm_head", model_.hidden_size, vocab(), MatrixSplit::column, Precision::bf16};
  linear.tied = again || (model_.tied_embeddings && plan_.parallel.pp == 1);
  linear.frozen = training_.lora_rank > 0;
  return linear;
}

void LayerWriter::embedding_forward() {
  elementwise(OperatorKind::embedding, Pass::forward, "embedding", tokens_ * model_.hidden_size, 2 * element_);
  reduce_partial_sums();
  if (model_.embedding_norm) norm_forward();
}

void LayerWriter::embedding_backward() {
  if (!trains_embedding(training_)) return;
  if (model_.embedding_norm) norm_backward(BackwardPart::all);
  embedding_gradient();
  gradients(vocab() * model_.hidden_size);
}

void LayerWriter::embedding_gradient() {
  gather_sequence();
  elementwise(OperatorKind::embedding, Pass::backward, "embedding", tokens_ * model_.hidden_size, 8);
}

void LayerWriter::loss_reductions() {
  if (t_ == 1) return;
  for (int i = 0; i < 3; ++i) collective(Traffic::tensor_parallel, Collective::all_reduce, Bytes{tokens_ * 4});
}

void LayerWriter::head_forward(bool again) {
  if (model_.final_norm) norm_forward();
  gather_sequence();
  linear_forward(output_layer(again));
  elementwise(OperatorKind::cross_entropy, Pass::forward, "cross_entropy", tokens_ * vocab(), 8);
  loss_reductions();
}

void LayerWriter::head_backward(BackwardPart part, bool again) {
  if (part != BackwardPart::weight_gradients)
    elementwise(OperatorKind::cross_entropy, Pass::backward, "cross_entropy", tokens_ * vocab(), 8);
  column_backward(output_layer(again), part);
  if (model_.final_norm) norm_backward(part);
}

Linear LayerWriter::prediction_projection() const {
  return tuned(
      {"mtp_proj", 2 * model_.hidden_size, model_.hidden_size / t_, MatrixSplit::column, precision_of(LinearPart::mlp)},
      "");
}

void LayerWriter::prediction_input_forward() {
  embedding_forward();
  norm_forward();
  norm_forward();
  elementwise(OperatorKind::copy, Pass::forward, "concat", 2 * local_tokens_ * model_.hidden_size, 2 * element_);
  gather_sequence();
  gather_sequence();
  linear_forward(prediction_projection());
  // Every tensor rank has a part of the width; the layer wants all of it, or with sequence parallelism a part of the tokens.
  if (t_ > 1)
    collective(Traffic::tensor_parallel, sequence_parallel_ ? Collective::all_to_all : Collective::all_gather,
               sequence_parallel_ ? tensor_message() / t_ : tensor_message());
}

void LayerWriter::prediction_input_backward(BackwardPart part) {
  column_backward(prediction_projection(), part);
  norm_backward(part);
  norm_backward(part);
  if (part != BackwardPart::weight_gradients && trains_embedding(training_)) embedding_gradient();
}

}  // namespace tracecast
