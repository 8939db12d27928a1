#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/cost/attention.hpp"
#include "sim/cost/rated_precision.hpp"
#include "tools/accuracy/rows/gpu_names.hpp"
#include "tools/accuracy/rows/row_part.hpp"

namespace tracecast::accuracy {
namespace {

std::string allowed_precisions() {
  std::string names;
  for (const auto& each : EnumNames<Precision>::table) names += fmt::format(" {}", each.name);
  return names;
}

class TrainingReader : RowPart {
 public:
  explicit TrainingReader(RowReading& row) : RowPart(row), row_(row) {}

  void read() {
    Scenario& s = result_.scenario;
    Training& t = s.training;
    if (stack_ != nullptr) t = training_of(*stack_);
    t.seq_length = fields_.required_size("seq_len");
    t.global_batch_size = global_batch();
    read_precision(t);
    const int dp = data_parallel_ranks();
    result_.steps_overlap = stack_ != nullptr && stack_->steps_overlap && dp == 1;
    read_micro_batch(t, dp);
    t.flash_attention = flag("flash_attention", t.flash_attention && !lacks_fused_attention());
    if (runs("pax") && t.flash_attention && text("precision_detail").find("TransformerEngine") == std::string::npos) {
      t.flash_attention = false;
      assume("no fused attention, as in JAX-Toolbox without Transformer Engine");
    }
    if (t.flash_attention) read_attention_kernel(t);
    t.compiled = is_compiled(t.compiled);
    read_narrow_recipe(t, read_row_graphs(row_));
    t.offload_layers = fields_.small_count("cpu_offload_layers", number_after(text("notes"), "activation offload of "));
    t.offload_activations =
        t.offload_layers > 0 || noted({"activation offload", "offload of activations"}).value_or(false);
    if (mentions("Muon")) use_muon();
    read_offloading(t);
    read_routing(t);
    read_row_recompute(row_);
    round_batch(t, dp);
  }

 private:
  /// Without what the stack does only with experts or latent attention, if the model has none.
  Training training_of(const Stack& stack) const {
    Training t = stack.training;
    const Model& model = result_.scenario.model;
    if (!model.moe) t.moe_dispatch_dtype = Precision::bf16;
    if (!model.latent_attention) std::erase(t.recompute_modules, "mla_up");
    return t;
  }

  /// Megatron-Bridge's recipes of experts in MXFP8 that capture whole steps, of release 26.06 and later: experts in one kernel
  /// (docs/references.md#fused-experts), attention and the output layer in 8 bits (#fp8-attention, #fp8-output-layer).
  void read_narrow_recipe(Training& t, bool captures_step) {
    const Scenario& s = result_.scenario;
    const bool whole_step = captures_step && (!is_bridge() || is_bridge_since(2026.4));
    const bool mxfp8 = s.model.moe && t.dtype == Precision::mxfp8;
    t.fused_experts = mxfp8 && (whole_step || mentions("fused grouped MLP"));
    const bool gpt_oss = is_of("gpt-oss");
    const bool recipe = t.fused_experts && !(is_deepseek() && gpu_name(text("gpu")).part == "GB200");
    t.fp8_attention = (recipe || says_fp8_attention(t)) && t.flash_attention &&
                      has_attention_in(s.profile, t.attention_kernel, t.dtype);
    t.fp8_output_layer = mxfp8 && whole_step && is_bridge_since(2026.4) && (gpt_oss || (is_deepseek() && has_racks()));
    // Transformer Engine 2.12 multiplies unpadded tokens: docs/references.md#expert-padding
    if (is_bridge_since(2026.25)) t.padded_experts = false;
    if (is_bridge_since(2026.4) && mxfp8) t.separate_expert_casts = false;  // docs/references.md#expert-casts
  }

  /// FlashAttention and Transformer Engine need Ampere or later; PyTorch's own attention has a fused kernel for Volta, too.
  /// docs/references.md#volta
  bool lacks_fused_attention() {
    if (reported("flash_attention") || result_.scenario.profile.architecture != "Volta") return false;
    for (const char* own : {"hugging-face", "pytorch-fsdp", "torchtitan", "torchtune"})
      if (runs(own)) return false;
    assume("V100: attention is not fused, since FlashAttention needs Ampere");
    return true;
  }

  /// Said also where the profile has no such kernel.
  bool says_fp8_attention(const Training& t) {
    for (const char* words : {"FP8 attention", "FP8 DPA", "FP8 dot product attention", "FP8 MHA"}) {
      if (!affirms(text("precision_detail"), words) && !mentions(words)) continue;
      if (!is_narrow(t.dtype) || !has_attention_in(result_.scenario.profile, t.attention_kernel, t.dtype))
        assume(fmt::format("attention in 8 bits: the profile has no such kernel for {}", to_string(t.dtype)));
      return is_narrow(t.dtype);
    }
    return false;
  }

  /// The kernel of fused attention that the row names, if the profile has it; else the stack's.
  void read_attention_kernel(Training& t) {
    struct Named {
      const char *words, *kernel;
    };
    constexpr Named kNamed[] = {{"FA1", "fa1"},
                                {"FlashAttention-1", "fa1"},
                                {"FA2", "fa2"},
                                {"FlashAttention-2", "fa2"},
                                {"Flash-Attention-2", "fa2"},
                                {"flash-attn 2", "fa2"},
                                {"NVTE_FUSED_ATTN=0", "fa2"},  // Transformer Engine without cuDNN's attention
                                {"FA3", "fa3"},
                                {"FlashAttention-3", "fa3"},
                                {"Flash-Attention-3", "fa3"},
                                {"flash-attn 3", "fa3"},
                                {"cuDNN", "cudnn"},
                                {"Triton", "triton"},
                                {"aiter", "aiter"},
                                {"AOTriton", "aotriton"}};
    const std::vector<std::string> known = attention_kernels(result_.scenario.profile);
    const bool in_column =
        std::ranges::any_of(kNamed, [&](const Named& each) { return affirms(text("flash_attention"), each.words); });
    for (const auto& [words, kernel] : kNamed) {
      // cuDNN and Triton have kernels of many things.
      const bool of_attention = std::string_view(words) != "Triton" && std::string_view(words) != "cuDNN";
      if (in_column ? !affirms(text("flash_attention"), words) : !(of_attention && mentions(words))) continue;
      if (std::ranges::find(known, kernel) == known.end())
        return assume(fmt::format("attention kernel {}: the profile has none, so it is {}", words, known.front()));
      if (known.front() == kernel) return;  // also where cuDNN 8 stands for its time
      if (std::string_view(kernel) == "cudnn" && known.front() == "cudnn8") return;
      t.attention_kernel = kernel;
      return assume(fmt::format("attention kernel {}, as the row says", words));
    }
  }

  /// Megatron-Core's distributed Muon: states of whole matrices, and no quantised parameters. docs/references.md#kimi-recipe
  void use_muon() {
    Scenario& s = result_.scenario;
    s.training.optimizer = OptimizerKind::muon;
    s.training.fp8_param_gather = s.parallel.overlap_param_gather = false;
    assume("Muon: parameters gathered in 16 bits after the step");
  }

  /// Of optimizer states, and with ZeRO-Infinity of parameters, to the host.
  void read_offloading(Training& t) {
    const bool infinity = is_named("ZeRO-Infinity");
    bool offloads = infinity;
    for (const char* words : {"ZeRO-Offload", "offload_optimizer", "optimizer offload", "optimizer CPU offload",
                              "CPU-offloaded optimizer", "optimizer states on the CPU"})
      offloads |= is_named(words);
    if (!offloads || result_.scenario.cluster.node.pcie.bytes_per_second <= 0) return;
    t.offload_optimizer = true;
    t.offload_parameters = infinity && result_.scenario.parallel.zero_stage == 3;
    assume(t.offload_parameters ? "optimizer states and parameters on the host" : "optimizer states on the host");
  }

  /// Balanced unless the row says that the model's own router ran. docs/references.md#expert-routing
  void read_routing(Training& t) {
    if (!result_.scenario.model.moe) return;
    const std::string& routing = text("routing");
    constexpr std::array kBalanced{"forced", "force", "balanced", "uniform", "dropless"};
    constexpr std::array kReal{"real", "natural", "learned", "imbalanced", "unbalanced", "aux loss", "auxiliary loss"};
    const auto says = [&](const char* words) { return affirms(routing, words); };
    const bool forced = says("forced") || says("force");
    const bool real = (!forced && std::ranges::any_of(kReal, says)) ||
                      noted({"real router", "real routing", "natural routing"}).value_or(false) ||
                      text("source").find("real routing") != std::string::npos;
    if (!real && !routing.empty() && std::ranges::none_of(kBalanced, says))
      assume(fmt::format("routing '{}' is not known: experts equally loaded", shortened(routing)));
    if (!real) return;
    t.expert_routing = ExpertRouting::skewed;
    assume(fmt::format("the load of experts not reported: spread {} as in one published pair", t.expert_skew));
  }

  /// "torch.compile", "cuda_graph", or only whether something is compiled: PyTorch's compiler outside Megatron-Core.
  bool is_compiled(bool otherwise) {
    if (affirms(text("compiled"), "CUDA graph")) return otherwise;
    if (const std::optional<bool> plain = truth(text("compiled"))) return *plain && !is_megatron_core();
    return flag("compiled", otherwise);
  }

  /// As reported, else what the other degrees leave.
  int data_parallel_ranks() const {
    const Parallel& p = result_.scenario.parallel;
    return p.dp > 0 ? p.dp : result_.scenario.cluster.world_size / (p.tp * p.pp * p.cp);
  }

  /// As reported, to the nearest sequence (4M tokens are 1,953.1 of 2,048), else micro-batch x micro-batches x dp.
  std::int64_t global_batch() {
    if (const double sequences = fields_.number("global_batch_seqs", 0); sequences != std::trunc(sequences)) {
      assume(fmt::format("global batch of {} sequences: the nearest whole number", sequences));
      return std::max<std::int64_t>(1, std::llround(std::min(sequences, 1e15)));
    }
    const std::int64_t size = fields_.small_count("micro_batch", 0),
                       rounds = fields_.small_count("num_microbatches", 0);
    if (reported("global_batch_seqs") || size == 0 || rounds == 0) return fields_.required_size("global_batch_seqs");
    assume("global batch not reported: micro-batch x micro-batches x dp");
    return size * rounds * data_parallel_ranks();
  }

  /// Data-parallel ranks get equal parts: a batch that is nearly a multiple of them is taken as one.
  void round_batch(Training& t, int dp) {
    constexpr double kNear = 0.05;
    const std::int64_t part = std::max<std::int64_t>(1, t.micro_batch_size) * std::max(1, dp);
    const std::int64_t parts = (t.global_batch_size + part / 2) / part;
    const std::int64_t rounded = std::max<std::int64_t>(1, parts) * part;
    const auto change = static_cast<double>(std::abs(rounded - t.global_batch_size));
    if (rounded == t.global_batch_size || change > kNear * static_cast<double>(t.global_batch_size)) return;
    assume(fmt::format("global batch of {}: {}, so that it is a multiple of micro-batch x dp", t.global_batch_size,
                       rounded));
    t.global_batch_size = rounded;
  }

  /// What words say about precision.
  struct Words {
    const char* words;
    Precision precision;
  };

  /// That of the first words of the table which the text has; empty: it has none.
  template <std::size_t N>
  static std::optional<Precision> said_in(const std::string& said, const Words (&table)[N]) {
    const auto* found = std::ranges::find_if(table, [&](const Words& each) { return affirms(said, each.words); });
    return found == std::end(table) ? std::nullopt : std::optional(found->precision);
  }

  /// The scales of fp8; empty: the text names none, or one per tensor or row. Megatron-Bridge's names are fp8_mx, and fp8_sc for
  /// blocks.
  static std::optional<Precision> scales_in(const std::string& said) {
    constexpr Words kScales[] = {{"mx-fp8", Precision::mxfp8},           {"fp8-mx", Precision::mxfp8},
                                 {"microscaling", Precision::mxfp8},     {"block-wise", Precision::fp8_block},
                                 {"block scal", Precision::fp8_block},   {"per-block", Precision::fp8_block},
                                 {"sub-channel", Precision::fp8_block},  {"1x128", Precision::fp8_block},
                                 {"128x128", Precision::fp8_block},      {"tile-wise", Precision::fp8_block},
                                 {"fine-grained", Precision::fp8_block}, {"DeepSeek-style", Precision::fp8_block}};
    const std::string small = lower_case(said);
    if (has_word(small, "mx")) return Precision::mxfp8;
    return has_word(small, "fp8_sc") ? Precision::fp8_block : said_in(said, kScales);
  }

  /// "bf16", "bfloat16", "bf16-mixed", "FP8 (delayed scaling)"; empty: unknown.
  static std::optional<Precision> precision_of(const std::string& words) {
    std::string name = lower_case(words);
    std::replace(name.begin(), name.end(), '-', '_');
    if (name.empty()) return Precision::bf16;
    if (name == "float32") return Precision::fp32;
    if (name == "16") return Precision::fp16;  // Lightning's
    if (name == "e4m3" || name == "e5m2") return Precision::fp8;
    if (const std::optional<Precision> known = parse_enum<Precision>(name)) return known;
    const auto has = [&](const char* word) { return name.find(word) != std::string::npos; };
    if (has("mixed fp4")) return std::nullopt;
    if (has("fp4")) return Precision::nvfp4;
    if ((has("fp8") && mentioned(name, "fp8") != false) || has("float8"))
      return scales_in(name).value_or(has("block") ? Precision::fp8_block : Precision::fp8);
    if (has("bf16") || has("bfloat16")) return Precision::bf16;
    if (has("fp16") || has("float16") || has("half")) return Precision::fp16;
    if (name == "16_mixed") return Precision::fp16;  // Lightning's
    if ((has_word(name, "amp") || has_word(name, "mixed")) && !has("32"))
      return Precision::bf16;  // said by read_precision
    return std::nullopt;
  }

  void read_precision(Training& t) {
    const std::optional<Precision> precision = precision_of(text("precision"));
    const std::string& detail = text("precision_detail");
    for (const char* column : {"precision", "precision_detail"})
      if (precision.value_or(Precision::fp32) == Precision::fp32 && affirms(text(column), "tf32"))
        return add_error(column, "TF32 is not modelled, and fp32 is without it (allowed:" + allowed_precisions() + ")");
    if (!precision) return add_error("precision", "unknown precision (allowed:" + allowed_precisions() + ")");
    t.dtype = *precision;
    if (t.dtype == Precision::fp8) t.dtype = scales_in(detail).value_or(Precision::fp8);
    if (affirms(text("precision"), "mxfp4")) assume("mxfp4: as nvfp4, which has twice as many scales");
    read_gradients(t, detail);
    for (const char* words : {"fp8 all-gather", "float8 all-gather", "enable_fsdp_float8_all_gather"})  // torchao's
      if (affirms(detail, words) || mentions(words)) t.fp8_param_gather = true;
    const auto by_row = [](const std::string& words) {
      return affirms(words, "row-wise") || affirms(words, "per-row") || affirms(words, "scaling by row");
    };
    t.row_scales = t.dtype == Precision::fp8 && (by_row(detail) || by_row(text("precision")));
    read_scaling(t);
    const std::string said = lower_case(text("precision"));
    if (said.empty()) assume("precision not reported: bf16");
    if (!said.empty() && t.dtype == Precision::bf16 && !contains(said, "bf16") && !contains(said, "bfloat16")) {
      if (!result_.scenario.profile.peak_flops.contains(Precision::bf16)) t.dtype = Precision::fp16;
      assume(fmt::format("precision '{}': {}", shortened(said), to_string(t.dtype)));
    }
    if (t.dtype == Precision::bf16 && result_.scenario.profile.architecture == "Volta")
      assume("bf16: V100 has no such tensor cores; at the rate of fp16, which is the least that it takes");
    if (std::string rate = rate_text(result_.scenario.profile, t.dtype); few_bits(t.dtype) && !rate.empty())
      assume(std::move(rate));
    if (stack_ != nullptr) {
      drop_unfit_precision(*stack_, t);
      set_host_precision(*stack_, result_.scenario.model, t.dtype, result_.scenario.profile);
    }
    const bool early_qwen = is_bridge() && !is_bridge_since(2026) && is_of("qwen3");
    if (!reported("tp_comm_overlap") && !noted({"async TP"}) && !early_qwen &&
        !recipes_overlap_tensor_ranks(result_.scenario.model, t))
      result_.scenario.parallel.tp_comm_overlap = false;
  }

  /// Megatron-Bridge's names are fp8_cs and fp8_ds.
  void read_scaling(Training& t) {
    constexpr std::pair<const char*, Fp8Scaling> kScalings[] = {
        {"current scal", Fp8Scaling::current}, {"current-scal", Fp8Scaling::current}, {"delayed", Fp8Scaling::delayed}};
    for (const char* column : {"precision", "precision_detail"}) {
      for (const auto& [words, scaling] : kScalings)
        if (affirms(text(column), words)) t.fp8_scaling = scaling;
      const std::string small = lower_case(text(column));
      if (has_word(small, "fp8_cs")) t.fp8_scaling = Fp8Scaling::current;
      if (has_word(small, "fp8_ds")) t.fp8_scaling = Fp8Scaling::delayed;
    }
    if (t.row_scales || t.dtype != Precision::fp8) t.fp8_scaling = Fp8Scaling::delayed;
    t.fp8_transpose = !multiplies_fp8_either_way(result_.scenario.profile);
  }

  /// In what gradients are accumulated and reduced; the options are Megatron-LM's.
  static void read_gradients(Training& t, const std::string& detail) {
    constexpr Words kGradients[] = {{"fp32 grad", Precision::fp32},
                                    {"fp32 main grad", Precision::fp32},
                                    {"gradients in fp32", Precision::fp32},
                                    {"gradients all-reduced in fp32", Precision::fp32},
                                    {"fp32 reduc", Precision::fp32},  // "fp32 reduction", "fp32 reduce"
                                    {"reduced in fp32", Precision::fp32},
                                    {"reduce in fp32", Precision::fp32},
                                    {"reduction in fp32", Precision::fp32},
                                    {"reduce_dtype=fp32", Precision::fp32},
                                    {"reduce_dtype=float32", Precision::fp32},
                                    {"accumulate-allreduce-grads-in-fp32", Precision::fp32},
                                    {"main-grads-dtype fp32", Precision::fp32},
                                    {"bf16 grad", Precision::bf16},
                                    {"bf16 main grad", Precision::bf16},
                                    {"gradients in bf16", Precision::bf16},
                                    {"bf16 reduc", Precision::bf16},
                                    {"reduced in bf16", Precision::bf16},
                                    {"reduce in bf16", Precision::bf16},
                                    {"reduction in bf16", Precision::bf16},
                                    {"reduce_dtype=bf16", Precision::bf16},
                                    {"reduce_dtype=bfloat16", Precision::bf16},
                                    {"grad-reduce-in-bf16", Precision::bf16},
                                    {"main-grads-dtype bf16", Precision::bf16}};
    if (t.dtype == Precision::fp16) t.grad_reduce_dtype = Precision::fp16;
    t.grad_reduce_dtype = said_in(detail, kGradients).value_or(t.grad_reduce_dtype);
  }

  void read_micro_batch(Training& t, int dp) {
    t.micro_batch_size = fields_.count("micro_batch", 0);
    if (t.micro_batch_size > 0) {
      if (t.micro_batch_size * dp == t.global_batch_size && !reported("num_microbatches"))
        divide_local_batch(t, t.micro_batch_size);
      return;
    }
    const std::int64_t rounds = fields_.count("num_microbatches", 0);
    t.micro_batch_size = rounds > 0 ? std::max<std::int64_t>(1, t.global_batch_size / (rounds * std::max(1, dp))) : 1;
    if (rounds > 0 || divide_local_batch(t, t.global_batch_size / std::max(1, dp))) return;
    result_.guessed_layout = true;
    assume("micro-batch not reported: 1");
  }

  /// torchtitan divides the batch of a rank into micro-batches of a pipeline: in 2024 as many as there are stages, later of one
  /// sequence. docs/references.md#titan-microbatches
  bool divide_local_batch(Training& t, std::int64_t local_batch) {
    const Parallel& p = result_.scenario.parallel;
    const bool early = runs("torchtitan-2024");
    if (p.pp == 1 || !(early || runs("torchtitan") || runs("primus-torchtitan"))) return false;
    if (early && local_batch % p.pp != 0) return false;
    t.micro_batch_size = early ? local_batch / p.pp : 1;
    assume(fmt::format("{} micro-batches of {}, as torchtitan divides a rank's batch of {}",
                       local_batch / t.micro_batch_size, t.micro_batch_size, local_batch));
    return true;
  }

  RowReading& row_;
};

}  // namespace

void read_row_training(RowReading& row) { TrainingReader(row).read(); }

}  // namespace tracecast::accuracy
