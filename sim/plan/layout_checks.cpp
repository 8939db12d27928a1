#include "sim/plan/layout_checks.hpp"

#include <array>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/base/integers.hpp"

namespace tracecast {

bool has_attention(const Model& model) {
  for (int layer = 0; layer < model.layers(); ++layer) {
    if (model.mixer(layer) == Mixer::attention) return true;
  }
  return false;
}

namespace {

/// Upper limits of degrees. With those of sizes (training_checks.cpp) they keep products within 64 bits.
constexpr std::int64_t kMaxReplicas = 1 << 20;

std::string product_text(const Parallel& p) { return fmt::format("tp {} x cp {} x pp {}", p.tp, p.cp, p.pp); }

void check_vocabulary(PlanCheck& check, const Model& model, int tp) {
  if (model.vocab_size % tp == 0) return;
  // Megatron-LM: --make-vocab-size-divisible-by 128, times tp.
  const std::int64_t unit = std::int64_t{128} * tp;
  const std::int64_t padded = round_up(model.vocab_size, unit);
  check.fault("parallel.tp", fmt::to_string(tp),
              fmt::format("does not divide model.vocab_size = {} (allowed: {}; or pad the vocabulary to {})",
                          model.vocab_size, divisors(model.vocab_size), padded));
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

void check_pipeline(PlanCheck& check, const Parallel& p) {
  if (p.vpp > 1 && p.pp == 1)
    check.fault("parallel.vpp", fmt::to_string(p.vpp), "needs a pipeline (parallel.pp above 1)");
}

}  // namespace

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

/// Fills in dp, or checks it: tp cp pp dp is the number of ranks.
bool fill_dp(PlanCheck& check, Parallel& p, int world_size) {
  const std::int64_t model_ranks = p.model_ranks();
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

void check_layout(PlanCheck& check, const Model& model, const Parallel& p, const Training& t) {
  check_tensor_parallel(check, model, p, t);
  check_gathered_layers(check, model, p, t);
  check_linear_attention(check, model, p, t);
  check_context_parallel(check, model, p, t);
  check_sparse_attention(check, model, p, t);
  check_pipeline(check, p);
}

/// The encoder's result would have to travel with the decoder's activations through the pipeline.
void check_encoder(PlanCheck& check, const Model& model, const Parallel& p) {
  if (model.encoder_layers == 0) return;
  if (p.pp > 1) {
    check.fault("parallel.pp", fmt::to_string(p.pp), "cuts an encoder-decoder model into stages (allowed: 1)");
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

}  // namespace tracecast
