#include "sim/search/guideline.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/model/model.hpp"
#include "sim/plan/fine_tuning.hpp"

namespace tracecast {

int least_tensor_parallel(double states_gb, double memory_gb, double activations_gb, int gpus_per_node) {
  for (int tp = 1; tp <= gpus_per_node; ++tp)
    if (gpus_per_node % tp == 0 && states_gb <= tp * (memory_gb - activations_gb)) return tp;
  return 0;
}

RuleOfThumb rule_of_thumb(double parameters, double memory_gb, double activations_gb, int gpus, int gpus_per_node) {
  const double weights_and_gradients_gb = parameters * (2 + 2) * 1e-9;
  const int tp = least_tensor_parallel(weights_and_gradients_gb, memory_gb, activations_gb, gpus_per_node);
  if (tp == 0) return RuleOfThumb::tp_pp_fsdp;
  if (tp == 1) return RuleOfThumb::fsdp;
  return gpus <= gpus_per_node ? RuleOfThumb::tp : RuleOfThumb::tp_fsdp;
}

double activation_rule_gb(double micro_batch, double seq_length, double hidden, double layers) {
  return 16 * micro_batch * seq_length * hidden * layers * 1e-9;
}

int most_stages(double memory_gb, double stage_gb) { return static_cast<int>(memory_gb / stage_gb); }

Guideline guideline(const Scenario& scenario) {
  const Model& model = scenario.model;
  const double parameters =
      static_cast<double>(parameter_count(model).total() + adapter_parameters(model, scenario.training));
  const double trained = static_cast<double>(trainable_parameters(model, scenario.training));
  const double seq_length = static_cast<double>(scenario.training.seq_length);
  const double hidden = static_cast<double>(model.hidden_size), layers = static_cast<double>(model.layers());
  Guideline g;
  g.memory_gb = static_cast<double>(scenario.profile.memory.count) * 1e-9;
  g.weights_gb = 2 * parameters * 1e-9;
  g.gradients_gb = 2 * trained * 1e-9;
  g.optimizer_gb = 4 * trained * 1e-9;
  g.activations_gb =
      activation_rule_gb(static_cast<double>(scenario.training.micro_batch_size), seq_length, hidden, layers);
  g.reserved_gb = std::max(g.memory_gb / 4, 2 * seq_length * hidden * layers * 1e-9);
  g.gpus = scenario.cluster.world_size;
  g.node_gpus = scenario.cluster.node.gpus_per_host;
  g.rule = rule_of_thumb((parameters + trained) / 2, g.memory_gb, g.reserved_gb, g.gpus, g.node_gpus);

  const double states = g.weights_gb + g.gradients_gb, left = g.memory_gb - g.reserved_gb;
  const int enough = least_tensor_parallel(states, g.memory_gb, g.reserved_gb, g.node_gpus);
  g.tp = enough > 0 ? enough : g.node_gpus;
  if (enough == 0 && left > 0) g.pp = static_cast<int>(std::ceil(states / (g.tp * left)));
  if (enough == 0 && left <= 0)
    g.notes.emplace_back("One sequence with full recomputation is more than the memory: no degree of this guide fits.");
  g.dp = std::max(1, g.gpus / (g.tp * g.pp));
  if (g.tp * g.pp > g.gpus)
    g.notes.push_back(fmt::format("TP {} x PP {} are more than the {} GPUs: no degree of this guide suits them.", g.tp,
                                  g.pp, g.gpus));
  else if (g.tp * g.pp * g.dp != g.gpus)
    g.notes.push_back(
        fmt::format("TP {} x PP {} x DP {} are {} of the {} GPUs.", g.tp, g.pp, g.dp, g.tp * g.pp * g.dp, g.gpus));
  g.most_stages = most_stages(g.memory_gb, (states + g.optimizer_gb) / (g.tp * g.pp) + g.reserved_gb);
  g.least_microbatches = g.pp > 1 ? 4 * g.pp : 1;
  const auto add_rules = [&](const char* whose, int tp, int pp, int dp) {
    const std::int64_t samples = scenario.training.micro_batch_size * std::max(1, dp);
    for (const std::string& note : against_rules(tp, pp, scenario.training.global_batch_size / samples, g.node_gpus))
      g.notes.push_back(whose + note);
  };
  const Parallel& own = scenario.parallel;
  add_rules("", g.tp, g.pp, g.dp);
  add_rules("The scenario's own layout: ", own.tp, own.pp, own.replicas_on(g.gpus));
  return g;
}

std::vector<std::string> against_rules(int tp, int pp, std::int64_t microbatches, int node_gpus) {
  std::vector<std::string> notes;
  if (pp > 8) notes.push_back(fmt::format("{} stages: guides advise 2 to 8.", pp));
  if (tp > node_gpus)
    notes.push_back(
        fmt::format("TP {} is more than the {} GPUs of a node: its all-reduces leave the node.", tp, node_gpus));
  if (pp > 1 && microbatches < 4 * pp)
    notes.push_back(
        fmt::format("{} micro-batches for {} stages: guides advise {} or more, or the bubble is more than {:.1f} %.",
                    microbatches, pp, 4 * pp, 100.0 * (pp - 1) / (5 * pp - 1)));
  return notes;
}

}  // namespace tracecast
