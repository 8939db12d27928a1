#include "sim/graph/attention.hpp"

#include <algorithm>
#include <functional>

#include "sim/base/integers.hpp"
#include "sim/cost/attention.hpp"
#include "sim/graph/norm.hpp"

namespace tracecast {
namespace {

// Unfused: to fp32, complex product, to 16 bit. YaRN's factor is not in Transformer Engine's kernel: docs/references.md#yarn
constexpr Moved kFusedRope{4, 4};
constexpr Moved kUnfusedRope{20, 20};
constexpr Moved kYarnRope{24, 20};

// ---- Shapes -----------------------------------------------------------------------------------------------------

std::int64_t heads(const LayerShape& s) { return s.model.num_attention_heads / s.tp; }
std::int64_t kv_heads(const LayerShape& s) { return std::max<std::int64_t>(1, s.model.num_query_groups / s.tp); }
/// Of the attention core: latent attention expands its keys and values to all heads.
std::int64_t core_kv_heads(const LayerShape& s) { return s.model.latent_attention ? heads(s) : kv_heads(s); }
std::int64_t qk_dim(const LayerShape& s) {
  return s.model.latent_attention ? s.model.latent_attention->nope_dim + s.model.latent_attention->rope_dim
                                  : s.model.head_dim;
}
std::int64_t v_dim(const LayerShape& s) {
  return s.model.latent_attention ? s.model.latent_attention->v_dim : s.model.head_dim;
}
std::int64_t micro_batch(const LayerShape& s) { return s.training.micro_batch_size; }
std::int64_t sequence(const LayerShape& s) { return s.training.seq_length; }
int context_ranks(const LayerShape& s) { return s.plan.parallel.cp; }
/// Columns of queries, keys and values together.
std::int64_t qkv_width(const LayerShape& s) { return heads(s) * qk_dim(s) + kv_heads(s) * (qk_dim(s) + v_dim(s)); }
/// Encoder layers see the whole sequence, decoder layers the tokens so far.
bool is_causal(const LayerShape& s) { return s.layer >= s.model.encoder_layers; }

/// Pairs of chunks as long as the window, over those of a window that slides.
double share_in_chunks(const LayerShape& s, const AttentionShape& shape) {
  if (!s.model.chunked_attention || !shape.causal || shape.ring_ranks > 1 || shape.window == 0) return 1;
  const auto keys = static_cast<double>(shape.kv_len);
  return 1 / (2 - std::min(1.0, static_cast<double>(shape.window) / keys));
}

/// Share of the pairs of `shape` that are within one document, and of a ring's block in the window.
double attended_share(const LayerShape& s, const AttentionShape& shape) {
  if (!s.plan.packed || !s.training.documents->mask) return share_in_window(shape) * share_in_chunks(s, shape);
  const PackedSteps& packed = *s.plan.packed;
  double pairs = 0;
  for (const auto& [length, count] : packed.lengths) {
    const AttentionShape document = document_shape(shape, length, packed.sequence);
    pairs += static_cast<double>(count) * attention_pairs(document) * share_in_chunks(s, document);
  }
  const double sequences = static_cast<double>(packed.steps) * packed.sequences;
  return pairs / (sequences * attention_pairs(shape));
}

AttentionShape core_shape(const LayerShape& s, std::int64_t q_len, std::int64_t kv_len, bool causal) {
  AttentionShape shape{micro_batch(s),         q_len, kv_len, heads(s), core_kv_heads(s), qk_dim(s), v_dim(s), causal,
                       s.model.window(s.layer)};
  shape.attended = attended_share(s, shape);
  return shape;
}

/// What a rank multiplies when the block-th block of keys and values has arrived. With the zig-zag split every block but the first
/// has half of the pairs of a full one. Of a window, a block has the pairs that are in it.
AttentionShape ring_shape(const LayerShape& s, int block, bool causal) {
  const std::int64_t q = sequence(s) / context_ranks(s);
  if (!causal) return core_shape(s, q, q, false);
  AttentionShape shape = core_shape(s, q, block == 0 ? q : q / 2, block == 0);
  shape.ring_ranks = context_ranks(s);
  shape.ring_block = shape.window > 0 ? block : 0;
  shape.attended = 1;
  shape.attended = attended_share(s, shape);
  return shape;
}

/// Bytes of the keys and values of one context rank.
Bytes kv_block(const LayerShape& s) {
  return Bytes{micro_batch(s) * (sequence(s) / context_ranks(s)) * core_kv_heads(s) * (qk_dim(s) + v_dim(s)) *
               s.element_bytes};
}

Linear input_projection(const LayerShape& s, const char* name, std::int64_t in, std::int64_t out, MatrixSplit split) {
  return tuned(s, {name, in, out, split, s.precision_of(LinearPart::attention)}, "qkv");
}

// ---- The attention core -----------------------------------------------------------------------------------------

Precision core_precision(const LayerShape& s) {
  return s.training.fp8_attention ? s.precision_of(LinearPart::attention) : wide_precision(s.training);
}

/// What attention in 8 bits reads: forward queries, keys and values, backward the gradient of its result. The results of both
/// directions are in 16 bit. MXFP8, whose scales follow the direction of the sum, needs a second copy by columns.
/// docs/references.md#fp8-attention
void quantise_core(OpWriter& writer, Pass pass) {
  const LayerShape& s = writer.shape;
  const bool forward = pass == Pass::forward;
  const Precision precision = core_precision(s);
  const std::int64_t elements = s.tokens * (forward ? qkv_width(s) : heads(s) * v_dim(s));
  quantise(writer, forward ? "attention" : "d_attention",
           {precision, pass, elements, precision == Precision::mxfp8 ? 2 : 1});
}

void write_core(OpWriter& writer, Pass pass, const AttentionShape& operands) {
  writer.compute(OperatorKind::attention, pass, core_precision(writer.shape), "attention", operands);
}

/// Both multiplications of each direction, and softmax with mask and dropout over [b, a, s, s] between them.
void unfused_core(OpWriter& writer, Pass pass) {
  const LayerShape& s = writer.shape;
  const std::int64_t batch = micro_batch(s) * heads(s);
  const std::int64_t kv = sequence(s);
  const std::int64_t q = sequence(s) / context_ranks(s);
  const auto multiply = [&](const char* name, std::int64_t m, std::int64_t n, std::int64_t k) {
    writer.compute(OperatorKind::scores, pass, wide_precision(s.training), name, GemmShape{m, n, k, batch, false});
  };
  if (pass == Pass::forward) {
    multiply("qk", q, kv, qk_dim(s));
    writer.elementwise(OperatorKind::softmax, pass, "softmax", batch * q * kv, 6 * s.element_bytes);
    multiply("pv", q, v_dim(s), kv);
    return;
  }
  multiply("d_p", q, kv, v_dim(s));
  multiply("d_v", kv, v_dim(s), q);
  writer.elementwise(OperatorKind::softmax, pass, "softmax", batch * q * kv, 8 * s.element_bytes);
  multiply("d_q", q, qk_dim(s), kv);
  multiply("d_k", kv, qk_dim(s), q);
}

/// Keys and values travel around the ring while the block that has arrived is computed, or passed on where the window of no query
/// reaches it. Backward moves keys, values and their gradients.
void ring_core(OpWriter& writer, Pass pass, bool causal) {
  constexpr int kFirstTicket = 10;
  const LayerShape& s = writer.shape;
  const Bytes moved = pass == Pass::forward ? kv_block(s) : 2 * kv_block(s);
  for (int block = 0; block < context_ranks(s); ++block) {
    const bool more = block + 1 < context_ranks(s);
    if (more)
      writer.collective(Traffic::context_parallel, Collective::send_recv, moved, Work::Kind::start,
                        kFirstTicket + block);
    if (const AttentionShape operands = ring_shape(s, block, causal); operands.attended > 0)
      write_core(writer, pass, operands);
    if (more) writer.join(kFirstTicket + block);
  }
}

/// Runs `core` on the keys and values of all context-parallel ranks. Unfused attention has no other exchange:
/// docs/references.md#unfused-context
void with_gathered_keys(OpWriter& writer, Pass pass, const std::function<void()>& core) {
  const LayerShape& s = writer.shape;
  if (context_ranks(s) == 1) return core();
  const Bytes all = kv_block(s) * context_ranks(s);
  writer.collective(Traffic::context_parallel, Collective::all_gather, all);
  core();
  if (pass != Pass::forward) writer.collective(Traffic::context_parallel, Collective::reduce_scatter, all);
}

void gathered_core(OpWriter& writer, Pass pass, bool causal) {
  const LayerShape& s = writer.shape;
  const auto core = [&] {
    write_core(writer, pass, core_shape(s, sequence(s) / context_ranks(s), sequence(s), causal));
  };
  with_gathered_keys(writer, pass, core);
}

/// Ulysses: heads for sequence and back, one exchange for each tensor. Every rank needs a head of keys and values: where they are
/// fewer than the ranks, each is sent to several. Transformer Engine's backward also sends the result again.
/// docs/references.md#gathered-keys
void head_exchange_core(OpWriter& writer, Pass pass, bool causal) {
  const LayerShape& s = writer.shape;
  const std::int64_t cp = context_ranks(s);
  const std::int64_t rows = micro_batch(s) * (sequence(s) / cp) * s.element_bytes;
  const std::int64_t kv = ceil_div(core_kv_heads(s), cp);  // of one rank, after the exchange
  const auto exchange = [&](std::int64_t width) {
    writer.collective(Traffic::context_parallel, Collective::all_to_all, Bytes{rows * width});
  };
  const auto exchange_inputs = [&] {
    exchange(heads(s) * qk_dim(s));
    exchange(cp * kv * qk_dim(s));
    exchange(cp * kv * v_dim(s));
  };
  const bool forward = pass == Pass::forward;
  if (forward) exchange_inputs();
  if (!forward && s.training.transformer_engine) exchange(heads(s) * v_dim(s));
  if (!forward) exchange(heads(s) * v_dim(s));
  AttentionShape operands = core_shape(s, sequence(s), sequence(s), causal);
  operands.heads = std::max<std::int64_t>(1, operands.heads / cp);
  operands.kv_heads = kv;
  write_core(writer, pass, operands);
  forward ? exchange(heads(s) * v_dim(s)) : exchange_inputs();
}

/// The indexer scores all keys for every query, in full on every tensor rank; latent attention reads the chosen ones without
/// expanding them: queries and results are multiplied with the up-projection instead, which takes as many operations. With
/// context parallelism latent vectors and the indexer's keys are gathered.
void sparse_core(OpWriter& writer, Pass pass) {
  const LayerShape& s = writer.shape;
  const SparseAttention& sparse = *s.model.sparse_attention;
  const LatentAttention& latent = *s.model.latent_attention;
  const std::int64_t key = latent.kv_rank + latent.rope_dim;
  const std::int64_t q = sequence(s) / context_ranks(s);
  const Bytes gathered{micro_batch(s) * sequence(s) * (key + sparse.index_dim) * s.element_bytes};
  const auto index = [&](std::int64_t keys) {
    const AttentionShape operands{micro_batch(s), q,   sequence(s), sparse.index_heads, 1, sparse.index_dim, 0,
                                  true,           keys};
    writer.compute(OperatorKind::indexer, pass, Precision::bf16, "indexer", operands);
  };
  const auto attend = [&] {
    const AttentionShape operands{micro_batch(s), q, sequence(s), heads(s), 1, key, latent.kv_rank, true, sparse.topk};
    writer.compute(OperatorKind::sparse_attention, pass, Precision::bf16, "sparse_attention", operands);
  };
  if (context_ranks(s) > 1) writer.collective(Traffic::context_parallel, Collective::all_gather, gathered);
  if (pass == Pass::forward) {
    index(0);
    return attend();
  }
  attend();
  index(sparse.topk);
  if (context_ranks(s) > 1) writer.collective(Traffic::context_parallel, Collective::reduce_scatter, gathered);
}

void attention_core(OpWriter& writer, Pass pass, bool causal) {
  const LayerShape& s = writer.shape;
  if (s.model.sparse_attention) return sparse_core(writer, pass);
  if (!s.training.flash_attention) return with_gathered_keys(writer, pass, [&] { unfused_core(writer, pass); });
  quantise_core(writer, pass);
  if (context_ranks(s) == 1) return write_core(writer, pass, core_shape(s, sequence(s), sequence(s), causal));
  if (s.plan.parallel.cp_comm_type == ContextExchange::all_gather) return gathered_core(writer, pass, causal);
  if (s.plan.parallel.cp_comm_type == ContextExchange::a2a) return head_exchange_core(writer, pass, causal);
  ring_core(writer, pass, causal);
}

void core_backward(OpWriter& writer, bool causal, bool recompute) {
  if (recompute) {
    writer.set_recomputed(true);
    attention_core(writer, Pass::forward, causal);
    writer.set_recomputed(false);
  }
  attention_core(writer, Pass::backward, causal);
}

/// Queries, keys and values come from one multiplication: grouped queries are copied out of its result, and the gradients of all three
/// are put together.   Source: docs/references.md#qkv-copies
void copy_qkv(OpWriter& writer, Pass pass) {
  const LayerShape& s = writer.shape;
  if (s.training.compiled || has_separate_inputs(s) || s.model.latent_attention) return;
  if (pass == Pass::forward && kv_heads(s) == heads(s)) return;
  const std::int64_t width = pass == Pass::forward ? heads(s) * qk_dim(s) : qkv_width(s);
  writer.elementwise(OperatorKind::copy, pass, "qkv_copy", s.tokens * width, 2 * s.element_bytes);
  writer.share_launch();
}

// ---- Attention over the encoder's result ------------------------------------------------------------------------

Linear cross_query(const LayerShape& s) {
  return input_projection(s, "cross_q", s.model.hidden_size, heads(s) * qk_dim(s), MatrixSplit::column);
}

Linear cross_key_value(const LayerShape& s) {
  return input_projection(s, "cross_kv", s.model.hidden_size, kv_heads(s) * (qk_dim(s) + v_dim(s)),
                          MatrixSplit::column);
}

Linear cross_output(const LayerShape& s) {
  Linear linear = attention_output(s);
  linear.name = "cross_proj";
  return linear;
}

void cross_attention_forward(OpWriter& writer) {
  norm_forward(writer);
  gather_sequence(writer, LinearPart::attention);
  linear_forward(writer, cross_query(writer.shape));
  gather_sequence(writer, LinearPart::attention);  // the encoder's result
  linear_forward(writer, cross_key_value(writer.shape));
  attention_core(writer, Pass::forward, false);
  linear_forward(writer, cross_output(writer.shape));
  reduce_partial_sums(writer);
  residual_forward(writer);
}

/// The encoder's result gets a gradient from every decoder layer; they are added up.
void cross_attention_backward(OpWriter& writer, BackwardPart part, bool recompute_core) {
  const LayerShape& s = writer.shape;
  residual_backward(writer, part);
  gather_sequence(writer, LinearPart::attention);
  row_backward(writer, cross_output(s), part);
  if (has_input_gradients(part)) core_backward(writer, false, recompute_core);
  column_backward(writer, cross_key_value(s), part);
  if (has_input_gradients(part))
    writer.elementwise(OperatorKind::residual, Pass::backward, "encoder gradient", s.local_tokens * s.model.hidden_size,
                       3 * s.element_bytes);
  column_backward(writer, cross_query(s), part);
  block_norm_backward(writer, part);
}

}  // namespace

std::vector<Linear> attention_inputs(const LayerShape& s) {
  const std::int64_t h = s.model.hidden_size;
  if (!s.model.latent_attention) {
    const std::int64_t gate = s.model.attention_output_gate ? heads(s) * v_dim(s) : 0;
    return {input_projection(s, "qkv", h, qkv_width(s) + gate, MatrixSplit::column)};
  }
  const LatentAttention& mla = *s.model.latent_attention;
  std::vector<Linear> list;
  const auto add = [&](const char* name, std::int64_t in, std::int64_t out, MatrixSplit split) {
    list.push_back(input_projection(s, name, in, out, split));
  };
  if (mla.q_rank > 0) {
    add("q_down", h, mla.q_rank, MatrixSplit::replicated);
    add("q_up", mla.q_rank, heads(s) * qk_dim(s), MatrixSplit::column);
  } else {
    add("q", h, heads(s) * qk_dim(s), MatrixSplit::column);
  }
  add("kv_down", h, mla.kv_rank + mla.rope_dim, MatrixSplit::replicated);
  add("kv_up", mla.kv_rank, heads(s) * (mla.nope_dim + mla.v_dim), MatrixSplit::column);
  if (s.model.sparse_attention) {
    const SparseAttention& sparse = *s.model.sparse_attention;
    add("index_q", mla.q_rank, sparse.index_heads * sparse.index_dim, MatrixSplit::replicated);
    add("index_k", h, sparse.index_dim, MatrixSplit::replicated);
    add("index_weights", h, sparse.index_heads, MatrixSplit::replicated);
  }
  return list;
}

std::vector<Linear> separate_attention_inputs(const LayerShape& s) {
  std::vector<Linear> list = attention_inputs(s);
  if (s.model.latent_attention) return list;
  Linear keys = list.front(), values = list.front();
  keys.name = "k";
  keys.out = kv_heads(s) * qk_dim(s);
  values.name = "v";
  values.out = kv_heads(s) * v_dim(s);
  list.front().out -= keys.out + values.out;
  list.insert(list.end(), {keys, values});
  return list;
}

Linear attention_output(const LayerShape& s) {
  const Precision p = s.precision_of(LinearPart::attention);
  const std::int64_t h = s.model.hidden_size;
  if (s.gathers_layers())
    return tuned(s, {"proj", s.model.num_attention_heads * v_dim(s), h / s.tp, MatrixSplit::column, p}, "proj");
  return tuned(s, {"proj", heads(s) * v_dim(s), h, MatrixSplit::row, p}, "proj");
}

std::vector<Linear> cross_attention_linears(const LayerShape& s) {
  if (!s.attends_encoder()) return {};
  return {cross_query(s), cross_key_value(s), cross_output(s)};
}

Moved rope_traffic(const LayerShape& s) {
  const Training& training = s.training;
  if (s.model.yarn && training.transformer_engine && !training.compiled) return widened(kYarnRope, s);
  return training.runs_chains() && !training.fused_rope ? kUnfusedRope : widened(kFusedRope, s);
}

void rope(OpWriter& writer, Pass pass) {
  const LayerShape& s = writer.shape;
  if (s.model.position != Position::rope) return;
  const Moved moved = rope_traffic(s);
  writer.elementwise(OperatorKind::rope, pass, "rope", s.tokens * (heads(s) + kv_heads(s)) * qk_dim(s), moved.in(pass));
}

void qk_norm(OpWriter& writer, Pass pass) {
  const LayerShape& s = writer.shape;
  if (!s.model.qk_norm) return;
  writer.elementwise(OperatorKind::norm, pass, "qk_norm", s.tokens * (heads(s) + kv_heads(s)) * qk_dim(s),
                     pass == Pass::forward ? 2 * s.element_bytes : 3 * s.element_bytes);
}

/// Sigmoid of the gate, times the result of attention.
void output_gate(OpWriter& writer, Pass pass) {
  const LayerShape& s = writer.shape;
  if (!s.model.attention_output_gate) return;
  const Moved moved{3 * s.element_bytes, 5 * s.element_bytes};
  writer.elementwise(OperatorKind::activation, pass, "output_gate", s.tokens * heads(s) * v_dim(s), moved.in(pass));
}

/// With sequence parallelism each tensor rank compresses its own tokens, and what is gathered are the latent vectors that the
/// expanding matrices multiply, and the rotated part of the keys. DTensor gathers the hidden state.
/// docs/references.md#mla-sequence-parallel
bool gathers_latent(const LayerShape& s) {
  return s.model.latent_attention && s.sequence_parallel && !s.uses_dtensor();
}

void attention_input_forward(OpWriter& writer, const Linear& linear) {
  if (gathers_latent(writer.shape) && linear.split == MatrixSplit::column)
    gather_sequence(writer, linear.precision, linear.in);
  linear_forward(writer, linear);
}

void attention_forward(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  norm_forward(writer);
  if (!gathers_latent(s)) gather_sequence(writer, LinearPart::attention);
  for (const Linear& linear : attention_inputs(s)) attention_input_forward(writer, linear);
  if (gathers_latent(s)) gather_sequence(writer, wide_precision(s.training), s.model.latent_attention->rope_dim);
  copy_qkv(writer, Pass::forward);
  qk_norm(writer, Pass::forward);
  rope(writer, Pass::forward);
  attention_core(writer, Pass::forward, is_causal(s));
  output_gate(writer, Pass::forward);
  gather_result(writer, s.model.num_attention_heads * v_dim(s));
  linear_forward(writer, attention_output(s));
  if (!s.sums_blocks()) finish_block(writer);
  residual_forward(writer);
  if (s.attends_encoder()) cross_attention_forward(writer);
}

void attention_backward(OpWriter& writer, BackwardPart part, bool recompute_core) {
  const LayerShape& s = writer.shape;
  if (s.attends_encoder()) cross_attention_backward(writer, part, recompute_core);
  residual_backward(writer, part);
  if (!s.sums_blocks()) gather_sequence(writer, LinearPart::attention);
  row_backward(writer, attention_output(s), part);
  if (has_input_gradients(part)) {
    output_gate(writer, Pass::backward);
    core_backward(writer, is_causal(s), recompute_core);
    rope(writer, Pass::backward);
    qk_norm(writer, Pass::backward);
    copy_qkv(writer, Pass::backward);
  }
  if (has_input_gradients(part) && gathers_latent(s))
    writer.collective(Traffic::tensor_parallel, s.reduction(), s.tensor_message(s.model.latent_attention->rope_dim));
  const std::vector<Linear> inputs = attention_inputs(s);
  for (auto linear = inputs.rbegin(); linear != inputs.rend(); ++linear) column_backward(writer, *linear, part);
  if (has_input_gradients(part) && has_separate_inputs(s))
    for (int sum = 0; sum < 2; ++sum) sum_of_input_gradients(writer);
  block_norm_backward(writer, part);
}

}  // namespace tracecast
