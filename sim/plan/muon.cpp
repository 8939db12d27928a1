#include "sim/plan/muon.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/plan/fine_tuning.hpp"
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
      return parallel.etp;
    case Split::replicated:
    case Split::expert_bias:
      break;
  }
  return 1;
}

/// The part that one rank holds: inputs x outputs, and what it orthogonalises.
MuonMatrices matrices_of(const ParameterGroup& group, const Model& model, const Plan& plan) {
  const int ranks = tensor_ranks(group, model, plan.parallel);
  const std::int64_t inputs = group.row_parallel ? group.inputs / ranks : group.inputs;
  const std::int64_t outputs = group.row_parallel ? group.outputs : group.outputs / ranks;
  MuonMatrices matrices;
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

/// Joins equal ones; those with the most elements first.
std::vector<MuonMatrices> joined(const std::vector<MuonMatrices>& matrices) {
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool>;
  std::map<Key, std::int64_t, std::greater<>> counts;
  for (const MuonMatrices& m : matrices)
    if (m.count > 0) counts[{m.held_elements, m.rows, m.columns, m.expert, m.divided}] += m.count;
  std::vector<MuonMatrices> out;
  for (const auto& [key, count] : counts) {
    const auto& [held, rows, columns, expert, divided] = key;
    out.push_back({rows, columns, held, count, expert, divided});
  }
  return out;
}

/// The matrices of the rank with the most elements. Those that go around all ranks leave them as they are against each other.
std::vector<MuonMatrices> dealt(const std::vector<MuonMatrices>& matrices, int ranks, bool expert) {
  using Load = std::pair<std::int64_t, std::size_t>;
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (int rank = 0; rank < ranks; ++rank) least.emplace(0, static_cast<std::size_t>(rank));
  std::vector<MuonMatrices> share;
  std::vector<std::vector<MuonMatrices>> rest(static_cast<std::size_t>(ranks));
  Load most{0, 0};
  for (MuonMatrices m : matrices) {
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

bool is_orthogonalised(const ParameterGroup& group) {
  return group.matrix && group.part != Part::embedding && group.part != Part::output;
}

MuonSharding muon_sharding(const Parallel& parallel, const Training& training) {
  if (training.muon_sharding != MuonSharding::automatic) return training.muon_sharding;
  switch (parallel.zero_stage) {
    case 0:
      return MuonSharding::replicated;
    case 1:
    case 2:
      return MuonSharding::layerwise;
    default:
      return MuonSharding::all_to_all;
  }
}

std::vector<MuonMatrices> muon_matrices(const Model& model, const Plan& plan, const Stage& stage) {
  std::vector<MuonMatrices> matrices;
  const auto add = [&](const std::vector<ParameterGroup>& groups, int layer) {
    if (!trains_weights(model, plan.training, layer)) return;
    for (const ParameterGroup& group : groups)
      if (is_orthogonalised(group)) matrices.push_back(matrices_of(group, model, plan));
  };
  for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer)
    add(layer_parameter_groups(model, layer), layer);
  for (int layer = model.layers(); stage.head && layer < model.layers() + model.mtp_layers; ++layer)
    add(mtp_parameter_groups(model), layer);
  return joined(matrices);
}

std::vector<MuonMatrices> fullest_share(const std::vector<MuonMatrices>& matrices, int dense, int expert) {
  std::vector<MuonMatrices> share = dealt(matrices, std::max(dense, 1), false);
  const std::vector<MuonMatrices> experts = dealt(matrices, std::max(expert, 1), true);
  share.insert(share.end(), experts.begin(), experts.end());
  return joined(share);
}

void check_muon(PlanCheck& check, const Parallel& p, const Training& training) {
  const auto named = [](auto value) { return std::string(to_string(value)); };
  const auto refuse = [&](const char* key, std::string value, std::string why) {
    check.fault(fmt::format("training.{}", key), std::move(value), std::move(why));
  };
  if (training.optimizer != OptimizerKind::muon) {
    const char* why = "needs training.optimizer = muon";
    if (training.muon_sharding != MuonSharding::automatic) refuse("muon_sharding", named(training.muon_sharding), why);
    if (training.muon_tensor != MuonTensorMode::blockwise) refuse("muon_tensor", named(training.muon_tensor), why);
    if (training.muon_steps != Training{}.muon_steps) refuse("muon_steps", fmt::to_string(training.muon_steps), why);
    return;
  }
  if (training.dtype == Precision::fp16)
    refuse("optimizer", "muon", "needs bf16 or narrower: there is no loss scaling");
  if (training.offload_optimizer) refuse("optimizer", "muon", "runs on the GPU: offload_optimizer must be false");
  if (has_servers(p)) refuse("optimizer", "muon", "has no form on parameter servers");
  const MuonSharding sharding = training.muon_sharding;
  const bool layerwise = p.zero_stage == 1 || p.zero_stage == 2;
  if (sharding == MuonSharding::replicated && p.zero_stage != 0)
    refuse("muon_sharding", "replicated", "needs parallel.zero_stage 0: the states are whole");
  if (sharding == MuonSharding::layerwise && !layerwise)
    refuse("muon_sharding", "layerwise", "needs parallel.zero_stage 1 or 2");
  if ((sharding == MuonSharding::gather || sharding == MuonSharding::all_to_all) && p.zero_stage == 0)
    refuse("muon_sharding", named(sharding), "needs parallel.zero_stage 1, 2 or 3: the states are divided");
  if (training.muon_tensor != MuonTensorMode::blockwise && p.etp > 1 && p.etp != p.tp)
    refuse("muon_tensor", named(training.muon_tensor), "needs parallel.etp 1 or as large as tp");
}

std::int64_t held_elements(const std::vector<MuonMatrices>& matrices, bool expert) {
  std::int64_t sum = 0;
  for (const MuonMatrices& m : matrices)
    if (m.expert == expert) sum += m.held_elements * m.count;
  return sum;
}

}  // namespace tracecast
