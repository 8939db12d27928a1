#include "sim/plan/expert_routing.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "sim/base/random.hpp"

namespace tracecast {
namespace {

/// C(x - part, k) / C(x, k): none of k different experts of x lies in the given `part`.
double none_of(double experts, double part, int k) {
  double probability = 1;
  for (int i = 0; i < k; ++i) probability *= std::max(0.0, experts - part - i) / (experts - i);
  return probability;
}

using Numbers = std::vector<double>;

double sum(const Numbers& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

/// Scaled so that their sum is k and none exceeds 1: a token chooses an expert once. What the popular ones cannot take goes to
/// the others.
Numbers shares_of(Numbers weights, int k) {
  Numbers shares(weights.size());
  double left = k;
  double open = sum(weights);
  bool changed = true;
  while (changed && open > 0) {
    changed = false;
    const double scale = left / open;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      shares[i] = weights[i] > 0 ? weights[i] * scale : shares[i];
      if (shares[i] <= 1 || weights[i] == 0) continue;
      left -= 1;
      open -= weights[i];
      weights[i] = 0;
      shares[i] = 1;
      changed = true;
    }
  }
  return shares;
}

/// Deals items out to `bins` bins with equally many places: the largest first, each to the bin with the least that has room.
std::vector<int> dealt_out(const Numbers& sizes, int bins) {
  const std::size_t room = sizes.size() / static_cast<std::size_t>(bins);
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  Numbers load(static_cast<std::size_t>(bins));
  std::vector<std::size_t> taken(load.size());
  std::vector<int> bin(sizes.size());
  for (const std::size_t item : order) {
    std::size_t best = load.size();
    for (std::size_t r = 0; r < load.size(); ++r)
      if (taken[r] < room && (best == load.size() || load[r] < load[best])) best = r;
    load[best] += sizes[item];
    ++taken[best];
    bin[item] = static_cast<int>(best);
  }
  return bin;
}

/// Experts of the places of some ranks: one of each, then again and again the one whose copies have most.
std::vector<std::size_t> with_copies(const std::vector<std::size_t>& experts, const Numbers& shares,
                                     std::size_t copies) {
  std::vector<std::size_t> places = experts;
  std::vector<double> count(experts.size(), 1);
  for (std::size_t copy = 0; copy < copies; ++copy) {
    std::size_t most = 0;
    for (std::size_t i = 1; i < experts.size(); ++i)
      if (shares[experts[i]] / count[i] > shares[experts[most]] / count[most]) most = i;
    ++count[most];
    places.push_back(experts[most]);
  }
  return places;
}

/// The experts of each node: whole routing groups, dealt out by their share; without nodes all on one.
std::vector<std::vector<std::size_t>> experts_of_nodes(const Numbers& shares, int groups, int nodes) {
  std::vector<std::vector<std::size_t>> experts(static_cast<std::size_t>(nodes));
  const std::size_t size = shares.size() / static_cast<std::size_t>(groups);
  Numbers group_shares(static_cast<std::size_t>(groups));
  for (std::size_t i = 0; i < shares.size(); ++i) group_shares[i / size] += shares[i];
  const std::vector<int> node = dealt_out(group_shares, nodes);
  for (std::size_t i = 0; i < shares.size(); ++i) experts[static_cast<std::size_t>(node[i / size])].push_back(i);
  return experts;
}

/// Ranks that have an expert, a copy each; tokens of the expert are divided evenly over them.
using Homes = std::vector<std::vector<std::size_t>>;

/// `shares`: as they were measured
Homes homes_of(const Numbers& shares, const MixtureOfExperts& moe, int ranks, const Training& training) {
  Homes homes(shares.size());
  if (training.expert_placement == ExpertPlacement::contiguous) {
    const std::size_t room = shares.size() / static_cast<std::size_t>(ranks);
    for (std::size_t i = 0; i < shares.size(); ++i) homes[i] = {i / room};
    return homes;
  }
  const int nodes = training.expert_placement_nodes;
  const auto copies = static_cast<std::size_t>(training.redundant_experts / nodes);
  const int ranks_of_node = ranks / nodes;
  std::size_t first = 0;
  for (const auto& experts : experts_of_nodes(shares, nodes > 1 ? moe.routing_groups : 1, nodes)) {
    const std::vector<std::size_t> places = with_copies(experts, shares, copies);
    Numbers count(shares.size());
    for (const std::size_t expert : places) ++count[expert];
    Numbers sizes;
    for (const std::size_t expert : places) sizes.push_back(shares[expert] / count[expert]);
    const std::vector<int> rank = dealt_out(sizes, ranks_of_node);
    for (std::size_t i = 0; i < places.size(); ++i)
      homes[places[i]].push_back(first + static_cast<std::size_t>(rank[i]));
    first += static_cast<std::size_t>(ranks_of_node);
  }
  return homes;
}

/// Shares of one layer when they were measured, and now.
struct LayerShares {
  Numbers measured;
  Numbers now;
};

/// `remembered`: correlation of the logarithm of a share with what it was when it was measured
LayerShares draw_shares(const MixtureOfExperts& moe, const Training& training, double remembered,
                        RandomStream& random) {
  Numbers weights(static_cast<std::size_t>(moe.experts), 1);
  if (!training.expert_tokens.empty()) weights = {training.expert_tokens.begin(), training.expert_tokens.end()};
  const bool skewed = training.expert_tokens.empty() && training.expert_routing == ExpertRouting::skewed;
  Numbers deviates(skewed ? weights.size() : 0);
  for (double& each : deviates) each = random.normal();
  const auto shares = [&] {
    for (std::size_t i = 0; i < deviates.size(); ++i) weights[i] = std::exp(training.expert_skew * deviates[i]);
    return shares_of(weights, moe.topk);
  };
  LayerShares drawn;
  drawn.measured = shares();
  if (!skewed || remembered == 1) {
    drawn.now = drawn.measured;
    return drawn;
  }
  for (double& each : deviates) each = remembered * each + std::sqrt(1 - remembered * remembered) * random.normal();
  drawn.now = shares();
  return drawn;
}

/// Of one layer. `tokens`: in one exchange
ExpertLoad load_of_layer(const MixtureOfExperts& moe, int ranks, double tokens, const Training& training,
                         double remembered, RandomStream& random) {
  const LayerShares drawn = draw_shares(moe, training, remembered, random);
  const Numbers& shares = drawn.now;
  const Homes homes = homes_of(drawn.measured, moe, ranks, training);
  const double copies = tokens * moe.topk;
  const double room =
      training.expert_capacity_factor > 0 ? training.expert_capacity_factor * copies / moe.experts : copies;
  Numbers load(static_cast<std::size_t>(ranks));
  double dropped = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double mean = tokens * shares[i];
    const double got = std::max(0.0, mean + std::sqrt(mean * (1 - shares[i])) * random.normal());
    dropped += std::max(0.0, got - room);
    for (const std::size_t rank : homes[i]) load[rank] += std::min(got, room) / static_cast<double>(homes[i].size());
  }
  return {std::ranges::max(load) * ranks / copies, dropped / copies};
}

/// Layers stand for steps at all ages of their placement.
double remembered_share(const Training& training, int layer) {
  if (training.expert_drift_steps == 0) return 1;
  const double age = training.expert_rebalance_steps * (layer + 0.5) / kRoutingDraws;
  return std::exp(-age / training.expert_drift_steps);
}

/// Of one exchange: of all ranks that share the experts, a copy of each token.
double tokens_in_exchange(const Parallel& p, const Training& training) {
  const double sequences = std::max(1.0, static_cast<double>(p.ep) * p.expert_tensor_ranks() / (p.tp * p.cp));
  return sequences * static_cast<double>(training.micro_batch_size * training.seq_length) / p.moe_chunks;
}

/// Over the mean, the tokens of a rank whose experts all tokens choose.
double fullest_possible(const MixtureOfExperts& moe, int ep) {
  return std::min<double>(moe.topk, static_cast<double>(moe.experts) / ep) * ep / moe.topk;
}

}  // namespace

ExpertLoad expert_load(const MixtureOfExperts& moe, const Parallel& parallel, const Training& training) {
  const double factor = training.expert_capacity_factor;
  if (training.expert_routing == ExpertRouting::even && training.expert_tokens.empty()) {
    const double imbalance = std::min(training.expert_imbalance, fullest_possible(moe, parallel.ep));
    if (factor == 0) return {imbalance, 0};
    return {training.expert_capacity_padding ? factor : std::min(imbalance, factor), std::max(0.0, 1 - factor)};
  }
  constexpr std::uint64_t kSeed = 25;  // chosen; the same for all layouts, so that they compare with the same routers
  RandomStream random(kSeed, 0, 0);
  ExpertLoad mean{0, 0};
  for (int layer = 0; layer < kRoutingDraws; ++layer) {
    const ExpertLoad load = load_of_layer(moe, parallel.ep, tokens_in_exchange(parallel, training), training,
                                          remembered_share(training, layer), random);
    mean.fullest += load.fullest / kRoutingDraws;
    mean.dropped += load.dropped / kRoutingDraws;
  }
  if (training.expert_capacity_padding) mean.fullest = factor;
  return mean;
}

double parts_reached(const MixtureOfExperts& moe, int parts) {
  double candidates = parts;
  double experts = moe.experts;
  if (moe.routing_groups > 0 && moe.routing_group_limit > 0) {
    const double share = static_cast<double>(moe.routing_group_limit) / moe.routing_groups;
    const bool whole_groups = moe.routing_groups % parts == 0 && moe.routing_group_limit < parts;
    if (whole_groups || parts % moe.routing_groups == 0) {
      candidates = whole_groups ? moe.routing_group_limit : parts * share;
      experts *= candidates / parts;
    }
  }
  return candidates * (1 - none_of(experts, experts / candidates, moe.topk));
}

}  // namespace tracecast
