#include "sim/plan/training_checks.hpp"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "sim/plan/activations.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/precision.hpp"

namespace tracecast {
namespace {

/// Upper limits of sizes. With those of degrees (layout_checks.cpp) they keep products within 64 bits.
constexpr std::int64_t kMaxTokens = 1 << 28;  ///< of one micro-batch
constexpr std::int64_t kMaxBatch = 1 << 30;

void check_positions(PlanCheck& check, const Model& model, const Training& t) {
  if (model.position != Position::learned || t.seq_length <= model.max_position_embeddings) return;
  check.fault("training.seq_length", fmt::to_string(t.seq_length),
              fmt::format("is longer than model.max_position_embeddings = {}", model.max_position_embeddings));
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
  if (t.fp8_scaling != Fp8Scaling::delayed && (t.dtype != Precision::fp8 || t.row_scales))
    check.fault("training.fp8_scaling", to_string(t.fp8_scaling),
                fmt::format("needs {}", t.row_scales ? "training.row_scales = false: rows have scales of their own"
                                                     : fmt::format("training.dtype fp8, not {}", to_string(t.dtype))));
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

}  // namespace

bool check_sizes(PlanCheck& check, const Training& t) {
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

void check_training(PlanCheck& check, const Model& model, const Training& t) {
  if (t.recompute == Recompute::selective_op && !t.flash_attention)
    check.fault("training.recompute", "selective_op", "keeps the result of fused attention (needs flash_attention)");
  check_positions(check, model, t);
  check_precision(check, model, t);
  check_fine_tuning(check, model, t);
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

void check_documents(PlanCheck& check, const Model& model, const Parallel& p, const Training& t) {
  if (!t.documents) return;
  const Documents& d = *t.documents;
  if (d.packing == Packing::dynamic_cp) check_dynamic_context(check, model, p, t);
  const bool has_mean = d.law == LengthLaw::fixed || d.law == LengthLaw::lognormal;
  if (has_mean && d.mean < 1)
    check.fault("training.documents.mean", fmt::to_string(d.mean),
                "must be at least 1 (or give a file, or law histogram)");
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

std::string less_than_a_step(const Training& t, std::int64_t tokens) {
  const double step = static_cast<double>(t.seq_length) * static_cast<double>(t.global_batch_size);
  if (tokens <= 0 || t.dataset_samples > 0 || static_cast<double>(tokens) >= step) return "";
  return fmt::format("is less than a step, which has {:.0f} tokens (as counts: 2T, 300B, 50M)", step);
}

}  // namespace tracecast
