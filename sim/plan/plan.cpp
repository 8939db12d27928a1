#include "sim/plan/plan.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/integers.hpp"
#include "sim/model/scaling.hpp"
#include "sim/plan/activations.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/optimizer_matrices.hpp"
#include "sim/plan/plan_check.hpp"
#include "sim/plan/precision.hpp"
#include "sim/plan/sharding.hpp"
#include "sim/plan/stages.hpp"

namespace tracecast {
namespace {

/// Upper limits of sizes. With that of degrees they keep products within 64 bits.
constexpr std::int64_t kMaxReplicas = 1 << 20;
constexpr std::int64_t kMaxTokens = 1 << 28;  ///< of one micro-batch
constexpr std::int64_t kMaxBatch = 1 << 30;

std::string product_text(const Parallel& p) { return fmt::format("tp {} x cp {} x pp {}", p.tp, p.cp, p.pp); }

/// Degrees are positive, and small enough to be multiplied.
bool check_degrees(PlanCheck& check, const Parallel& p) {
  bool good = true;
  const auto degree = [&](const char* key, int value, int minimum, std::int64_t maximum = kMaxDegree) {
    good = check.at_least(key, value, minimum) && check.at_most(key, value, maximum) && good;
  };
  degree("parallel.tp", p.tp, 1);
  degree("parallel.pp", p.pp, 1);
  degree("parallel.cp", p.cp, 1);
  degree("parallel.dp", p.dp, 0, kMaxReplicas);
  degree("parallel.ep", p.ep, 1);
  degree("parallel.etp", p.etp, 0);
  degree("parallel.vpp", p.vpp, 1);
  degree("parallel.shard_group", p.shard_group, 0, kMaxReplicas);
  return good;
}

bool check_training(PlanCheck& check, const Training& t) {
  bool good = check.at_least("training.seq_length", t.seq_length, 1);
  good = check.at_most("training.seq_length", t.seq_length, kMaxTokens) && good;
  good = check.at_least("training.micro_batch_size", t.micro_batch_size, 1) && good;
  good = check.at_least("training.global_batch_size", t.global_batch_size, 1) && good;
  good = check.at_most("training.global_batch_size", t.global_batch_size, kMaxBatch) && good;
  check.at_least("training.recompute_num_layers", t.recompute_num_layers, 0);
  check.at_least("training.offload_layers", t.offload_layers, 0);
  if (t.offload_layers > 0 && !t.offload_activations)
    check.fault("training.offload_layers", fmt::to_string(t.offload_layers),
                "needs training.offload_activations = true");
  check.names<RecomputeModule>("training.recompute_modules", t.recompute_modules);
  check.names<GraphModule>("training.cuda_graph_modules", t.cuda_graph_modules);
  check_low_precision_activations(check, t);
  check.at_least("training.train_tokens", t.train_tokens, 0);
  check.at_least("training.critical_batch_tokens", t.critical_batch_tokens, 0);
  check.at_least("training.dataset_samples", t.dataset_samples, 0);
  check.at_least("training.epochs", t.epochs, 1);
  if (t.epochs != 1 && t.dataset_samples == 0)
    check.fault("training.epochs", fmt::to_string(t.epochs), "needs training.dataset_samples");
  if (!(t.loss_mask_fraction > 0 && t.loss_mask_fraction <= 1)) {
    check.fault("training.loss_mask_fraction", fmt::to_string(t.loss_mask_fraction), "must be above 0 and at most 1");
  }
  if (!(t.reserved_memory_gib >= 0 && t.reserved_memory_gib <= 1e6)) {
    check.fault("training.reserved_memory_gib", fmt::to_string(t.reserved_memory_gib),
                "must be between 0 and a million");
  }
  if (good && t.micro_batch_size > kMaxTokens / t.seq_length) {
    check.fault("training.micro_batch_size", fmt::to_string(t.micro_batch_size),
                fmt::format("makes micro-batches of more than {} tokens", kMaxTokens));
    good = false;
  }
  return good;
}

void check_precision(PlanCheck& check, const Model& model, const Training& t) {
  check.names<LinearPart>("training.bf16_modules", t.bf16_modules);
  check.at_least("training.bf16_layers_start", t.bf16_layers_start, 0);
  check.at_least("training.bf16_layers_end", t.bf16_layers_end, 0);
  if (std::int64_t{t.bf16_layers_start} + t.bf16_layers_end > model.layers() + model.mtp_layers) {
    check.fault("training.bf16_layers_start", fmt::to_string(t.bf16_layers_start),
                fmt::format("and bf16_layers_end = {} are more than the {} layers", t.bf16_layers_end,
                            model.layers() + model.mtp_layers));
  }
  if (t.fp8_param_gather && !is_narrow(t.dtype)) {
    check.fault("training.fp8_param_gather", "true",
                fmt::format("needs an 8- or 4-bit training.dtype, not {}", to_string(t.dtype)));
  }
  if (t.row_scales && t.dtype != Precision::fp8)
    check.fault("training.row_scales", "true", fmt::format("needs training.dtype fp8, not {}", to_string(t.dtype)));
  if (t.fp8_output_layer && !is_narrow(t.dtype))
    check.fault("training.fp8_output_layer", "true",
                fmt::format("needs an 8- or 4-bit training.dtype, not {}", to_string(t.dtype)));
  if (t.fp8_attention && t.dtype != Precision::fp8 && t.dtype != Precision::mxfp8) {
    check.fault("training.fp8_attention", "true",
                fmt::format("needs a training.dtype of fp8 or mxfp8, not {}", to_string(t.dtype)));
  }
  if (t.fp8_attention && (!t.flash_attention || model.sparse_attention)) {
    check.fault("training.fp8_attention", "true",
                fmt::format("needs {}", model.sparse_attention ? "a model without sparse_attention"
                                                               : "training.flash_attention = true"));
  }
  if (t.fused_norms && !t.unfused_elementwise)
    check.fault("training.fused_norms", "true", "needs training.unfused_elementwise = true: otherwise norms are fused");
  if (t.fused_rope && !t.unfused_elementwise)
    check.fault("training.fused_rope", "true", "needs training.unfused_elementwise = true: otherwise RoPE is fused");
  if (t.fused_experts && model.moe && !is_narrow(t.dtype)) {
    check.fault("training.fused_experts", "true",
                fmt::format("needs an 8- or 4-bit training.dtype, not {}", to_string(t.dtype)));
  }
}

void check_fine_tuning(PlanCheck& check, const Model& model, const Training& t) {
  check.names<LoraTarget>("training.lora_targets", t.lora_targets);
  check.at_least("training.lora_rank", t.lora_rank, 0);
  check.at_most("training.lora_rank", t.lora_rank, model.hidden_size);
  if (!(t.frozen_fraction >= 0 && t.frozen_fraction < 1)) {
    check.fault("training.frozen_fraction", fmt::to_string(t.frozen_fraction), "must be at least 0 and below 1");
  }
}

/// The encoder's result would have to travel with the decoder's activations through the pipeline.
void check_encoder(PlanCheck& check, const Model& model, const Parallel& p) {
  if (model.encoder_layers == 0) return;
  if (p.pp > 1) {
    check.fault("parallel.pp", fmt::to_string(p.pp), "cuts an encoder-decoder model into stages (allowed: 1)");
  }
}

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

void check_routing(PlanCheck& check, const Model& model, const Parallel& p, const Training& t) {
  if (!(t.expert_imbalance >= 1)) {
    check.fault("training.expert_imbalance", fmt::to_string(t.expert_imbalance), "must be at least 1");
  }
  if (!(t.expert_capacity_factor >= 0)) {
    check.fault("training.expert_capacity_factor", fmt::to_string(t.expert_capacity_factor), "must be at least 0");
  }
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

/// Fills in dp, or checks it: tp cp pp dp is the number of ranks.
bool fill_dp(PlanCheck& check, Parallel& p, int world_size) {
  const std::int64_t model_ranks = std::int64_t{p.tp} * p.cp * p.pp;
  if (p.dp == 0) {
    if (world_size % model_ranks == 0) {
      p.dp = static_cast<int>(world_size / model_ranks);
      return true;
    }
    check.fault("parallel", "",
                fmt::format("{} = {} ranks do not divide the {} of the cluster (allowed: a multiple of {})",
                            product_text(p), model_ranks, world_size, model_ranks));
    return false;
  }
  if (model_ranks * p.dp == world_size) return true;
  const std::string needed = world_size % model_ranks == 0
                                 ? fmt::format("needed here: dp {}", world_size / model_ranks)
                                 : fmt::format("no dp fits: {} is not a multiple of {}", world_size, model_ranks);
  check.fault("parallel.dp", fmt::to_string(p.dp),
              fmt::format("{} x dp {} make {} ranks, not the {} of the cluster ({})", product_text(p), p.dp,
                          model_ranks * p.dp, world_size, needed));
  return false;
}

void check_vocabulary(PlanCheck& check, const Model& model, int tp) {
  if (model.vocab_size % tp == 0) return;
  // Megatron-LM: --make-vocab-size-divisible-by 128, times tp.
  const std::int64_t unit = std::int64_t{128} * tp;
  const std::int64_t padded = round_up(model.vocab_size, unit);
  check.fault("parallel.tp", fmt::to_string(tp),
              fmt::format("does not divide model.vocab_size = {} (allowed: {}; or pad the vocabulary to {})",
                          model.vocab_size, divisors(model.vocab_size), padded));
}

/// Layers that are gathered one by one are those of plain attention and feed-forward.
void check_gathered_layers(PlanCheck& check, const Model& model, const Parallel& p, const Training& t) {
  if (p.tp_split != TensorSplit::gather) return;
  const auto forbid = [&](bool present, const char* why) {
    if (present) check.fault("parallel.tp_split", to_string(p.tp_split), why);
  };
  forbid(p.sequence_parallel, "gathers whole results, which sequence_parallel divides (allowed: column_row)");
  forbid(model.moe.has_value(), "is not for models with experts (allowed: column_row)");
  forbid(model.latent_attention.has_value(), "is not for latent attention (allowed: column_row)");
  forbid(model.encoder_layers > 0, "is not for encoder-decoder models (allowed: column_row)");
  forbid(t.recompute == Recompute::selective_op, "has no op-level recomputation (allowed: column_row)");
  forbid(!model.layer_pattern.empty(), "is not for models with a layer_pattern (allowed: column_row)");
  forbid(model.attention_output_gate, "is not for gated attention (allowed: column_row)");
}

bool has_attention(const Model& model) {
  for (int layer = 0; layer < model.layers(); ++layer) {
    if (model.mixer(layer) == Mixer::attention) return true;
  }
  return false;
}

/// Heads of linear attention are divided by tp, and with context parallelism by cp too.
void check_linear_attention(PlanCheck& check, const Model& model, const Parallel& p, const Training& t) {
  if (!model.layer_pattern.empty()) {
    if (t.recompute == Recompute::selective_op)
      check.fault("training.recompute", to_string(t.recompute), "is not for models with a layer_pattern");
    if (t.lora_rank > 0)
      check.fault("training.lora_rank", fmt::to_string(t.lora_rank),
                  "is not for models with a layer_pattern (allowed: 0)");
  }
  if (!model.linear_attention) return;
  const LinearAttention& linear = *model.linear_attention;
  check.divides("parallel.tp", p.tp, "model.linear_attention.key_heads", linear.key_heads);
  if (p.cp == 1 || linear.key_heads % p.tp != 0) return;
  const int heads = linear.heads / p.tp;
  const int key_heads = linear.key_heads / p.tp;
  if (heads % p.cp != 0) {
    check.fault("parallel.cp", fmt::to_string(p.cp),
                fmt::format("does not divide the {} heads of linear attention of a tensor-parallel rank (allowed: {})",
                            heads, divisors(heads)));
  } else if (key_heads % p.cp != 0 && p.cp % key_heads != 0) {
    check.fault(
        "parallel.cp", fmt::to_string(p.cp),
        fmt::format("is neither a divisor nor a multiple of the {} key heads of a tensor-parallel rank", key_heads));
  }
}

bool has_dense_layers(const Model& model) {
  for (int layer = 0; layer < model.layers(); ++layer) {
    if (model.has_feed_forward(layer) && !model.is_moe_layer(layer)) return true;
  }
  return false;
}

void check_tensor_parallel(PlanCheck& check, const Model& model, const Parallel& p, const Training& t) {
  const bool attends = has_attention(model);
  if (attends) check.divides("parallel.tp", p.tp, "model.num_attention_heads", model.num_attention_heads);
  // Fewer key/value heads than ranks: each head is kept by several ranks.
  if (attends && !model.latent_attention && model.num_query_groups % p.tp != 0 && p.tp % model.num_query_groups != 0) {
    check.fault(
        "parallel.tp", fmt::to_string(p.tp),
        fmt::format("is neither a divisor nor a multiple of model.num_query_groups = {}", model.num_query_groups));
  }
  check.divides("parallel.tp", p.tp, "model.hidden_size", model.hidden_size);
  if (has_dense_layers(model)) check.divides("parallel.tp", p.tp, "model.ffn_hidden_size", model.ffn_hidden_size);
  check_vocabulary(check, model, p.tp);
  if (p.sequence_parallel && p.tp == 1) {
    check.fault("parallel.sequence_parallel", "true", "needs tensor parallelism (parallel.tp above 1)");
  }
  if (p.sequence_parallel && p.tp > 1 && t.seq_length / p.cp % p.tp != 0) {
    check.fault("training.seq_length", fmt::to_string(t.seq_length),
                fmt::format("is not a multiple of cp {} x tp {}, as sequence parallelism needs", p.cp, p.tp));
  }
}

void check_expert_parallel(PlanCheck& check, const Model& model, const Parallel& p) {
  if (!model.moe) {
    if (p.ep > 1) check.fault("parallel.ep", fmt::to_string(p.ep), "needs a model with experts (allowed: 1)");
    if (p.etp > 1 && p.etp != p.tp)
      check.fault("parallel.etp", fmt::to_string(p.etp), "needs a model with experts (allowed: 1, or as parallel.tp)");
    return;
  }
  check.divides("parallel.ep", p.ep, "model.moe.experts", model.moe->experts);
  check.divides("parallel.etp", p.etp, "model.moe.ffn_hidden", model.moe->ffn_hidden);
  if (model.moe->shared_ffn_hidden > 0) {
    check.divides("parallel.tp", p.tp, "model.moe.shared_ffn_hidden", model.moe->shared_ffn_hidden);
  }
  const std::int64_t ranks = std::int64_t{p.tp} * p.cp * p.dp;
  const std::int64_t expert_ranks = std::int64_t{p.ep} * p.etp;
  if (ranks % expert_ranks != 0) {
    check.fault("parallel.ep", fmt::to_string(p.ep),
                fmt::format("ep {} x etp {} = {} does not divide tp x cp x dp = {} (allowed products: {})", p.ep, p.etp,
                            expert_ranks, ranks, divisors(ranks)));
  } else if (p.shard_group > 0 && std::int64_t{p.tp} * p.shard_group % expert_ranks != 0) {
    check.fault(
        "parallel.shard_group", fmt::to_string(p.shard_group),
        fmt::format("gives a copy of the model tp {} x shard_group {} = {} ranks, not a multiple of the ep {} x etp {} "
                    "= {} that hold all experts",
                    p.tp, p.shard_group, p.tp * p.shard_group, p.ep, p.etp, expert_ranks));
  }
}

void check_context_parallel(PlanCheck& check, const Model& model, const Parallel& p, const Training& t) {
  if (p.cp == 1) return;
  const bool ring = p.cp_comm_type == ContextExchange::p2p;
  // The ring balances the causal mask by giving every rank an early and a late piece.
  const int pieces = ring ? 2 * p.cp : p.cp;
  if (t.documents && t.seq_length % (2 * p.cp) != 0) {
    check.fault("training.seq_length", fmt::to_string(t.seq_length),
                fmt::format("is not a multiple of 2 cp = {}, by which documents are divided", 2 * p.cp));
  } else if (t.seq_length % pieces != 0) {
    check.fault("training.seq_length", fmt::to_string(t.seq_length),
                fmt::format("is not a multiple of {} = {}", ring ? "2 cp" : "cp", pieces));
  }
  if (p.cp_comm_type == ContextExchange::a2a && has_attention(model) && model.num_attention_heads / p.tp % p.cp != 0) {
    check.fault("parallel.cp", fmt::to_string(p.cp),
                fmt::format("does not divide the {} heads of a tensor-parallel rank, as a2a needs (allowed: {})",
                            model.num_attention_heads / p.tp, divisors(model.num_attention_heads / p.tp)));
  }
}

void check_sparse_attention(PlanCheck& check, const Model& model, const Parallel& p, const Training& t) {
  if (!model.sparse_attention) return;
  if (p.cp > 1 && p.cp_comm_type != ContextExchange::all_gather)
    check.fault(
        "parallel.cp_comm_type", to_string(p.cp_comm_type),
        "does not bring every key to the queries that sparse attention may choose it for (allowed: all_gather)");
  if (t.lora_rank > 0)
    check.fault("training.lora_rank", fmt::to_string(t.lora_rank), "is not for sparse attention (allowed: 0)");
}

/// A step graph of more passes through stages would not fit the memory of a usual machine (some 30 kB each).
constexpr std::int64_t kMaxPasses = 1 << 20;

void check_batch(PlanCheck& check, const Parallel& p, const Training& t) {
  const std::int64_t unit = t.micro_batch_size * p.dp;
  const std::int64_t stages = std::max<std::int64_t>(1, std::int64_t{p.pp} * p.vpp);
  if (t.global_batch_size / unit > kMaxPasses / stages) {
    check.fault("training.global_batch_size", fmt::to_string(t.global_batch_size),
                fmt::format("is {} micro-batches on {} stages (allowed: at most {} of both multiplied)",
                            t.global_batch_size / unit, stages, kMaxPasses));
    return;
  }
  if (t.global_batch_size % unit == 0) return;
  const std::int64_t below = t.global_batch_size / unit * unit;
  const std::string nearest = below > 0 ? fmt::format("{} or {}", below, below + unit) : fmt::to_string(unit);
  check.fault("training.global_batch_size", fmt::to_string(t.global_batch_size),
              fmt::format("is not a multiple of micro_batch_size {} x dp {} = {} (nearest: {})", t.micro_batch_size,
                          p.dp, unit, nearest));
}

void check_positions(PlanCheck& check, const Model& model, const Training& t) {
  if (model.position != Position::learned || t.seq_length <= model.max_position_embeddings) return;
  check.fault("training.seq_length", fmt::to_string(t.seq_length),
              fmt::format("is longer than model.max_position_embeddings = {}", model.max_position_embeddings));
}

/// Weights by length: the keys are tokens.
void check_histogram(PlanCheck& check, const Documents& documents) {
  const char* const key = "training.documents.histogram";
  if (documents.law != LengthLaw::histogram) {
    if (!documents.histogram.empty()) check.fault(key, "", "needs training.documents.law = histogram");
    return;
  }
  double sum = 0;
  for (const auto& [length, weight] : documents.histogram) {
    const bool number = !length.empty() && length.size() <= 9 && length.front() != '0' &&
                        length.find_first_not_of("0123456789") == std::string::npos;
    if (!number)
      check.fault(fmt::format("{}.{}", key, length), fmt::format("{}", weight),
                  "is not a length in tokens (allowed: 1 to 999999999)");
    sum += weight;
  }
  if (!(sum > 0)) check.fault(key, "", "has no weight above 0");
}

/// Bins of a power of two of ranks, each with a part of a sequence.
void check_dynamic_context(PlanCheck& check, const Model& model, const Parallel& p, const Training& t) {
  constexpr int kMost = 32;
  if (!t.documents->mask)
    check.fault("training.documents.mask", "false", "is not for packing = dynamic_cp (allowed: true)");
  if (p.cp > kMost || !std::has_single_bit(static_cast<unsigned>(p.cp)))
    check.fault("parallel.cp", fmt::to_string(p.cp),
                "is not for documents.packing = dynamic_cp (allowed: 1 2 4 8 16 32)");
  if (t.micro_batch_size != 1)
    check.fault(
        "training.micro_batch_size", fmt::to_string(t.micro_batch_size),
        "is not for documents.packing = dynamic_cp, whose micro-batches are parts of one sequence (allowed: 1)");
  if (model.linear_attention)
    check.fault("training.documents.packing", "dynamic_cp",
                "is not for models with linear attention, whose state passes through all ranks");
}

void check_documents(PlanCheck& check, const Model& model, const Parallel& p, const Training& t) {
  if (!t.documents) return;
  const Documents& d = *t.documents;
  if (d.packing == Packing::dynamic_cp) check_dynamic_context(check, model, p, t);
  const bool has_mean = d.law == LengthLaw::fixed || d.law == LengthLaw::lognormal;
  if (has_mean) check.at_least("training.documents.mean", d.mean, 1);
  if (!has_mean && d.mean != 0)
    check.fault("training.documents.mean", fmt::to_string(d.mean),
                fmt::format("does not belong to the law {} (allowed: fixed lognormal)", to_string(d.law)));
  const std::int64_t longest = d.longest > 0 ? d.longest : t.seq_length;
  if (d.shortest > longest)
    check.fault("training.documents.shortest", fmt::to_string(d.shortest),
                fmt::format("is above the longest document, {} tokens", longest));
  check_histogram(check, d);
  if (d.mask && !t.flash_attention)
    check.fault("training.documents.mask", "true", "needs flash_attention: unfused scores are of whole sequences");
  if (model.sparse_attention || model.encoder_layers > 0)
    check.fault("training.documents", "", "are not for models with sparse attention or an encoder");
  constexpr std::int64_t kMostSequences = 1 << 22;
  if (t.global_batch_size > kMostSequences / std::max(1, d.steps))
    check.fault("training.documents.steps", fmt::to_string(d.steps),
                fmt::format("makes more than {} sequences in all", kMostSequences));
}

/// An axis that the order leaves out must have a single rank. Experts are divided over tensor ranks, then over
/// expert-parallel ranks, then over data-parallel ranks (groups.hpp).
void check_rank_order(PlanCheck& check, const Parallel& p) {
  const auto place = [&](std::string_view axis) { return ("-" + p.rank_order + "-").find(fmt::format("-{}-", axis)); };
  const std::array<std::pair<const char*, int>, 4> sizes{{{"tp", p.tp}, {"cp", p.cp}, {"dp", p.dp}, {"pp", p.pp}}};
  for (const auto& [axis, size] : sizes)
    if (size > 1 && place(axis) == std::string::npos)
      check.fault("parallel.rank_order", p.rank_order, fmt::format("leaves out {}, which has {} ranks", axis, size));
  if (p.ep == 1 || place("ep") == std::string::npos) return;
  const bool before_tensor = p.etp > 1 && place("tp") != std::string::npos && place("ep") < place("tp");
  const bool behind_data =
      std::int64_t{p.ep} * p.etp < std::int64_t{p.tp} * p.cp * p.dp && p.dp > 1 && place("ep") > place("dp");
  if (before_tensor || behind_data)
    check.fault(
        "parallel.rank_order", p.rank_order,
        fmt::format("puts ep {} (allowed: ep behind tp and before dp)", before_tensor ? "before tp" : "behind dp"));
}

void check_pipeline(PlanCheck& check, const Parallel& p) {
  if (p.vpp > 1 && p.pp == 1)
    check.fault("parallel.vpp", fmt::to_string(p.vpp), "needs a pipeline (parallel.pp above 1)");
}

void fill_defaults(Parallel& p) {
  if (p.etp == 0) p.etp = p.tp;
  if (p.pp_schedule.empty()) p.pp_schedule = default_schedule(p.vpp);
}

}  // namespace

PackedSteps packed_steps(const Plan& plan) {
  const Parallel& p = plan.parallel;
  const Training& t = plan.training;
  if (t.documents->packing == Packing::dynamic_cp)
    return pack_bins(*t.documents, t.seq_length, t.global_batch_size, p.cp, p.dp * p.cp);
  return pack_steps(*t.documents, t.seq_length, t.global_batch_size, p.cp > 1 ? 2 * p.cp : 1);
}

std::int32_t Plan::first_batch(const Coordinates& at) const {
  if (!batches_vary()) return -1;
  const int owner = context_varies() ? at[Axis::dp] * parallel.cp + at[Axis::cp] : at[Axis::dp];
  return owner * num_microbatches;
}

std::int64_t Plan::tokens() const { return training.micro_batch_size * training.seq_length / parallel.cp; }

int Plan::gradient_group() const { return parallel.dp * parallel.cp; }

bool Plan::gathers_again(bool root) const {
  return parallel.reshard_after_forward && !stays_gathered_in_pipeline(parallel) && (!root || parallel.reshard_root);
}

int Plan::expert_token_parts() const {
  const int etp = parallel.etp > 0 ? parallel.etp : parallel.tp;
  return parallel.sequence_parallel ? etp : std::max(1, etp / parallel.tp);
}

int Plan::shard_group() const { return parallel.shard_group > 0 ? parallel.shard_group : gradient_group(); }

std::int64_t steps_of_epoch(const Training& training) {
  return ceil_div(training.dataset_samples, training.global_batch_size);
}

double tokens_to_train(const Training& training) {
  const double batch = static_cast<double>(training.global_batch_size) * static_cast<double>(training.seq_length);
  return tokens_with_batch(static_cast<double>(training.train_tokens), batch,
                           static_cast<double>(training.critical_batch_tokens));
}

Result<Plan> make_plan(const Model& model, const Parallel& parallel, const Training& training, int world_size) {
  TRACECAST_ASSERT(world_size >= 1, "a cluster has at least one rank");
  Plan plan;
  plan.parallel = parallel;
  plan.training = training;
  plan.world_size = world_size;
  Parallel& p = plan.parallel;

  PlanCheck check;
  const bool degrees = check_degrees(check, p);
  const bool sizes = check_training(check, training);
  if (!degrees || !sizes) return tl::unexpected(check.take());
  fill_defaults(p);
  apply_strategy(check, p);

  const bool dp = fill_dp(check, p, world_size);
  const auto order = parse_rank_order(p.rank_order);
  if (!order) check.append(order.error());
  check_tensor_parallel(check, model, p, training);
  check_gathered_layers(check, model, p, training);
  check_linear_attention(check, model, p, training);
  check_context_parallel(check, model, p, training);
  check_sparse_attention(check, model, p, training);
  check_pipeline(check, p);
  check_positions(check, model, training);
  check_precision(check, model, training);
  check_fine_tuning(check, model, training);
  check_encoder(check, model, p);
  check_routing(check, model, p, training);
  if (dp) {
    check_expert_parallel(check, model, p);
    check_sharding(check, p);
    check_data_parallel(check, p);
    check_offloading(check, p, training);
    check_optimizer(check, p, training);
    check_batch(check, p, training);
    check_documents(check, model, p, training);
    if (order) check_rank_order(check, p);
  }
  auto stages = cut_stages(model, p);
  if (!stages) check.append(stages.error());
  if (!check.passed()) return tl::unexpected(check.take());

  plan.stages = std::move(*stages);
  plan.grid = RankGrid({p.tp, p.cp, p.dp, p.pp}, *order);
  if (model.moe) plan.expert_load = expert_load(*model.moe, p, training);
  plan.num_microbatches = static_cast<int>(training.global_batch_size / (training.micro_batch_size * p.dp));
  if (training.documents) plan.packed = std::make_shared<const PackedSteps>(packed_steps(plan));
  return plan;
}

}  // namespace tracecast
