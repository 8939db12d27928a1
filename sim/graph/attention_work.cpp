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
  std::vector<Linear> list;
  const auto add = [&](const char* name, std::int64_t in, std::int64_t out, MatrixSplit split) {
    list.push_back(tuned({name, in, out, split, p}, "qkv"));
  };
  if (!model_.latent_attention) {
    add("qkv", h, heads() * qk_dim() + kv_heads() * (qk_dim() + v_dim()), MatrixSplit::column);
    return list;
  }
  const LatentAttention& mla = *model_.latent_attention;
  if (mla.q_rank > 0) {
    add("q_down", h, mla.q_rank, MatrixSplit::replicated);
    add("q_up", mla.q_rank, heads() * qk_dim(), MatrixSplit::column);
  } else {
    add("q", h, heads() * qk_dim(), MatrixSplit::column);
  }
  add("kv_down", h, mla.kv_rank + mla.rope_dim, MatrixSplit::replicated);
  add("kv_up", mla.kv_rank, heads() * (mla.nope_dim + mla.v_dim), MatrixSplit::column);
  return list;
}

Linear LayerWriter::attention_output() const {
  if (gathers_layers())
    return tuned({"proj", model_.num_attention_heads * v_dim(), model_.hidden_size / t_, MatrixSplit::column,
                  precision_of(LinearPart::attention)},
                 "proj");
  return tuned({"proj", heads() * v_dim(), model_.hidden_size, MatrixSplit::row, precision_of(LinearPart::attention)},
               "proj");
}

bool LayerWriter::causal() const { return layer_ >= model_.encoder_layers; }
bool LayerWriter::attends_encoder() const { return model_.encoder_layers > 0 && layer_ >= model_.encoder_layers; }

Linear LayerWriter::cross_query() const {
  return tuned(
      {"cross_q", model_.hidden_size, heads() * qk_dim(), MatrixSplit::column, precision_of(LinearPart::attention)},
      "qkv");
}

Linear LayerWriter::cross_key_value() const {
  return tuned({"cross_kv", model_.hidden_size, kv_heads() * (qk_dim() + v_dim()), MatrixSplit::column,
                precision_of(LinearPart::attention)},
               "qkv");
}

Linear LayerWriter::cross_output() const {
  Linear linear = attention_output();
  linear.name = "cross_proj";
  return linear;
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
  const Moved moved = training_.unfused_elementwise ? kUnfusedRope : widened(kFusedRope);
  elementwise(OperatorKind::rope, pass, "rope", tokens_ * (heads() + kv_heads()) * qk_dim(),
              pass == Pass::forward ? moved.forward : moved.backward);
}

void LayerWriter::attention_core(Pass pass, bool causal) {
  if (!training_.flash_attention) return unfused_attention(pass);
  if (cp() == 1)
    return compute(OperatorKind::attention, pass, Precision::bf16, "attention", attention_shape(seq(), seq(), causal));
  if (plan_.parallel.cp_comm_type == ContextExchange::all_gather) return gathered_attention(pass, causal);
  if (plan_.parallel.cp_comm_type == ContextExchange::a2a) return head_exchange_attention(pass, causal);
  ring_attention(pass, causal);
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

void LayerWriter::ring_attention(Pass pass, bool causal) {
  const std::int64_t q = seq() / cp();
  const Bytes moved = pass == Pass::forward ? kv_block() : 2 * kv_block();
  for (int block = 0; block < cp(); ++block) {
    const bool more = block + 1 < cp();
    if (more) collective(Traffic::context_parallel, Collective::send_recv, moved, Work::Kind::start, 10 + block);
    const AttentionShape shape =
        block == 0 || !causal ? attention_shape(q, q, causal) : attention_shape(q, q / 2, false);
    compute(OperatorKind::attention, pass, Precision::bf16, "attention", shape);
    if (more) join(10 + block);
  }
}

void LayerWriter::gathered_attention(Pass pass, bool causal) {
  collective(Traffic::context_parallel, Collective::all_gather, kv_block() * cp());
  compute(OperatorKind::attention, pass, Precision::bf16, "attention", attention_shape(seq() / cp(), seq(), causal));
  if (pass != Pass::forward) collective(Traffic::context_parallel, Collective::reduce_scatter, kv_block() * cp());
}

void LayerWriter::head_exchange_attention(Pass pass, bool causal) {
  const std::int64_t rows_here = micro_batch() * (seq() / cp()) * element_;
  const Bytes inputs{rows_here * (heads() * qk_dim() + kv_heads() * (qk_dim() + v_dim()))};
  const Bytes output{rows_here * heads() * v_dim()};
  const bool forward = pass == Pass::forward;
  collective(Traffic::context_parallel, Collective::all_to_all, forward ? inputs : output);
  AttentionShape shape = attention_shape(seq(), seq(), causal);
  shape.heads = std::max<std::int64_t>(1, shape.heads / cp());
  shape.kv_heads = std::max<std::int64_t>(1, shape.kv_heads / cp());
  compute(OperatorKind::attention, pass, Precision::bf16, "attention", shape);
  collective(Traffic::context_parallel, Collective::all_to_all, forward ? output : inputs);
}

void LayerWriter::qk_norm(Pass pass) {
  if (!model_.qk_norm) return;
  elementwise(OperatorKind::norm, pass, "qk_norm", tokens_ * (heads() + kv_heads()) * qk_dim(),
              pass == Pass::forward ? 2 * element_ : 3 * element_);
}

void LayerWriter::attention_forward() {
  norm_forward();
  gather_sequence();
  for (const Linear& linear : attention_inputs()) linear_forward(linear);
  qk_norm(Pass::forward);
  rope(Pass::forward);
  attention_core(Pass::forward, causal());
  gather_result(model_.num_attention_heads * v_dim());
  linear_forward(attention_output());
  finish_block();
  residual_forward();
  if (attends_encoder()) cross_attention_forward();
}

void LayerWriter::cross_attention_forward() {
  norm_forward();
  gather_sequence();
  linear_forward(cross_query());
  gather_sequence();  // the encoder's result
  linear_forward(cross_key_value());
  attention_core(Pass::forward, false);
  linear_forward(cross_output());
  reduce_partial_sums();
  residual_forward();
}

void LayerWriter::core_backward(bool causal, bool recompute) {
  if (recompute) {
    recomputed_ = true;
    attention_core(Pass::forward, causal);
    recomputed_ = false;
  }
  attention_core(Pass::backward, causal);
}

/// The encoder's result gets a gradient from every decoder layer; they are added up.
void LayerWriter::cross_attention_backward(BackwardPart part, bool recompute_core) {
  const bool inputs = part != BackwardPart::weight_gradients;
  residual_backward(part);
  gather_sequence();
  row_backward(cross_output(), part);
  if (inputs) core_backward(false, recompute_core);
  column_backward(cross_key_value(), part);
  if (inputs)
    elementwise(OperatorKind::residual, Pass::backward, "encoder gradient", local_tokens_ * model_.hidden_size,
                3 * element_);
  column_backward(cross_query(), part);
  norm_backward(part);
}

void LayerWriter::attention_backward(BackwardPart part, bool recompute_core) {
  const bool inputs = part != BackwardPart::weight_gradients;
  if (attends_encoder()) cross_attention_backward(part, recompute_core);
  residual_backward(part);
  gather_sequence();
  row_backward(attention_output(), part);
  if (inputs) {
    core_backward(causal(), recompute_core);
    rope(Pass::backward);
    qk_norm(Pass::backward);
  }
  std::vector<Linear> list = attention_inputs();
  for (auto linear = list.rbegin(); linear != list.rend(); ++linear) column_backward(*linear, part);
  norm_backward(part);
}

}  // namespace tracecast
