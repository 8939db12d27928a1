#include "sim/graph/recomputation.hpp"

#include <algorithm>

#include "sim/graph/attention.hpp"
#include "sim/graph/feed_forward.hpp"
#include "sim/graph/mixture_of_experts.hpp"
#include "sim/graph/norm.hpp"
#include "sim/model/parameters.hpp"
#include "sim/plan/activations.hpp"

namespace tracecast {
namespace {

/// Half of one matrix multiplication's forward: of two layers one repeats it.
void half_forward(OpWriter& writer, Linear linear) {
  linear.out = std::max<std::int64_t>(1, linear.out / 2);
  linear_forward(writer, linear);
}

}  // namespace

void recompute_selected_operators(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  const std::int64_t width = s.model.ffn_hidden_size;
  norm_forward(writer);
  for (const Linear& linear : attention_inputs(s)) half_forward(writer, linear);
  qk_norm(writer, Pass::forward);
  rope(writer, Pass::forward);
  half_forward(writer, attention_output(s));
  norm_forward(writer);
  if (s.model.is_moe_layer(s.layer)) return;
  half_forward(writer, fc1(s, width));
  activation(writer, Pass::forward, s.tokens * width / s.tp);
  half_forward(writer, fc2(s, width));
}

void recompute_modules(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  const bool moe_layer = s.model.is_moe_layer(s.layer);
  if (repeats(s.training, RecomputeModule::norm))
    for (int norm = 0; norm < layer_norms(s.model, s.layer); ++norm) norm_forward(writer);
  const bool attends = s.model.mixer(s.layer) == Mixer::attention;
  if (attends && repeats(s.training, RecomputeModule::mla_up) && s.model.latent_attention) {
    for (const Linear& linear : attention_inputs(s))
      if (linear.split == MatrixSplit::column) linear_forward(writer, linear);
    rope(writer, Pass::forward);
  }
  if (moe_layer && repeats(s.training, RecomputeModule::moe)) return expert_block(writer);
  if (!repeats(s.training, RecomputeModule::activation) || !s.model.has_feed_forward(s.layer)) return;
  if (!moe_layer) return activation(writer, Pass::forward, dense_activated(s));
  expert_activations(writer);
}

}  // namespace tracecast
