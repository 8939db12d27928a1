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

/// Rank of each expert.
std::vector<int> ranks_of(const Numbers& shares, int ranks, ExpertPlacement placement) {
  const std::size_t room = shares.size() / static_cast<std::size_t>(ranks);
  std::vector<int> rank(shares.size());
  if (placement == ExpertPlacement::contiguous) {
    for (std::size_t i = 0; i < rank.size(); ++i) rank[i] = static_cast<int>(i / room);
    return rank;
  }
  std::vector<std::size_t> order(shares.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return shares[a] > shares[b]; });
  Numbers load(static_cast<std::size_t>(ranks));
  std::vector<std::size_t> taken(load.size());
  for (const std::size_t expert : order) {
    std::size_t best = load.size();
    for (std::size_t r = 0; r < load.size(); ++r)
      if (taken[r] < room && (best == load.size() || load[r] < load[best])) best = r;
    load[best] += shares[expert];
    ++taken[best];
    rank[expert] = static_cast<int>(best);
  }
  return rank;
}

Numbers weights_of(int experts, const Training& training, RandomStream& random) {
  if (!training.expert_tokens.empty()) return {training.expert_tokens.begin(), training.expert_tokens.end()};
  Numbers weights(static_cast<std::size_t>(experts), 1);
  if (training.expert_routing == ExpertRouting::skewed)
    for (double& weight : weights) weight = std::exp(training.expert_skew * random.normal());
  return weights;
}

/// Of one layer. `tokens`: in one exchange
ExpertLoad load_of_layer(const MixtureOfExperts& moe, int ranks, double tokens, const Training& training,
                         RandomStream& random) {
  const Numbers shares = shares_of(weights_of(moe.experts, training, random), moe.topk);
  const std::vector<int> rank = ranks_of(shares, ranks, training.expert_placement);
  const double copies = tokens * moe.topk;
  const double room =
      training.expert_capacity_factor > 0 ? training.expert_capacity_factor * copies / moe.experts : copies;
  Numbers load(static_cast<std::size_t>(ranks));
  double dropped = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const double mean = tokens * shares[i];
    const double got = std::max(0.0, mean + std::sqrt(mean * (1 - shares[i])) * random.normal());
    dropped += std::max(0.0, got - room);
    load[static_cast<std::size_t>(rank[i])] += std::min(got, room);
  }
  return {std::ranges::max(load) * ranks / copies, dropped / copies};
}

/// Of one exchange: of all ranks that share the experts, a copy of each token.
double tokens_in_exchange(const Parallel& p, const Training& training) {
  const int expert_tensor_ranks = p.etp > 0 ? p.etp : p.tp;
  const double sequences = std::max(1.0, static_cast<double>(p.ep) * expert_tensor_ranks / (p.tp * p.cp));
  return sequences * static_cast<double>(training.micro_batch_size * training.seq_length) / p.moe_chunks;
}

}  // namespace

ExpertLoad expert_load(const MixtureOfExperts& moe, const Parallel& parallel, const Training& training) {
  const double factor = training.expert_capacity_factor;
  if (training.expert_routing == ExpertRouting::even && training.expert_tokens.empty())
    return {factor > 0 ? std::min(training.expert_imbalance, factor) : training.expert_imbalance, 0};
  RandomStream random(25, 0, 0);
  ExpertLoad mean{0, 0};
  for (int layer = 0; layer < kRoutingDraws; ++layer) {
    const ExpertLoad load = load_of_layer(moe, parallel.ep, tokens_in_exchange(parallel, training), training, random);
    mean.fullest += load.fullest / kRoutingDraws;
    mean.dropped += load.dropped / kRoutingDraws;
  }
  return mean;
}

double nodes_reached(const MixtureOfExperts& moe, int nodes) {
  double candidates = nodes;
  double experts = moe.experts;
  const bool limited = moe.routing_groups > 0 && moe.routing_group_limit > 0;
  if (limited && moe.routing_groups % nodes == 0 && moe.routing_group_limit < nodes) {
    candidates = moe.routing_group_limit;
    experts *= candidates / nodes;
  }
  return candidates * (1 - none_of(experts, experts / candidates, moe.topk));
}

}  // namespace tracecast
