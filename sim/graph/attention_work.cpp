#include <algorithm>

#include "sim/graph/layer_writer.hpp"

namespace tracecast {
namespace {

// Unfused: to fp32, complex product, to 16 bit.
constexpr Moved kFusedRope{4, 4};
constexpr Moved kUnfusedRope{20, 20};

}  // namespace

std::int64_t LayerWriter::qk_dim() const {
  return model_.latent_attention ? model_.latent_attention->nope_dim + model_.latent_attention->rope_dim
                                 : model_.head_dim;
}

std::vector<Linear> LayerWriter::attention_inputs() const {
  const Precision p = precision_of(LinearPart::attention);
  const std::int64_t h = model_.hidden_size;
  if (!model_.latent_attention)
    return {{"qkv", h, heads() * qk_dim() + kv_heads() * (qk_dim() + v_dim()), MatrixSplit::column, p}};
  const LatentAttention& mla = *model_.latent_attention;
  std::vector<Linear> list;
  if (mla.q_rank > 0) {
    list.push_back({"q_down", h, mla.q_rank, MatrixSplit::replicated, p});
    list.push_back({"q_up", mla.q_rank, heads() * qk_dim(), MatrixSplit::column, p});
  } else {
    list.push_back({"q", h, heads() * qk_dim(), MatrixSplit::column, p});
  }
  list.push_back({"kv_down", h, mla.kv_rank + mla.rope_dim, MatrixSplit::replicated, p});
  list.push_back({"kv_up", mla.kv_rank, heads() * (mla.nope_dim + mla.v_dim), MatrixSplit::column, p});
  return list;
}

Linear LayerWriter::attention_output() const {
  return {"proj", heads() * v_dim(), model_.hidden_size, MatrixSplit::row, precision_of(LinearPart::attention)};
}

AttentionShape LayerWriter::attention_shape(std::int64_t q_len, std::int64_t kv_len, bool causal) const {
  return {micro_batch(),
          q_len,
          kv_len,
          heads(),
          model_.latent_attention ? heads() : kv_heads(),
          qk_dim(),
          v_dim(),
          causal,
          model_.window(layer_)};
}

void LayerWriter::rope(Pass pass) {
  if (model_.position != Position::rope) return;
  const Moved moved = training_.unfused_elementwise ? kUnfusedRope : kFusedRope;
  elementwise(OperatorKind::rope, pass, "rope", tokens_ * (heads() + kv_heads()) * qk_dim(),
              pass == Pass::forward ? moved.forward : moved.backward);
}

void LayerWriter::attention_core(Pass pass) {
  if (!training_.flash_attention) return unfused_attention(pass);
  if (cp() == 1)
    return compute(OperatorKind::attention, pass, Precision::bf16, "attention", attention_shape(seq(), seq(), true));
  if (plan_.parallel.cp_comm_type == "all_gather") return gathered_attention(pass);
  if (plan_.parallel.cp_comm_type == "a2a") return head_exchange_attention(pass);
  ring_attention(pass);
}

void LayerWriter::unfused_attention(Pass pass) {
  const std::int64_t batch = micro_batch() * heads();
  const std::int64_t kv = seq();
  const std::int64_t q = seq() / cp();
  const std::int64_t n = batch * q * kv;
  const Precision p = training_.dtype == Precision::fp32 ? Precision::fp32 : Precision::bf16;
  if (pass == Pass::forward) {
    compute(OperatorKind::scores, pass, p, "qk", GemmShape{q, kv, qk_dim(), batch, false});
    elementwise(OperatorKind::softmax, pass, "softmax", n, 6 * element_);
    compute(OperatorKind::scores, pass, p, "pv", GemmShape{q, v_dim(), kv, batch, false});
    return;
  }
  compute(OperatorKind::scores, pass, p, "d_p", GemmShape{q, kv, v_dim(), batch, false});
  compute(OperatorKind::scores, pass, p, "d_v", GemmShape{kv, v_dim(), q, batch, false});
  elementwise(OperatorKind::softmax, pass, "softmax", n, 8 * element_);
  compute(OperatorKind::scores, pass, p, "d_q", GemmShape{q, qk_dim(), kv, batch, false});
  compute(OperatorKind::scores, pass, p, "d_k", GemmShape{kv, qk_dim(), q, batch, false});
}

Bytes LayerWriter::kv_block() const {
  const std::int64_t width =
      model_.latent_attention ? heads() * (qk_dim() + v_dim()) : kv_heads() * (qk_dim() + v_dim());
  return Bytes{micro_batch() * (seq() / cp()) * width * element_};
}

void LayerWriter::ring_attention(Pass pass) {
  const std::int64_t q = seq() / cp();
  const Bytes moved = pass == Pass::forward ? kv_block() : 2 * kv_block();
  for (int block = 0; block < cp(); ++block) {
    const bool more = block + 1 < cp();
    if (more) collective(Traffic::context_parallel, Collective::send_recv, moved, Work::Kind::start, 10 + block);
    const AttentionShape shape = block == 0 ? attention_shape(q, q, true) : attention_shape(q, q / 2, false);
    compute(OperatorKind::attention, pass, Precision::bf16, "attention", shape);
    if (more) join(10 + block);
  }
}

void LayerWriter::gathered_attention(Pass pass) {
  collective(Traffic::context_parallel, Collective::all_gather, kv_block() * cp());
  compute(OperatorKind::attention, pass, Precision::bf16, "attention", attention_shape(seq() / cp(), seq(), true));
  if (pass != Pass::forward) collective(Traffic::context_parallel, Collective::reduce_scatter, kv_block() * cp());
}

void LayerWriter::head_exchange_attention(Pass pass) {
  const std::int64_t rows_here = micro_batch() * (seq() / cp()) * element_;
  const Bytes inputs{rows_here * (heads() * qk_dim() + kv_heads() * (qk_dim() + v_dim()))};
  const Bytes output{rows_here * heads() * v_dim()};
  const bool forward = pass == Pass::forward;
  collective(Traffic::context_parallel, Collective::all_to_all, forward ? inputs : output);
  AttentionShape shape = attention_shape(seq(), seq(), true);
  shape.heads = std::max<std::int64_t>(1, shape.heads / cp());
  shape.kv_heads = std::max<std::int64_t>(1, shape.kv_heads / cp());
  compute(OperatorKind::attention, pass, Precision::bf16, "attention", shape);
  collective(Traffic::context_parallel, Collective::all_to_all, forward ? output : inputs);
}

void LayerWriter::qk_norm(Pass pass) {
  if (!model_.qk_norm) return;
  elementwise(OperatorKind::norm, pass, "qk_norm", tokens_ * (heads() + kv_heads()) * qk_dim(),
              pass == Pass::forward ? 4 : 6);
}

void LayerWriter::attention_forward() {
  norm_forward();
  gather_sequence();
  for (const Linear& linear : attention_inputs()) linear_forward(linear);
  qk_norm(Pass::forward);
  rope(Pass::forward);
  attention_core(Pass::forward);
  linear_forward(attention_output());
  reduce_partial_sums();
  residual_forward();
}

void LayerWriter::attention_backward(BackwardPart part, bool recompute_core) {
  const bool inputs = part != BackwardPart::weight_gradients;
  residual_backward();
  gather_sequence();
  row_backward(attention_output(), part);
  if (inputs) {
    if (recompute_core) {
      recomputed_ = true;
      attention_core(Pass::forward);
      recomputed_ = false;
    }
    attention_core(Pass::backward);
    rope(Pass::backward);
    qk_norm(Pass::backward);
  }
  std::vector<Linear> list = attention_inputs();
  for (auto linear = list.rbegin(); linear != list.rend(); ++linear) column_backward(*linear, part);
  norm_backward(part);
}

}  // namespace tracecast
