#include "sim/plan/expert_routing.hpp"

#include <algorithm>

namespace tracecast {
namespace {

/// C(x - part, k) / C(x, k): none of k different experts of x lies in the given `part`.
double none_of(double experts, double part, int k) {
  double probability = 1;
  for (int i = 0; i < k; ++i) probability *= std::max(0.0, experts - part - i) / (experts - i);
  return probability;
}

}  // namespace

double expert_load(const Training& training) {
  if (training.expert_capacity_factor <= 0) return training.expert_imbalance;
  return std::min(training.expert_imbalance, training.expert_capacity_factor);
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
