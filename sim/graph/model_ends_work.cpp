#include "sim/graph/layer_writer.hpp"

namespace tracecast {

Linear LayerWriter::output_layer() const {
  return {"lm_head",           model_.hidden_size, vocab(),
          MatrixSplit::column, Precision::bf16,    model_.tied_embeddings && plan_.parallel.pp == 1};
}

void LayerWriter::embedding_forward() {
  elementwise(OperatorKind::embedding, Pass::forward, "embedding", tokens_ * model_.hidden_size, 2 * element_);
  reduce_partial_sums();
  if (model_.embedding_norm) norm_forward();
}

void LayerWriter::embedding_backward() {
  if (model_.embedding_norm) norm_backward(BackwardPart::all);
  gather_sequence();
  elementwise(OperatorKind::embedding, Pass::backward, "embedding", tokens_ * model_.hidden_size, 8);
  gradients(vocab() * model_.hidden_size);
}

void LayerWriter::loss_reductions() {
  if (t_ == 1) return;
  for (int i = 0; i < 3; ++i) collective(Traffic::tensor_parallel, Collective::all_reduce, Bytes{tokens_ * 4});
}

void LayerWriter::head_forward() {
  if (model_.final_norm) norm_forward();
  gather_sequence();
  linear_forward(output_layer());
  elementwise(OperatorKind::cross_entropy, Pass::forward, "cross_entropy", tokens_ * vocab(), 8);
  loss_reductions();
}

void LayerWriter::head_backward(BackwardPart part) {
  if (part != BackwardPart::weight_gradients)
    elementwise(OperatorKind::cross_entropy, Pass::backward, "cross_entropy", tokens_ * vocab(), 8);
  column_backward(output_layer(), part);
  if (model_.final_norm) norm_backward(part);
}

}  // namespace tracecast
