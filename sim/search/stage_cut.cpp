#include "sim/search/stage_cut.hpp"

#include <algorithm>
#include <set>

#include "sim/graph/perturbation.hpp"
#include "sim/network/measured_network.hpp"
#include "sim/plan/plan.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

namespace {

/// [pipeline rank] the kinds of its GPUs.
std::vector<std::set<std::size_t>> kinds_of_ranks(const Scenario& scenario, const Layout& layout, int dp) {
  std::vector<std::set<std::size_t>> kinds(static_cast<std::size_t>(layout.pp));
  const auto order = parse_rank_order(scenario.parallel.rank_order);
  TRACECAST_ASSERT(order.has_value(), "the scenario's rank order was read");
  const RankGrid grid({layout.tp, layout.cp, dp, layout.pp}, *order);
  for (int rank = 0; rank < grid.ranks(); ++rank)
    kinds[static_cast<std::size_t>(grid.coordinates(rank)[Axis::pp])].insert(
        static_cast<std::size_t>(gpu_of(scenario.perturbation, rank)));
  return kinds;
}

/// [virtual stage] its pipeline rank; empty: the schedule is impossible or holds stages twice.
std::vector<std::size_t> ranks_of_stages(const Layout& layout) {
  const Result<Schedule> schedule = placement_of(layout);
  if (!schedule || schedule->replicas > 1 || schedule->stages() != layout.stages()) return {};
  std::vector<std::size_t> ranks(static_cast<std::size_t>(schedule->stages()));
  for (std::size_t rank = 0; rank < schedule->stage_of.size(); ++rank)
    for (const int stage : schedule->stage_of[rank]) ranks[static_cast<std::size_t>(stage)] = rank;
  return ranks;
}

/// Picoseconds of forward and backward of one micro-batch.
struct PartTimes {
  std::vector<std::int64_t> layer;  ///< [kind of layer]
  std::int64_t embedding = 0;
  std::int64_t head = 0;

  void raise(const LayerCosts& costs) {
    const auto raise_one = [](std::int64_t& time, const PassTime& pass) {
      time = std::max(time, pass.forward + pass.backward);
    };
    layer.resize(costs.layer.size());
    for (std::size_t kind = 0; kind < layer.size(); ++kind) raise_one(layer[kind], costs.layer[kind]);
    raise_one(embedding, costs.embedding);
    raise_one(head, costs.head);
  }
};

/// Cuts one layout.
class Cutter {
 public:
  Cutter(const std::vector<PartTimes>& times, const std::vector<std::size_t>& ranks, const std::vector<int>& kind_of,
         int vpp)
      : times_(times), ranks_(ranks), kind_of_(kind_of), vpp_(vpp) {}

  StageCut best() const {
    std::int64_t possible = 0;
    for (const PartTimes& each : times_) possible = std::max(possible, vpp_ * whole(each));
    std::int64_t impossible = 0;
    while (possible - impossible > 1) {
      const std::int64_t middle = impossible + (possible - impossible) / 2;
      (cut(middle).empty() ? impossible : possible) = middle;
    }
    StageCut result;
    result.layers = cut(possible);
    result.longest = longest(result.layers);
    return result;
  }

 private:
  std::int64_t layer_time(std::size_t stage, std::size_t layer) const {
    return times_[ranks_[stage]].layer[static_cast<std::size_t>(kind_of_[layer])];
  }
  std::int64_t ends(std::size_t stage) const {
    const PartTimes& times = times_[ranks_[stage]];
    return (stage == 0 ? times.embedding : 0) + (stage + 1 == ranks_.size() ? times.head : 0);
  }
  std::int64_t whole(const PartTimes& times) const {
    std::int64_t sum = times.embedding + times.head;
    for (const int kind : kind_of_) sum += times.layer[static_cast<std::size_t>(kind)];
    return sum;
  }

  /// Empty: not all layers can be placed.
  std::vector<int> cut(std::int64_t time) const {
    std::vector<int> layers(ranks_.size());
    std::size_t left = kind_of_.size();
    for (std::size_t stage = ranks_.size(); stage-- > 0;) {
      std::int64_t budget = time / vpp_ - ends(stage);
      // Every earlier stage keeps a layer.
      while (left > stage && layer_time(stage, left - 1) <= budget) {
        budget -= layer_time(stage, --left);
        ++layers[stage];
      }
      if (layers[stage] == 0 || budget < 0) return {};
    }
    return left == 0 ? layers : std::vector<int>{};
  }

  std::int64_t longest(const std::vector<int>& layers) const {
    std::vector<std::int64_t> sums(times_.size());
    std::size_t layer = 0;
    for (std::size_t stage = 0; stage < layers.size(); ++stage) {
      sums[ranks_[stage]] += ends(stage);
      for (int i = 0; i < layers[stage]; ++i) sums[ranks_[stage]] += layer_time(stage, layer++);
    }
    return *std::ranges::max_element(sums);
  }

  const std::vector<PartTimes>& times_;    ///< [pipeline rank] on the slowest of its GPUs
  const std::vector<std::size_t>& ranks_;  ///< [virtual stage]
  const std::vector<int>& kind_of_;        ///< [layer]
  const int vpp_;
};

}  // namespace

StageCuts::StageCuts(const Scenario& scenario)
    : scenario_(scenario),
      layer_kinds_(layer_kinds(scenario)),
      network_(make_network(scenario.cluster, scenario.profile)),
      links_(scenario.cluster, scenario.profile.architecture) {
  gpus_.emplace_back(scenario.profile, scenario.training.attention_kernel);
  for (const Perturbation::OtherGpus& other : scenario.perturbation.gpus) gpus_.emplace_back(other.profile);
}

const LayerCosts& StageCuts::costs_of(std::size_t gpu, const Layout& layout, int dp) {
  dp = placing_dp(scenario_, layout, dp);
  const std::tuple key{
      gpu, layout.tp, layout.cp, layout.ep, layout.sequence_parallel, layout.micro_batch_size, layout.recompute, dp};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  const CostSources sources{scenario_, layer_kinds_, gpus_[gpu], *network_, links_, packs_};
  return known_.emplace(key, layer_costs(sources, layout, dp, false)).first->second;
}

std::optional<StageCut> StageCuts::best(const Layout& layout) {
  if (layout.pp == 1 || layout.stages() > scenario_.model.layers()) return std::nullopt;
  const std::vector<std::size_t> ranks = ranks_of_stages(layout);
  if (ranks.empty()) return std::nullopt;
  const int dp = static_cast<int>(scenario_.cluster.world_size / layout.model_ranks());
  std::vector<PartTimes> times;
  for (const std::set<std::size_t>& kinds : kinds_of_ranks(scenario_, layout, dp)) {
    times.emplace_back();
    for (const std::size_t gpu : kinds) times.back().raise(costs_of(gpu, layout, dp));
  }
  return Cutter(times, ranks, layer_kinds_.of, layout.vpp).best();
}

}  // namespace tracecast
