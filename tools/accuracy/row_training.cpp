#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/base/words.hpp"
#include "sim/cost/attention.hpp"
#include "sim/io/json_document.hpp"
#include "sim/model/parameters.hpp"
#include "tools/accuracy/row_machine.hpp"
#include "tools/accuracy/row_part.hpp"

namespace tracecast::accuracy {
namespace {

std::string allowed_precisions() {
  std::string names;
  for (const auto& each : EnumNames<Precision>::table) names += fmt::format(" {}", each.name);
  return names;
}

class TrainingReader : RowPart {
 public:
  explicit TrainingReader(RowReading& row) : RowPart(row) {}

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
    t.flash_attention = flag("flash_attention", t.flash_attention);
    if (runs("pax") && t.flash_attention && text("precision_detail").find("TransformerEngine") == std::string::npos) {
      t.flash_attention = false;
      assume("no fused attention, as in JAX-Toolbox without Transformer Engine");
    }
    t.compiled = is_compiled(t.compiled);
    read_graphs(t);
    read_narrow_recipe(t);
    t.offload_layers = fields_.small_count("cpu_offload_layers", number_after(text("notes"), "activation offload of "));
    t.offload_activations = t.offload_layers > 0 || mentions("activation offload");
    if (mentions("Muon")) use_muon();
    read_offloading(t);
    read_routing(t);
    read_recompute(t);
    if (t.recompute == Recompute::full) t.recompute_modules.clear();  // a stack's
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
  void read_narrow_recipe(Training& t) {
    const Scenario& s = result_.scenario;
    const bool whole_step = t.fused_experts && (!is_bridge() || is_bridge_since(2026.4));
    const bool mxfp8 = s.model.moe && t.dtype == Precision::mxfp8;
    t.fused_experts = mxfp8 && (whole_step || mentions("fused grouped MLP"));
    const bool gpt_oss = is_of("gpt-oss");
    t.fp8_attention = t.fused_experts && !(is_deepseek() && gpu_name(text("gpu")).part == "GB200") &&
                      t.flash_attention && has_attention_in(s.profile, t.attention_kernel, t.dtype);
    t.fp8_output_layer = mxfp8 && whole_step && is_bridge_since(2026.4) && (gpt_oss || (is_deepseek() && has_racks()));
    // Transformer Engine 2.12 multiplies unpadded tokens: docs/references.md#expert-padding
    if (is_bridge_since(2026.25)) t.padded_experts = false;
    if (is_bridge_since(2026.4) && mxfp8) t.separate_expert_casts = false;  // docs/references.md#expert-casts
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
    for (const char* words : {"ZeRO-Offload", "offload_optimizer", "optimizer offload", "optimizer states on the CPU"})
      offloads |= is_named(words);
    if (!offloads || result_.scenario.cluster.node.pcie.bytes_per_second <= 0) return;
    t.offload_optimizer = true;
    t.offload_parameters = infinity && result_.scenario.parallel.zero_stage == 3;
    assume(t.offload_parameters ? "optimizer states and parameters on the host" : "optimizer states on the host");
  }

  /// Balanced unless the row says that the model's own router ran. docs/references.md#expert-routing
  void read_routing(Training& t) {
    const std::string routing = lower_case(text("routing"));
    constexpr std::array<std::string_view, 5> kKnown{"", "forced", "balanced", "dropless", "real"};
    if (std::find(kKnown.begin(), kKnown.end(), routing) == kKnown.end())
      return add_error("routing", "unknown routing (allowed: forced real)");
    const bool real =
        routing == "real" || mentions("real router") || text("source").find("real routing") != std::string::npos;
    if (!real || !result_.scenario.model.moe) return;
    t.expert_routing = ExpertRouting::skewed;
    assume(fmt::format("the load of experts not reported: spread {} as in one published pair", t.expert_skew));
  }

  /// "torch.compile", "cuda_graph", or only whether something is compiled: PyTorch's compiler outside Megatron-Core.
  bool is_compiled(bool otherwise) const {
    const std::string compiled = lower_case(text("compiled"));
    if (compiled.empty() || compiled.find("graph") != std::string::npos) return otherwise;
    if (compiled.find("compile") != std::string::npos) return true;
    return flag("compiled", false) && !is_megatron_core();
  }

  /// What CUDA graphs launch: whole steps, or parts of layers. Dropless experts have no fixed shapes, so that graphs of an
  /// unknown scope leave them eager; those filled up to a capacity have. docs/references.md#dispatcher-work
  void read_graphs(Training& t) {
    const std::string graph = reported_graphs();
    const bool experts = result_.scenario.model.moe.has_value();
    const bool some = text("compiled").find("graph") != std::string::npos || mentions("CUDA graphs") ||
                      (graph.empty() && (reported("cuda_graph") || captures_in_nemo() || captures_in_bridge()));
    if (drops_tokens()) t.expert_capacity_factor = 1;
    if (some && graph.empty() && (!experts || t.expert_capacity_factor > 0)) {
      t.cuda_graphs = true;
    } else if (!graph.empty() && !graph.starts_with("none")) {
      t.cuda_graphs = has_word(graph, "full_iteration");
      for (const auto& each : EnumNames<GraphModule>::table)
        if (!t.cuda_graphs && has_word(graph, each.name)) t.cuda_graph_modules.emplace_back(each.name);
    } else if (graph.empty() && experts && (some || guesses_graphs())) {
      t.cuda_graph_modules = {"attn", "moe_router"};
    }
    t.fused_experts = has_word(graph, "full_iteration") && !graph.starts_with("none");
  }

  /// The column, else what a note says, in the words of the column. Where a table took the next release's graphs for
  /// Megatron-Bridge 25.09: those of its own recipes that drop tokens (docs/references.md#token-drop).
  std::string reported_graphs() {
    if (is_bridge() && drops_tokens() && text("assumptions").find("of the next release") != std::string::npos) {
      const bool whole = is_of("qwen3-30b");
      assume(fmt::format("CUDA graphs of {}, as in recipes of that release", whole ? "whole steps" : "nothing"));
      return whole ? "full_iteration" : "none";
    }
    if (reported("cuda_graph")) return known_graphs(text("cuda_graph"));
    if (mentions("full-iteration CUDA graph")) return "full_iteration";
    return mentions("CUDA graphs of router and preprocessing") ? "moe_router,moe_preprocess" : "";
  }

  /// In the words of the column; empty: graphs of an unknown scope.
  std::string known_graphs(const std::string& reported) {
    std::string graph = lower_case(reported);
    if (const std::optional<bool> yes = truth(graph); yes) return *yes ? "" : "none";
    for (const char* spelled : {"full iteration", "full-iteration"})
      if (const std::size_t at = graph.find(spelled); at != std::string::npos) graph.replace(at, 14, "full_iteration");
    constexpr std::array kWords{"none", "full_iteration", "attn", "mlp", "mamba", "moe_router", "moe_preprocess"};
    const auto named = [&](const char* word) { return has_word(graph, word); };
    const bool nothing = graph.find_first_not_of(": ") == std::string::npos;
    if (nothing || std::any_of(kWords.begin(), kWords.end(), named)) return graph;
    assume(fmt::format("CUDA graphs '{}': of an unknown scope", shortened(reported)));
    return {};
  }

  /// NeMo's recipes of 2025 capture on Blackwell, but for some models. docs/references.md#nemo-graphs
  bool captures_in_nemo() {
    const Training& t = result_.scenario.training;
    const Parallel& p = result_.scenario.parallel;
    if (!framework_.starts_with("NeMo 25") || result_.scenario.profile.architecture != "Blackwell") return false;
    if (!is_fine_tuning() && (is_deepseek() || is_405b() || p.zero_stage == 3)) return false;
    if (t.dtype == Precision::mxfp8 && family_.find("70b") != std::string::npos) return false;
    if (!has_racks() && (is_of("gpt-3") || is_of("gpt3") || is_of("llama-4") || is_of("llama4"))) return false;
    if (has_racks() && (is_of("nemotron-4-340b") || is_of("nemotron4-340b")) && t.dtype == Precision::bf16)
      return false;
    assume("CUDA graphs not reported: as in NeMo's recipes of 2025 for Blackwell");
    return true;
  }

  bool is_405b() const { return family_.find("405b") != std::string::npos; }

  /// Megatron-Bridge's recipes of Llama 3 8B capture whole steps on Blackwell, but in NVFP4. docs/references.md#nemo-graphs
  bool captures_in_bridge() {
    const bool small = is_of("llama-3-8b") || is_of("llama3-8b") || is_of("llama-3.1-8b") || is_of("llama3.1-8b");
    if (!is_bridge() || !small || reported("recipe") || is_fine_tuning()) return false;
    if (result_.scenario.profile.architecture != "Blackwell" || result_.scenario.training.dtype == Precision::nvfp4)
      return false;
    assume("CUDA graphs not reported: of whole steps, as in Megatron-Bridge's recipes of this model");
    return true;
  }

  /// Megatron-Bridge's recipes of experts since 25.11 capture attention and router on racks (docs/references.md#rack-graphs); a row
  /// that reports the exchange reports graphs, too.
  bool guesses_graphs() {
    if (!is_bridge_since(2025.85) || !has_racks()) return false;
    if (reported("recipe") || reported("moe_dispatcher") || reported("moe_a2a_overlap")) return false;
    assume("CUDA graphs not reported: of attention and router, as in recipes for racks");
    return true;
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

  /// "bf16", "bfloat16", "bf16-mixed", "FP8 (delayed scaling)"; empty: unknown.
  static std::optional<Precision> precision_of(const std::string& words) {
    std::string name = lower_case(words);
    std::replace(name.begin(), name.end(), '-', '_');
    if (name.empty()) return Precision::bf16;
    if (const std::optional<Precision> known = parse_enum<Precision>(name)) return known;
    const auto has = [&](const char* word) { return name.find(word) != std::string::npos; };
    if (has("mxfp4") || has("mixed fp4")) return std::nullopt;
    // Megatron-Bridge's names are fp8_mx, and fp8_sc for scales of blocks.
    if (has("mxfp8") || has_word(name, "fp8_mx") || has_word(name, "fp8 mx")) return Precision::mxfp8;
    if (has("fp4")) return Precision::nvfp4;
    if (has("fp8") || has("float8"))
      return has("block") || has("subchannel") || has_word(name, "fp8_sc") ? Precision::fp8_block : Precision::fp8;
    if (has("bf16") || has("bfloat16")) return Precision::bf16;
    if (has("fp16") || has("float16") || has("half")) return Precision::fp16;
    return std::nullopt;
  }

  void read_precision(Training& t) {
    const std::optional<Precision> precision = precision_of(text("precision"));
    if (!precision) return add_error("precision", "unknown precision (allowed:" + allowed_precisions() + ")");
    t.dtype = *precision;
    const std::string detail = lower_case(text("precision_detail"));
    if (t.dtype == Precision::fp8)  // its scales
      t.dtype = affirms(detail, "mxfp8")                                        ? Precision::mxfp8
                : affirms(detail, "blockwise") || affirms(detail, "subchannel") ? Precision::fp8_block
                                                                                : Precision::fp8;
    if (t.dtype == Precision::fp16) t.grad_reduce_dtype = Precision::fp16;
    if (text("precision_detail").find("fp32 grad") != std::string::npos) t.grad_reduce_dtype = Precision::fp32;
    // torchao's enable_fsdp_float8_all_gather
    if (text("precision_detail").find("fp8 all-gather") != std::string::npos) t.fp8_param_gather = true;
    const auto by_row = [](const std::string& words) {
      return affirms(words, "rowwise") || affirms(words, "row-wise") || affirms(words, "scaling by row");
    };
    t.row_scales = t.dtype == Precision::fp8 && (by_row(detail) || by_row(text("precision")));
    if (!reported("precision")) assume("precision not reported: bf16");
    if (stack_ != nullptr) drop_unfit_precision(*stack_, t);
    const bool early_qwen = is_bridge() && !is_bridge_since(2026) && is_of("qwen3");
    if (!reported("tp_comm_overlap") && !early_qwen && !recipes_overlap_tensor_ranks(result_.scenario.model, t))
      result_.scenario.parallel.tp_comm_overlap = false;
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

  void read_recompute(Training& t) {
    const std::string detail = lower_case(text("recompute_detail"));
    const std::string recompute = recompute_word(detail);
    t.recompute = Recompute::none;
    if (recompute.empty() && reported("recipe")) return read_recipe(t);
    if (recompute.empty() && recomputed_as_in_recipes(t)) return;
    if (runs("maxtext") && read_policy(t)) return;
    if (recompute == "full") {
      t.recompute = Recompute::full;
    } else if (recompute == "selective_attention") {
      t.recompute = Recompute::selective;
    } else if (recompute == "op") {
      t.recompute = Recompute::selective_op;
    } else if (detail == "every 2nd layer" || detail == "every second layer" || detail == "every other layer") {
      t.recompute = Recompute::full;
      t.recompute_num_layers = std::max(
          1, result_.scenario.model.num_layers / (2 * result_.scenario.parallel.pp * result_.scenario.parallel.vpp));
    } else if (recompute == "selective_other" && read_modules(t, detail)) {
      return;
    } else if (const int layers = layers_in(detail.empty() ? lower_case(text("recompute")) : detail); layers > 0) {
      t.recompute = Recompute::full;
      t.recompute_num_layers = layers;
    } else if (recompute.starts_with("selective") || recompute == "partial_layers") {
      assume(fmt::format("recomputation of '{}' is left out of the time", detail.empty() ? recompute : detail));
    } else if (recompute.empty()) {
      result_.guess_recompute = true;
    } else if (recompute != "none") {
      result_.guess_recompute = true;
      assume(fmt::format("recomputation '{}' is not known: the least that fits", shortened(text("recompute"))));
    }
  }

  /// The field in the words of the table, "op" for torchtitan's selective recomputation of operators.
  std::string recompute_word(const std::string& detail) const {
    const std::string word = lower_case(text("recompute"));
    if (word.empty()) return word;
    const std::optional<bool> yes = truth(word);
    if (yes) return *yes ? "full" : "none";
    if (!affirms(word, "checkpointing") && word.find("checkpointing") != std::string::npos) return "none";
    if (denies(word)) return "none";
    const bool of_operators = detail.starts_with("op") || detail.find("selective op") != std::string::npos ||
                              has_word(detail, "sac") || has_word(word, "sac") || has_word(word, "op");
    const bool of_pytorch = stack_ != nullptr && stack_->name.find("torchtitan") != std::string::npos;
    if (of_operators || (word == "selective" && of_pytorch)) return "op";
    if (word == "partial_layers" || word.starts_with("selective_")) return word;
    if (word.starts_with("selective ")) return of_pytorch ? "op" : "selective_attention";
    if (word.starts_with("full on ") && detail.empty()) return "partial_layers";
    if (word.starts_with("full") || word.find("checkpointing") != std::string::npos) return "full";
    if (word == "selective" || word.find("core_attn") != std::string::npos) return "selective_attention";
    return word;
  }

  /// What the recipes of a framework recompute where neither the source nor a column says it: of Pax by size
  /// (docs/references.md#pax-recipes), of DeepSeek-V3 in Megatron-Bridge the up-projections of latent attention, as in all of release
  /// 25.11; tables of later ones name their recipes.
  bool recomputed_as_in_recipes(Training& t) {
    if (is_bridge() && is_deepseek()) return read_modules(t, "mla_up_proj");
    if (const char* recipes = framework_that_checkpoints()) {
      t.recompute = Recompute::full;
      assume(fmt::format("recomputation not reported: full, as in {}", recipes));
      return true;
    }
    if (runs("torchtitan") || runs("torchtitan-2024")) return recomputed_as_in_torchtitan(t);
    if (!runs("pax")) return false;
    // 768 of its 126M, 4,096 of its 5B, 12,288 of its 175B
    const std::int64_t hidden = result_.scenario.model.hidden_size;
    if (hidden > 768 && hidden < 12'288) return read_modules(t, "core_attn, norm, act");
    if (hidden >= 12'288) t.recompute = Recompute::full;
    assume(fmt::format("recomputation not reported: {}, as in paxml's recipes", to_string(t.recompute)));
    return true;
  }

  /// docs/references.md#recompute-defaults; nullptr: the framework has no such default.
  const char* framework_that_checkpoints() const {
    const std::string small = lower_case(text("framework"));
    for (const auto& [word, recipes] :
         {std::pair{"factory", "LLaMA-Factory's default"}, std::pair{"llamafactory", "LLaMA-Factory's default"},
          std::pair{"trl", "TRL's default"}, std::pair{"axolotl", "Axolotl's examples"}})
      if (small.find(word) != std::string::npos) return recipes;
    return runs("gpt-neox") ? "GPT-NeoX's configurations" : nullptr;
  }

  /// By size: operators of its 8B, whole layers of its 70B, 405B and 671B. docs/references.md#recompute-defaults
  bool recomputed_as_in_torchtitan(Training& t) {
    constexpr std::int64_t kLarge = 30'000'000'000;
    const bool large = parameter_count(result_.scenario.model).total() > kLarge;
    t.recompute = large ? Recompute::full : Recompute::selective_op;
    result_.guess_recompute = !large;
    assume(fmt::format("recomputation not reported: {}, as in torchtitan's configurations of that size",
                       large ? "full" : "of operators"));
    return true;
  }

  /// MaxText's remat_policy, whose default is full. Policies that save some multiplications have no key here: the one that saves
  /// all of them repeats norms and activations, the others everything. docs/references.md#maxtext
  bool read_policy(Training& t) {
    const std::string& policy = text("recompute_detail");
    if (text("recompute") == "none") return false;
    if (policy.find("minimal") != std::string::npos) return read_modules(t, "norm, act");
    if (!text("recompute").empty() && text("recompute") != "selective_other") return false;
    t.recompute = Recompute::full;
    assume(policy.find("save_") == std::string::npos
               ? "recomputation not reported: full, as MaxText's default"
               : fmt::format("recomputation of '{}': taken as full, which repeats what it saves, too", policy));
    return true;
  }

  /// "full on 5 layers of each stage", or "full on 10 of 80 layers" of the model; 0: the text says something else.
  int layers_in(const std::string& detail) {
    const Parallel& p = result_.scenario.parallel;
    const std::string word = lower_case(text("recompute"));
    if ((word != "partial_layers" && !word.starts_with("full on ")) || !detail.starts_with("full on ")) return 0;
    const int layers = number_after(detail, "full on ");
    const bool each = p.pp * p.vpp == 1 || detail.find("each stage") != std::string::npos;
    if (each || number_after(detail, " of ") != result_.scenario.model.num_layers) return each ? layers : 0;
    assume(fmt::format("recomputation of '{}': spread evenly over the stages", detail));
    return ceil_div(layers, p.pp * p.vpp);
  }

  /// What the launcher's recipe recomputes: modules, or all of some layers of every virtual stage.
  void read_recipe(Training& t) {
    if (const int layers = fields_.small_count("recompute_full_block_layers", 0); layers > 0) {
      t.recompute = Recompute::full;
      t.recompute_num_layers = layers;
    } else if (const std::string& modules = text("recompute_modules"); !modules.empty() && modules != "[]") {
      read_modules(t, modules);
    }
  }

  /// Megatron-Core's --recompute-modules that are modelled. False: there is none.
  bool read_modules(Training& t, const std::string& detail) {
    const bool attention = has_word(detail, "core_attn");
    if (attention) t.recompute = Recompute::selective;
    t.recompute_modules.clear();  // a stack's
    for (const auto& [word, module] :
         {std::pair{"norm", "norm"}, std::pair{"act", "activation"}, std::pair{"up_proj", "mla_up"}})
      if (detail.find(word) != std::string::npos) t.recompute_modules.emplace_back(module);
    if (has_word(detail, "moe")) t.recompute_modules.emplace_back("moe");
    if (t.recompute_modules.empty()) return attention;
    assume(fmt::format("recomputation of '{}': norms, activations, up-projections and experts of it", detail));
    return true;
  }
};

}  // namespace

void read_training(RowReading& row) { TrainingReader(row).read(); }

}  // namespace tracecast::accuracy
