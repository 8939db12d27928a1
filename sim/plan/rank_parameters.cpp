#include "sim/plan/rank_parameters.hpp"

#include <algorithm>

#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/optimizer_matrices.hpp"
#include "sim/plan/precision.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast {
namespace {

std::int64_t share(const ParameterGroup& group, const Model& model, const Parallel& parallel) {
  switch (group.split) {
    case Split::replicated:
      return group.count;
    case Split::tensor:
      return group.count / parallel.tp;
    case Split::query_groups:
      return group.count / std::min(parallel.tp, model.num_query_groups);
    case Split::expert:
      return group.count / (std::int64_t{parallel.ep} * parallel.expert_tensor_ranks());
    case Split::expert_bias:
      return group.count / parallel.ep;
  }
  return 0;
}

}  // namespace

RankParameters& RankParameters::operator+=(const RankParameters& other) {
  dense += other.dense;
  experts += other.experts;
  quantised += other.quantised;
  quantised_experts += other.quantised_experts;
  trained += other.trained;
  trained_experts += other.trained_experts;
  matrices += other.matrices;
  expert_matrices += other.expert_matrices;
  largest_matrix = std::max(largest_matrix, other.largest_matrix);
  matrix_states += other.matrix_states;
  expert_matrix_states += other.expert_matrix_states;
  expert_copies += other.expert_copies;
  persistent += other.persistent;
  return *this;
}

RankParameters rank_parameters(const std::vector<ParameterGroup>& groups, const Model& model,
                               const Parallel& parallel) {
  RankParameters parameters;
  for (const ParameterGroup& group : groups) {
    (group.part == Part::expert ? parameters.experts : parameters.dense) += share(group, model, parallel);
  }
  parameters.persistent = persistent_parameters(groups, model, parallel);
  return parameters;
}

std::int64_t persistent_parameters(const std::vector<ParameterGroup>& groups, const Model& model,
                                   const Parallel& parallel) {
  if (!rules_of(parallel).gathers_elements) return 0;
  std::int64_t sum = 0;
  for (const ParameterGroup& group : groups) {
    const std::int64_t tensor = share(group, model, parallel);
    if (group.part != Part::expert && tensor < deepspeed_persistence(parallel)) sum += tensor;
  }
  return sum;
}

namespace {

RankParameters with_trained(RankParameters parameters, bool trained) {
  if (trained) {
    parameters.trained = parameters.dense;
    parameters.trained_experts = parameters.experts;
  }
  return parameters;
}

void add_matrices(RankParameters& parameters, const std::vector<ParameterGroup>& groups, const Model& model,
                  const Plan& plan) {
  const Optimizer& optimizer = optimizer_of(plan.training.optimizer);
  for (const ParameterGroup& group : groups) {
    if (!works_on_matrices(group, model, optimizer)) continue;
    const bool expert = group.part == Part::expert;
    (expert ? parameters.expert_matrices : parameters.matrices) += share(group, model, plan.parallel);
    for (const OptimizerMatrices& each : matrices_of(group, model, plan)) {
      (expert ? parameters.expert_matrix_states : parameters.matrix_states) +=
          each.count * state_elements(each, plan.training);
      if (!expert) parameters.largest_matrix = std::max(parameters.largest_matrix, each.held_elements);
    }
  }
}

/// rank_parameters() of layer `layer`, with the quantised ones counted.
RankParameters layer_rank_parameters(const std::vector<ParameterGroup>& groups, const Model& model, const Plan& plan,
                                     int layer) {
  RankParameters parameters =
      with_trained(rank_parameters(groups, model, plan.parallel), trains_weights(model, plan.training, layer));
  if (parameters.trained > 0) add_matrices(parameters, groups, model, plan);
  if (model.moe && parameters.trained_experts > 0)
    parameters.expert_copies = parameters.experts * plan.training.redundant_experts / model.moe->experts;
  const std::int64_t adapters = adapter_parameters(model, plan.training, layer, plan.parallel.tp);
  parameters.dense += adapters;
  parameters.trained += adapters;
  for (const ParameterGroup& group : groups) {
    const bool linear = group.matrix && (group.part == Part::attention || group.part == Part::mlp);
    const bool expert = group.matrix && group.part == Part::expert;
    if (!linear && !expert) continue;
    const LinearPart part = expert                          ? LinearPart::experts
                            : group.part == Part::attention ? LinearPart::attention
                                                            : LinearPart::mlp;
    if (!is_narrow(linear_precision(model, plan.training, layer, part))) continue;
    (expert ? parameters.quantised_experts : parameters.quantised) += share(group, model, plan.parallel);
  }
  return parameters;
}

}  // namespace

std::vector<RankParameters> stage_units(const Model& model, const Plan& plan, const Stage& stage, bool shares_table) {
  const Training& training = plan.training;
  const auto unit = [&](const std::vector<ParameterGroup>& groups, bool trained) {
    RankParameters parameters = with_trained(rank_parameters(groups, model, plan.parallel), trained);
    if (trained) add_matrices(parameters, groups, model, plan);
    for (const ParameterGroup& group : groups)
      if (training.fp8_output_layer && group.part == Part::output && group.matrix)
        parameters.quantised += share(group, model, plan.parallel);
    return parameters;
  };
  std::vector<RankParameters> units;
  if (stage.embedding) units.push_back(unit(embedding_parameter_groups(model), trains_embedding(training)));
  for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer) {
    units.push_back(layer_rank_parameters(layer_parameter_groups(model, layer), model, plan, layer));
  }
  if (!stage.head) return units;
  for (int layer = model.layers(); layer < model.layers() + model.mtp_layers; ++layer) {
    units.push_back(layer_rank_parameters(mtp_parameter_groups(model), model, plan, layer));
  }
  units.push_back(unit(head_parameter_groups(model), trains_weights(model, training, -1)));
  if (shares_table) return units;
  // A table of the last stage's own: tied embeddings multiply with it, multi-token prediction looks words up in it.
  const std::int64_t table = model.vocab_size * model.hidden_size;
  if (model.tied_embeddings)
    units.back() += unit({{Part::output, Split::tensor, table, true}}, trains_embedding(training));
  else if (model.mtp_layers > 0)
    units.back() += unit({{Part::embedding, Split::tensor, table, false}}, trains_embedding(training));
  return units;
}

int expert_gradient_group(const Plan& plan) {
  const Parallel& p = plan.parallel;
  return p.tp * p.cp * p.dp / (p.ep * p.expert_tensor_ranks());
}

int expert_shard_group(const Plan& plan) {
  const int copies = plan.parallel.zero_stage > 0 ? plan.gradient_group() / plan.shard_group() : 1;
  return std::max(1, expert_gradient_group(plan) / std::max(1, copies));  // 0: a group that no plan has
}

}  // namespace tracecast
