#include "sim/graph/recomputation.hpp"

#include "sim/graph/attention.hpp"
#include "sim/graph/feed_forward.hpp"
#include "sim/graph/mixture_of_experts.hpp"
#include "sim/graph/norm.hpp"
#include "sim/model/parameters.hpp"
#include "sim/plan/activations.hpp"

namespace tracecast {

void recompute_selected_operators(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  const std::int64_t width = s.model.ffn_hidden_size;
  int multiplications = 0;
  const auto multiply_every_second = [&](const Linear& linear) {
    if (++multiplications % 2 == 0) linear_forward(writer, linear);
  };
  const auto gather_input = [&](LinearPart part) {
    norm_forward(writer);
    if (s.uses_dtensor()) gather_sequence(writer, part);
  };
  gather_input(LinearPart::attention);
  for (const Linear& linear : separate_attention_inputs(s)) multiply_every_second(linear);
  qk_norm(writer, Pass::forward);
  rope(writer, Pass::forward);
  multiply_every_second(attention_output(s));
  if (s.model.is_moe_layer(s.layer)) return norm_forward(writer);
  gather_input(LinearPart::mlp);
  Linear part = fc1(s, width);
  part.out /= gate_factor(s.model);
  for (int i = 0; i < gate_factor(s.model); ++i) multiply_every_second(part);
  activation(writer, Pass::forward, dense_activated(s));
}

void recompute_modules(OpWriter& writer) {
  const LayerShape& s = writer.shape;
  const bool moe_layer = s.model.is_moe_layer(s.layer);
  if (repeats(s.training, RecomputeModule::norm))
    for (int norm = 0; norm < layer_norms(s.model, s.layer); ++norm) norm_forward(writer);
  const bool attends = s.model.mixer(s.layer) == Mixer::attention;
  if (attends && repeats(s.training, RecomputeModule::mla_up) && s.model.latent_attention) {
    for (const Linear& linear : attention_inputs(s))
      if (linear.split == MatrixSplit::column) attention_input_forward(writer, linear);
    rope(writer, Pass::forward);
  }
  if (!s.model.has_feed_forward(s.layer)) return;
  const bool activations = repeats(s.training, RecomputeModule::activation);
  if (!moe_layer) {
    if (repeats(s.training, RecomputeModule::mlp))
      writer.capture(GraphModule::mlp, [&] { dense_block(writer); });
    else if (activations)
      activation(writer, Pass::forward, dense_activated(s));
    return;
  }
  if (repeats(s.training, RecomputeModule::moe)) return expert_block(writer);
  const bool shared = repeats(s.training, RecomputeModule::shared_experts);
  if (activations) expert_activations(writer, !shared);
  if (shared) shared_forward(writer);
}

}  // namespace tracecast
