#include "sim/plan/optimizer_matrices.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/rank_parameters.hpp"
#include "sim/plan/sharding.hpp"

namespace tracecast {
namespace {

/// Ranks that one matrix of the group is divided over.
int tensor_ranks(const ParameterGroup& group, const Model& model, const Parallel& parallel) {
  switch (group.split) {
    case Split::tensor:
      return parallel.tp;
    case Split::query_groups:
      return std::min(parallel.tp, model.num_query_groups);
    case Split::expert:
      return parallel.expert_tensor_ranks();
    case Split::replicated:
    case Split::expert_bias:
      break;
  }
  return 1;
}

/// The part that one rank holds: inputs x outputs, and what it works on.
OptimizerMatrices part_of(const ParameterGroup& group, const Model& model, const Plan& plan) {
  const int ranks = tensor_ranks(group, model, plan.parallel);
  const std::int64_t inputs = group.row_parallel ? group.inputs / ranks : group.inputs;
  const std::int64_t outputs = group.row_parallel ? group.outputs : group.outputs / ranks;
  OptimizerMatrices matrices;
  matrices.held_elements = inputs * outputs;
  matrices.expert = group.split == Split::expert;
  matrices.count = matrices.expert ? group.pieces / plan.parallel.ep : group.pieces;
  matrices.divided = ranks > 1;
  switch (plan.training.muon_tensor) {
    case MuonTensorMode::blockwise:
      std::tie(matrices.rows, matrices.columns) = std::minmax(inputs, outputs);
      break;
    case MuonTensorMode::duplicated:
      std::tie(matrices.rows, matrices.columns) = std::minmax(group.inputs, group.outputs);
      break;
    case MuonTensorMode::distributed:  // the side that is whole gives the products that are summed
      matrices.rows = group.row_parallel ? outputs : inputs;
      matrices.columns = group.row_parallel ? inputs : outputs;
      if (!matrices.divided) std::tie(matrices.rows, matrices.columns) = std::minmax(inputs, outputs);
      break;
  }
  return matrices;
}

/// Lengths of the pieces of a side and how many there are of each: whole blocks, and what is left.
std::vector<std::pair<std::int64_t, std::int64_t>> pieces_of(std::int64_t side, std::int64_t block) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces;
  if (side / block > 0) pieces.emplace_back(block, side / block);
  if (side % block > 0) pieces.emplace_back(side % block, 1);
  return pieces;
}

std::vector<OptimizerMatrices> blocks_of(const OptimizerMatrices& matrices, std::int64_t block) {
  std::vector<OptimizerMatrices> blocks;
  for (const auto& [rows, vertical] : pieces_of(matrices.rows, block))
    for (const auto& [columns, horizontal] : pieces_of(matrices.columns, block)) {
      OptimizerMatrices piece = matrices;
      std::tie(piece.rows, piece.columns) = std::minmax(rows, columns);
      piece.held_elements = rows * columns;
      piece.count = matrices.count * vertical * horizontal;
      blocks.push_back(piece);
    }
  return blocks;
}

/// Joins equal ones; those with the most elements first.
std::vector<OptimizerMatrices> joined(const std::vector<OptimizerMatrices>& matrices) {
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool>;
  std::map<Key, std::int64_t, std::greater<>> counts;
  for (const OptimizerMatrices& m : matrices)
    if (m.count > 0) counts[{m.held_elements, m.rows, m.columns, m.expert, m.divided}] += m.count;
  std::vector<OptimizerMatrices> out;
  for (const auto& [key, count] : counts) {
    const auto& [held, rows, columns, expert, divided] = key;
    out.push_back({rows, columns, held, count, expert, divided});
  }
  return out;
}

/// The matrices of the rank with the most elements. Those that go around all ranks leave them as they are against each other.
std::vector<OptimizerMatrices> dealt(const std::vector<OptimizerMatrices>& matrices, int ranks, bool expert) {
  using Load = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (int rank = 0; rank < ranks; ++rank) least.emplace(0, static_cast<std::size_t>(rank));
  std::vector<OptimizerMatrices> share;
  std::vector<std::vector<OptimizerMatrices>> rest(static_cast<std::size_t>(ranks));
  Load most{0, 0};
  for (OptimizerMatrices m : matrices) {
    if (m.expert != expert) continue;
    const std::int64_t left = m.count % ranks;
    m.count /= ranks;
    share.push_back(m);
    m.count = 1;
    for (std::int64_t i = 0; i < left; ++i) {
      const auto [load, rank] = least.top();
      least.pop();
      rest[rank].push_back(m);
      least.emplace(load + m.held_elements, rank);
      most = std::max(most, Load{load + m.held_elements, rank});
    }
  }
  share.insert(share.end(), rest[most.second].begin(), rest[most.second].end());
  return share;
}

}  // namespace

bool works_on_matrices(const ParameterGroup& group, const Model& model, const Optimizer& optimizer) {
  if (optimizer.matrices == MatrixWork::none) return false;
  if (optimizer.matrices == MatrixWork::factored)
    return group.matrix || (group.part == Part::embedding && group.count > 2 * model.hidden_size);  // not its norm
  return group.matrix && group.part != Part::embedding && group.part != Part::output;
}

std::vector<OptimizerMatrices> matrices_of(const ParameterGroup& group, const Model& model, const Plan& plan) {
  const Optimizer& optimizer = optimizer_of(plan.training.optimizer);
  ParameterGroup sized = group;
  if (!group.matrix) {  // a table: words or positions x hidden
    sized.inputs = model.hidden_size;
    sized.outputs = group.count / model.hidden_size;
    sized.pieces = 1;
  }
  const OptimizerMatrices part = part_of(sized, model, plan);
  if (optimizer.matrices != MatrixWork::roots) return {part};
  return blocks_of(part, preconditioner_block(plan.training));
}

std::vector<std::int64_t> preconditioned_sides(const OptimizerMatrices& matrices, const Training& training) {
  const Optimizer& optimizer = optimizer_of(training.optimizer);
  if (!has_preconditioners(optimizer)) return {};
  std::vector<std::int64_t> sides{matrices.rows, matrices.columns};
  std::erase_if(sides, [&](std::int64_t side) { return side > preconditioner_block(training); });
  return sides;
}

std::int64_t state_elements(const OptimizerMatrices& matrices, const Training& training) {
  if (optimizer_of(training.optimizer).matrices == MatrixWork::factored) return matrices.rows + matrices.columns;
  std::int64_t sum = 0;
  for (const std::int64_t side : preconditioned_sides(matrices, training)) sum += 2 * side * side;
  return sum;
}

int dealing_ranks(const Plan& plan, bool expert) {
  switch (matrix_sharding(plan.parallel, plan.training)) {
    case MatrixSharding::gather_updates:
      return expert ? expert_gradient_group(plan) : plan.gradient_group();
    case MatrixSharding::layerwise:
    case MatrixSharding::all_to_all:
      return expert ? expert_shard_group(plan) : plan.shard_group();
    default:
      return 1;
  }
}

MatrixSharding matrix_sharding(const Parallel& parallel, const Training& training) {
  if (training.matrix_sharding != MatrixSharding::automatic) return training.matrix_sharding;
  switch (parallel.zero_stage) {
    case 0:
      return MatrixSharding::replicated;
    case 1:
    case 2:
      return MatrixSharding::layerwise;
    default:
      return MatrixSharding::all_to_all;
  }
}

std::vector<OptimizerMatrices> optimizer_matrices(const Model& model, const Plan& plan, const Stage& stage) {
  const Optimizer& optimizer = optimizer_of(plan.training.optimizer);
  std::vector<OptimizerMatrices> matrices;
  const auto add = [&](const std::vector<ParameterGroup>& groups, bool trained) {
    for (const ParameterGroup& group : groups)
      if (trained && works_on_matrices(group, model, optimizer))
        std::ranges::move(matrices_of(group, model, plan), std::back_inserter(matrices));
  };
  const Training& training = plan.training;
  if (stage.embedding) add(embedding_parameter_groups(model), trains_embedding(training));
  for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer)
    add(layer_parameter_groups(model, layer), trains_weights(model, training, layer));
  for (int layer = model.layers(); stage.head && layer < model.layers() + model.mtp_layers; ++layer)
    add(mtp_parameter_groups(model), trains_weights(model, training, layer));
  if (stage.head) add(head_parameter_groups(model), trains_weights(model, training, -1));
  return joined(matrices);
}

std::vector<OptimizerMatrices> fullest_share(const std::vector<OptimizerMatrices>& matrices, int dense, int expert) {
  std::vector<OptimizerMatrices> share = dealt(matrices, std::max(dense, 1), false);
  const std::vector<OptimizerMatrices> experts = dealt(matrices, std::max(expert, 1), true);
  share.insert(share.end(), experts.begin(), experts.end());
  return joined(share);
}

namespace {

/// Reports what is wrong with a key of the training.
class OptimizerCheck {
 public:
  OptimizerCheck(PlanCheck& check, const Parallel& p, const Training& t) : check_(check), p_(p), t_(t) {}

  void run() {
    const Optimizer& optimizer = optimizer_of(t_.optimizer);
    check_keys(optimizer);
    if (optimizer.matrices == MatrixWork::none) return;
    const std::string name = to_string(t_.optimizer);
    if (needs_whole_matrices(optimizer) && t_.dtype == Precision::fp16)
      refuse("optimizer", name, "needs bf16 or narrower: there is no loss scaling");
    if (t_.offload_optimizer) refuse("optimizer", name, "runs on the GPU: offload_optimizer must be false");
    if (has_servers(p_)) refuse("optimizer", name, "is not supported with parameter servers");
    if (needs_whole_matrices(optimizer)) check_shards();
    if (t_.muon_tensor != MuonTensorMode::blockwise && p_.etp > 1 && p_.etp != p_.tp)
      refuse("muon_tensor", to_string(t_.muon_tensor), "needs parallel.etp 1 or as large as tp");
  }

 private:
  void refuse(const char* key, std::string value, std::string why) {
    check_.fault(fmt::format("training.{}", key), std::move(value), std::move(why));
  }

  void check_keys(const Optimizer& optimizer) {
    if (t_.optimizer != OptimizerKind::muon) {
      const char* why = "needs training.optimizer = muon";
      if (t_.muon_tensor != MuonTensorMode::blockwise) refuse("muon_tensor", to_string(t_.muon_tensor), why);
      if (t_.muon_steps != Training{}.muon_steps) refuse("muon_steps", fmt::to_string(t_.muon_steps), why);
    }
    if (!needs_whole_matrices(optimizer) && t_.matrix_sharding != MatrixSharding::automatic)
      refuse("matrix_sharding", to_string(t_.matrix_sharding), "needs training.optimizer = muon, shampoo or soap");
    if (has_preconditioners(optimizer)) return;
    const char* why = "needs training.optimizer = shampoo or soap";
    for (const auto& [key, value] : {std::pair{"preconditioner_block", t_.preconditioner_block},
                                     std::pair{"preconditioner_interval", t_.preconditioner_interval}})
      if (value != 0) refuse(key, fmt::to_string(value), why);
  }

  void check_shards() {
    const MatrixSharding sharding = t_.matrix_sharding;
    const auto refuse_sharding = [&](std::string why) {
      refuse("matrix_sharding", to_string(sharding), std::move(why));
    };
    const bool layerwise = p_.zero_stage == 1 || p_.zero_stage == 2;
    if ((sharding == MatrixSharding::replicated || sharding == MatrixSharding::gather_updates) && p_.zero_stage != 0)
      refuse_sharding("needs parallel.zero_stage 0: the states are whole");
    if (sharding == MatrixSharding::gather_updates && averages_parameters(p_))
      refuse_sharding("joins the updates of replicas that parallel.data_parallel = parameter_averaging keeps apart");
    if (sharding == MatrixSharding::layerwise && !layerwise) refuse_sharding("needs parallel.zero_stage 1 or 2");
    if ((sharding == MatrixSharding::gather || sharding == MatrixSharding::all_to_all) && p_.zero_stage == 0)
      refuse_sharding("needs parallel.zero_stage 1, 2 or 3: the states are divided");
  }

  PlanCheck& check_;
  const Parallel& p_;
  const Training& t_;
};

}  // namespace

void check_optimizer(PlanCheck& check, const Parallel& parallel, const Training& training) {
  OptimizerCheck(check, parallel, training).run();
}

std::int64_t held_elements(const std::vector<OptimizerMatrices>& matrices, bool expert) {
  std::int64_t sum = 0;
  for (const OptimizerMatrices& m : matrices)
    if (m.expert == expert) sum += m.held_elements * m.count;
  return sum;
}

}  // namespace tracecast
