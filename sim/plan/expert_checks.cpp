#include "sim/plan/expert_checks.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/plan/sharding.hpp"

namespace tracecast {
namespace {

/// As many numbers as experts, and enough experts that got tokens for every token to choose topk.
void check_expert_tokens(PlanCheck& check, const Model& model, const Training& t) {
  const std::string numbers = fmt::format("{} numbers", t.expert_tokens.size());
  const char* key = "training.expert_tokens";
  if (!model.moe) return check.fault(key, numbers, "needs a model with experts");
  if (t.expert_routing != ExpertRouting::even || t.expert_imbalance > 1)
    check.fault(key, numbers, "stands in place of expert_routing and expert_imbalance (give one of the three)");
  if (t.expert_tokens.size() != static_cast<std::size_t>(model.moe->experts))
    return check.fault(key, numbers, fmt::format("needs one for each of the {} experts", model.moe->experts));
  if (std::ranges::any_of(t.expert_tokens, [](int tokens) { return tokens < 0; }))
    return check.fault(key, numbers, "has a negative one");
  const auto used = std::ranges::count_if(t.expert_tokens, [](int tokens) { return tokens > 0; });
  if (used < model.moe->topk)
    check.fault(key, numbers,
                fmt::format("gives tokens to {} experts, but each token goes to {}", used, model.moe->topk));
}

/// Copies need a placement by load; nodes hold whole routing groups and equal parts of the copies.
void check_expert_copies(PlanCheck& check, const MixtureOfExperts& moe, const Parallel& p, const Training& t) {
  const auto refuse = [&](const char* key, int value, std::string why) {
    check.fault(fmt::format("training.{}", key), fmt::to_string(value), std::move(why));
  };
  const int copies = t.redundant_experts;
  const int nodes = t.expert_placement_nodes;
  const bool placed = t.expert_placement == ExpertPlacement::rebalanced;
  for (const auto& [key, value, plain] :
       {std::tuple{"redundant_experts", copies, 0}, std::tuple{"expert_placement_nodes", nodes, 1},
        std::tuple{"expert_rebalance_steps", t.expert_rebalance_steps, 0}}) {
    if (value < plain) refuse(key, value, fmt::format("must be at least {}", plain));
    if (value > plain && !placed) refuse(key, value, "needs training.expert_placement = rebalanced");
  }
  if (t.expert_drift_steps < 0) refuse("expert_drift_steps", t.expert_drift_steps, "must be at least 0");
  if (t.expert_drift_steps > 0 && t.expert_rebalance_steps == 0)
    refuse("expert_drift_steps", t.expert_drift_steps, "needs training.expert_rebalance_steps");
  if (t.expert_drift_steps > 0 && t.expert_routing != ExpertRouting::skewed)
    refuse("expert_drift_steps", t.expert_drift_steps, "needs training.expert_routing = skewed, whose shares drift");
  if (copies > 0 && copies % p.ep != 0)
    refuse("redundant_experts", copies, fmt::format("is not a multiple of parallel.ep = {}", p.ep));
  if (copies > 0 && p.zero_stage > 1)
    refuse("redundant_experts", copies, "needs parallel.zero_stage 0 or 1: gradients and weights of copies are whole");
  if (copies > 0 && (t.frozen_fraction > 0 || t.lora_rank > 0 || t.offload_optimizer || averages_parameters(p)))
    refuse(
        "redundant_experts", copies,
        "needs all weights trained on the GPU, with gradients reduced (no frozen layers, adapters, offload_optimizer, "
        "parameter_averaging)");
  if (nodes <= 1) return;
  if (p.ep % nodes != 0) refuse("expert_placement_nodes", nodes, fmt::format("does not divide parallel.ep = {}", p.ep));
  if (moe.routing_groups == 0 || moe.routing_groups % nodes != 0)
    refuse(
        "expert_placement_nodes", nodes,
        fmt::format("needs as many routing groups on each node (model.moe.routing_groups = {})", moe.routing_groups));
  if (copies % nodes != 0) refuse("redundant_experts", copies, "is not a multiple of expert_placement_nodes");
}

}  // namespace

void check_experts(PlanCheck& check, const Model& model, const Parallel& p, const Training& t) {
  if (!(t.expert_imbalance >= 1)) {
    check.fault("training.expert_imbalance", fmt::to_string(t.expert_imbalance), "must be at least 1");
  }
  if (model.moe && model.moe->topk > 0 && t.expert_imbalance * model.moe->topk > model.moe->experts)
    check.fault("training.expert_imbalance", fmt::to_string(t.expert_imbalance),
                fmt::format("is more than model.moe.experts / topk = {:.4g}: no expert gets more than every token once",
                            static_cast<double>(model.moe->experts) / model.moe->topk));
  if (!(t.expert_capacity_factor >= 0)) {
    check.fault("training.expert_capacity_factor", fmt::to_string(t.expert_capacity_factor), "must be at least 0");
  }
  if (t.expert_capacity_padding && model.moe && model.moe->topk > 0 &&
      t.expert_capacity_factor * model.moe->topk > model.moe->experts)
    check.fault(
        "training.expert_capacity_factor", fmt::to_string(t.expert_capacity_factor),
        fmt::format("with expert_capacity_padding is more than model.moe.experts / topk = {:.4g}, which every token "
                    "once fills",
                    static_cast<double>(model.moe->experts) / model.moe->topk));
  if (t.expert_capacity_padding && t.expert_capacity_factor == 0)
    check.fault("training.expert_capacity_padding", "true", "needs training.expert_capacity_factor above 0");
  // Megatron-Core's flex dispatcher asserts it. Source: docs/references.md#token-drop
  if (t.expert_capacity_padding && p.moe_dispatcher == MoeDispatcher::deepep)
    check.fault("training.expert_capacity_padding", "true",
                "is not possible with parallel.moe_dispatcher = deepep (allowed: alltoall hybridep)");
  check.at_least("parallel.moe_chunks", p.moe_chunks, 1);
  const bool law = t.expert_routing != ExpertRouting::even;
  if (law && t.expert_imbalance > 1)
    check.fault(
        "training.expert_imbalance", fmt::to_string(t.expert_imbalance),
        fmt::format("follows from training.expert_routing = {} (give one of the two)", to_string(t.expert_routing)));
  if (!t.expert_tokens.empty()) check_expert_tokens(check, model, t);
  if (model.moe) return check_expert_copies(check, *model.moe, p, t);
  const auto needs_experts = [&](bool set, const char* key, std::string value) {
    if (set) check.fault(key, std::move(value), "needs a model with experts");
  };
  needs_experts(p.moe_dispatcher != MoeDispatcher::alltoall, "parallel.moe_dispatcher", to_string(p.moe_dispatcher));
  needs_experts(p.moe_chunks > 1, "parallel.moe_chunks", fmt::to_string(p.moe_chunks));
  needs_experts(p.moe_shared_overlap, "parallel.moe_shared_overlap", "true");
  needs_experts(t.moe_dispatch_dtype != Precision::bf16, "training.moe_dispatch_dtype",
                to_string(t.moe_dispatch_dtype));
  needs_experts(law, "training.expert_routing", to_string(t.expert_routing));
  needs_experts(t.expert_imbalance > 1, "training.expert_imbalance", fmt::to_string(t.expert_imbalance));
  needs_experts(t.expert_capacity_factor > 0, "training.expert_capacity_factor",
                fmt::to_string(t.expert_capacity_factor));
  needs_experts(t.fused_experts, "training.fused_experts", "true");
  needs_experts(t.redundant_experts != 0, "training.redundant_experts", fmt::to_string(t.redundant_experts));
  needs_experts(t.expert_placement_nodes != 1, "training.expert_placement_nodes",
                fmt::to_string(t.expert_placement_nodes));
  needs_experts(t.expert_rebalance_steps != 0, "training.expert_rebalance_steps",
                fmt::to_string(t.expert_rebalance_steps));
  needs_experts(t.expert_drift_steps != 0, "training.expert_drift_steps", fmt::to_string(t.expert_drift_steps));
}

}  // namespace tracecast
