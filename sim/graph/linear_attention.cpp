#include "sim/graph/linear_attention.hpp"

#include <algorithm>

#include "sim/graph/norm.hpp"

namespace tracecast {
namespace {

// ---- Shapes: of one tensor-parallel rank ------------------------------------------------------------------------

const LinearAttention& sizes(const LayerShape& s) { return *s.model.linear_attention; }
Mixer mixer(const LayerShape& s) { return s.model.mixer(s.layer); }
std::int64_t heads(const LayerShape& s) { return sizes(s).heads / s.tp; }
std::int64_t key_heads(const LayerShape& s) { return sizes(s).key_heads / s.tp; }
std::int64_t keys(const LayerShape& s) { return sizes(s).keys() / s.tp; }
std::int64_t values(const LayerShape& s) { return sizes(s).values() / s.tp; }
std::int64_t convolved(const LayerShape& s) { return 2 * keys(s) + values(s); }
int context_ranks(const LayerShape& s) { return s.plan.parallel.cp; }

/// Columns that the convolution, the scan and the gate read: steps or gates of every head beside queries, keys, values and
/// the output gate; with Kimi a decay for every channel of the keys.
std::int64_t exchanged_width(const LayerShape& s) {
  // Fewer groups of keys than context ranks: each is sent to several.
  const std::int64_t copies = std::max<std::int64_t>(1, context_ranks(s) / key_heads(s));
  const std::int64_t per_head = mixer(s) == Mixer::gated_delta_net ? 2 : 1;
  const std::int64_t decays = mixer(s) == Mixer::kimi_delta ? keys(s) : 0;
  return 2 * copies * keys(s) + 2 * values(s) + per_head * heads(s) + decays;
}

void exchange(OpWriter& writer, std::int64_t width) {
  const LayerShape& s = writer.shape;
  if (context_ranks(s) > 1)
    writer.collective(Traffic::context_parallel, Collective::all_to_all, Bytes{s.tokens * width * s.element_bytes});
}

// ---- Between the projections ------------------------------------------------------------------------------------

/// Moves as many elements with context parallelism: the whole sequence of fewer channels. The backward of Mamba-2 repeats the
/// forward.
void convolution(OpWriter& writer, Pass pass) {
  const LayerShape& s = writer.shape;
  const int repeated = mixer(s) == Mixer::mamba2 ? 2 : 0;
  const Moved moved{2 * s.element_bytes, (3 + repeated) * s.element_bytes};
  writer.elementwise(OperatorKind::convolution, pass, "causal_conv", s.tokens * convolved(s), moved.in(pass));
}

/// Megatron-Core's Mamba-2 copies what its input projection wrote, `width` elements of a token, to sequences that lie one after the
/// other, and the result of the scan back; one sequence lies so already. docs/references.md#linear-attention
void reorder_sequences(OpWriter& writer, Pass pass, const char* name, std::int64_t width) {
  const LayerShape& s = writer.shape;
  if (mixer(s) != Mixer::mamba2 || s.training.micro_batch_size == 1) return;
  writer.elementwise(OperatorKind::copy, pass, name, s.tokens * width, 2 * s.element_bytes);
}

void separate_sequences(OpWriter& writer, Pass pass) {
  const LayerShape& s = writer.shape;
  reorder_sequences(writer, pass, "separate_sequences", convolved(s) + values(s) + heads(s));
}

void join_sequences(OpWriter& writer, Pass pass) {
  reorder_sequences(writer, pass, "join_sequences", values(writer.shape));
}

void scan(OpWriter& writer, Pass pass) {
  const LayerShape& s = writer.shape;
  const std::int64_t cp = context_ranks(s);
  const bool delta = mixer(s) != Mixer::mamba2;
  const ScanShape operands{s.training.micro_batch_size,
                           s.training.seq_length,
                           heads(s) / cp,
                           std::max<std::int64_t>(1, key_heads(s) / cp),
                           sizes(s).key_dim,
                           sizes(s).head_dim,
                           sizes(s).chunk_size,
                           delta,
                           mixer(s) == Mixer::kimi_delta,
                           !delta};
  const char* name = delta ? (operands.channel_decay ? "kimi_delta" : "gated_delta") : "ssd";
  writer.compute(OperatorKind::scan, pass, Precision::bf16, name, operands);
}

/// The norm of the scan's result, times a function of the gate, which Mamba-2's scan has applied already.
void gated_norm(OpWriter& writer, Pass pass) {
  const LayerShape& s = writer.shape;
  const int gate = mixer(s) == Mixer::mamba2 ? 0 : 1;
  const Moved moved{(2 + gate) * s.element_bytes, (3 + 2 * gate) * s.element_bytes};
  writer.elementwise(OperatorKind::norm, pass, "gated_norm", s.tokens * values(s), moved.in(pass));
}

Linear projection(const LayerShape& s, const char* name, std::int64_t in, std::int64_t out, MatrixSplit split) {
  return tuned(s, {name, in, out, split, s.precision_of(LinearPart::attention)}, "qkv");
}

}  // namespace

std::vector<Linear> linear_attention_inputs(const LayerShape& s) {
  const std::int64_t h = s.model.hidden_size;
  if (mixer(s) == Mixer::kimi_delta) {
    const std::int64_t rank = sizes(s).head_dim;
    return {projection(s, "in_proj", h, convolved(s), MatrixSplit::column),
            projection(s, "beta", h, sizes(s).heads, MatrixSplit::replicated),
            projection(s, "gates_down", h, 2 * rank, MatrixSplit::replicated),
            projection(s, "decay_up", rank, keys(s), MatrixSplit::column),
            projection(s, "gate_up", rank, values(s), MatrixSplit::column)};
  }
  const std::int64_t per_head = mixer(s) == Mixer::mamba2 ? 1 : 2;
  return {projection(s, "in_proj", h, convolved(s) + values(s) + per_head * heads(s), MatrixSplit::column)};
}

Linear linear_attention_output(const LayerShape& s) {
  return tuned(s, {"out_proj", values(s), s.model.hidden_size, MatrixSplit::row, s.precision_of(LinearPart::attention)},
               "proj");
}

void linear_attention_forward(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  norm_forward(writer);
  gather_sequence(writer, LinearPart::attention);
  for (const Linear& linear : linear_attention_inputs(s)) linear_forward(writer, linear);
  exchange(writer, exchanged_width(s));
  separate_sequences(writer, Pass::forward);
  convolution(writer, Pass::forward);
  scan(writer, Pass::forward);
  join_sequences(writer, Pass::forward);
  gated_norm(writer, Pass::forward);
  exchange(writer, values(s));
  linear_forward(writer, linear_attention_output(s));
  finish_block(writer);
  residual_forward(writer);
}

void linear_attention_backward(OpWriter& writer, BackwardPart part) {
  const LayerShape& s = writer.shape;
  residual_backward(writer, part);
  gather_sequence(writer, LinearPart::attention);
  row_backward(writer, linear_attention_output(s), part);
  if (has_input_gradients(part)) {
    exchange(writer, values(s));
    gated_norm(writer, Pass::backward);
    join_sequences(writer, Pass::backward);
    scan(writer, Pass::backward);
    convolution(writer, Pass::backward);
    separate_sequences(writer, Pass::backward);
    exchange(writer, exchanged_width(s));
  }
  const std::vector<Linear> inputs = linear_attention_inputs(s);
  for (auto linear = inputs.rbegin(); linear != inputs.rend(); ++linear) column_backward(writer, *linear, part);
  block_norm_backward(writer, part);
}

}  // namespace tracecast
