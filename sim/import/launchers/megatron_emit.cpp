/// Writes what a scenario sets for Megatron-LM and Megatron-Bridge. Source: docs/references.md#format-megatron
#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/launchers/megatron_settings.hpp"
#include "sim/import/launchers/megatron_words.hpp"
#include "sim/plan/activations.hpp"
#include "sim/plan/fine_tuning.hpp"
#include "sim/plan/optimizer_matrices.hpp"
#include "sim/plan/stages.hpp"
#include "sim/schedule/interleaved.hpp"

namespace tracecast {
namespace {

using Kind = SettingRow::Kind;
using Name = std::string_view;

constexpr Name kStack = "megatron-core";  ///< of an import

/// A setting by Megatron-LM's name; no value: a flag that is set.
struct Said {
  std::string key;
  std::string value = "";
};
using Settings = std::vector<Said>;

/// A cut that account_for_embedding and account_for_loss cannot express, as a layout.
Scenario with_written_cut(const Scenario& scenario) {
  const Parallel& p = scenario.parallel;
  const int items = scenario.model.layers() + (p.account_for_embedding ? 1 : 0) + (p.account_for_loss ? 1 : 0);
  if (!p.pp_layout.empty() || items % (p.pp * p.vpp) == 0) return scenario;
  Scenario written = scenario;
  const Result<std::vector<Stage>> stages = cut_stages(scenario.model, p);
  TRACECAST_ASSERT(stages.has_value(), "only valid scenarios are emitted");
  for (const Stage& stage : *stages) written.parallel.pp_layout.push_back(stage.num_layers);
  written.parallel.account_for_embedding = written.parallel.account_for_loss = false;
  return written;
}

/// arguments.py: the overlap needs experts over ranks, and virtual stages where there is a pipeline.
bool overlaps_exchange(const Parallel& p) {
  return p.pp_schedule == "combined-1f1b" && p.ep > 1 && (p.pp == 1 || p.vpp > 1);
}

/// Megatron-Core's default, groups of pp, needs micro-batches that pp divides.
void emit_group(Settings& said, const Scenario& scenario) {
  const Parallel& p = scenario.parallel;
  const int replicas = p.replicas_on(scenario.cluster.world_size);
  const auto microbatches =
      static_cast<int>(scenario.training.global_batch_size / (scenario.training.micro_batch_size * replicas));
  if (p.vpp <= 1 || microbatches % p.pp == 0) return;
  const int group = usual_group({.ranks = p.pp, .microbatches = microbatches, .chunks = p.vpp});
  said.push_back({"microbatch-group-size-per-virtual-pipeline-stage", std::to_string(group)});
}

void emit_pipeline(Settings& said, RunSettings& settings, const Scenario& scenario) {
  const Parallel& p = scenario.parallel;
  settings.take("parallel.pp_layout");
  settings.take("parallel.vpp");
  const bool usual = p.pp_schedule.empty() || p.pp_schedule == default_schedule(p.vpp);
  const bool combined = overlaps_exchange(p);
  if (usual || combined) settings.take("parallel.pp_schedule");
  if (combined) said.push_back({"overlap-moe-expert-parallel-comm"});
  if (!p.pp_layout.empty())
    said.push_back(
        {"pipeline-model-parallel-layout", "'" + pipeline_layout_text(p.pp_layout, scenario.model.mtp_layers) + "'"});
  else if (p.vpp > 1)
    said.push_back({"num-virtual-stages-per-pipeline-rank", std::to_string(p.vpp)});
  if (usual || combined) emit_group(said, scenario);
  if (p.rank_order == "tp-cp-ep-pp-dp") said.push_back({"use-tp-pp-dp-mapping"});
  if (p.rank_order == "tp-cp-ep-pp-dp" || p.rank_order == "tp-cp-ep-dp-pp") settings.take("parallel.rank_order");
}

/// Muon with whole matrices assigned to ranks: instead of the distributed optimizer, and without its overlap.
bool deals_matrices(const Scenario& scenario) {
  return scenario.training.optimizer == OptimizerKind::muon && scenario.parallel.zero_stage == 1 &&
         matrix_sharding(scenario.parallel, scenario.training) == MatrixSharding::layerwise;
}

void emit_optimizer(Settings& said, RunSettings& settings, const Scenario& scenario) {
  const Training& t = scenario.training;
  if (t.optimizer == OptimizerKind::sgd) {
    settings.take("training.optimizer");
    said.push_back({"optimizer", "sgd"});
  }
  const bool whole = scenario.parallel.zero_stage == 0;
  if (t.optimizer != OptimizerKind::muon || (!whole && !deals_matrices(scenario))) return;
  settings.take("training.optimizer");
  settings.take("training.matrix_sharding");
  settings.take("training.muon_tensor");
  settings.take("training.muon_steps");
  said.push_back({"optimizer", whole ? "muon" : "dist_muon"});
  if (!whole && !settings.take("parallel.zero1_allreduce").boolean) said.push_back({"use-layer-wise-param-layout"});
  said.push_back({"muon-tp-mode", std::string(to_string(t.muon_tensor))});
  said.push_back({"muon-num-ns-steps", std::to_string(t.muon_steps)});
}

void emit_sharding(Settings& said, RunSettings& settings, const Scenario& scenario) {
  constexpr std::array kStrategies{"no_shard", "optim", "optim_grads", "optim_grads_params"};
  const Parallel& p = scenario.parallel;
  const std::int64_t stage = settings.take("parallel.zero_stage").integer;
  const bool dealt = deals_matrices(scenario);
  if (stage > 0 && !dealt) said.push_back({"use-distributed-optimizer"});
  if (stage > 1) {
    said.push_back({"use-megatron-fsdp"});
    said.push_back({"data-parallel-sharding-strategy", kStrategies.at(static_cast<std::size_t>(stage))});
    said.push_back({"ckpt-format", "fsdp_dtensor"});
  }
  if (stage == 3) settings.list_unless(p.gathers_in_place, "parallel.gathers_in_place");
  const bool gather = scenario.parallel.overlap_param_gather;
  settings.list_unless(!dealt || !gather, "parallel.overlap_param_gather");
  if (stage > 0 && gather && !dealt) said.push_back({"overlap-param-gather"});
  const std::int64_t group = settings.take("parallel.shard_group").integer;
  if (group > 0)
    said.push_back(
        {"num-distributed-optimizer-instances", std::to_string(scenario.cluster.world_size / (p.tp * p.pp) / group)});
}

/// Gradients of fp16 are reduced in fp16 or fp32, others in bf16 or fp32.
bool reduces_in_a_known_type(const Training& t) {
  return t.grad_reduce_dtype == Precision::fp32 ||
         t.grad_reduce_dtype == (t.dtype == Precision::fp16 ? Precision::fp16 : Precision::bf16);
}

/// Of a linear layer's input Transformer Engine keeps what its multiplication read.
bool keeps_inputs_as_multiplied(const Training& t) {
  const bool narrow = t.low_precision_activations == std::vector<std::string>{"linear_inputs"};
  return narrow || (t.low_precision_activations.empty() && !is_narrow(t.dtype));
}

void emit_precision(Settings& said, RunSettings& settings, const Training& t) {
  settings.take("training.dtype");
  settings.list_unless_of_stack(kStack, keeps_inputs_as_multiplied(t), "training.low_precision_activations");
  if (t.dtype == Precision::fp16) said.push_back({"fp16"});
  if (t.dtype != Precision::fp16 && t.dtype != Precision::fp32) said.push_back({"bf16"});
  if (t.dtype == Precision::nvfp4) said.push_back({"fp4-format", "e2m1"});
  const bool current = t.fp8_scaling == Fp8Scaling::current;
  settings.take("training.fp8_scaling");
  const char* recipe = t.dtype == Precision::fp8         ? (current ? "tensorwise" : "delayed")
                       : t.dtype == Precision::fp8_block ? "blockwise"
                       : t.dtype == Precision::mxfp8     ? "mxfp8"
                                                         : nullptr;
  if (recipe != nullptr) {
    said.push_back({"fp8-format", t.dtype == Precision::mxfp8 ? "e4m3" : "hybrid"});
    said.push_back({"fp8-recipe", recipe});
  }
  if (t.dtype == Precision::mxfp8 && t.fp8_param_gather) said.push_back({"reuse-grad-buf-for-mxfp8-param-ag"});
  const std::int64_t start = settings.take("training.bf16_layers_start").integer;
  const std::int64_t end = settings.take("training.bf16_layers_end").integer;
  if (start > 0 || end > 0)
    said.insert(said.end(), {{"first-last-layers-bf16"},
                             {"num-layers-at-start-in-bf16", std::to_string(start)},
                             {"num-layers-at-end-in-bf16", std::to_string(end)}});
  settings.list_unless(reduces_in_a_known_type(t), "training.grad_reduce_dtype");
  if (t.grad_reduce_dtype == Precision::bf16) said.push_back({"grad-reduce-in-bf16"});
  if (t.grad_reduce_dtype == Precision::fp32) said.push_back({"accumulate-allreduce-grads-in-fp32"});
}

/// Whether Megatron-LM repeats this work alone: moe_act is the activation function of experts.
bool can_repeat(Name module, const Model& model) {
  return module == "norm" || (module == "mla_up" ? model.latent_attention.has_value() : model.moe.has_value());
}

/// The value of --recompute-modules: parts of a layer that granularity selective repeats.
std::string recompute_modules_text(const Scenario& scenario) {
  std::string text = scenario.training.recompute == Recompute::selective ? "core_attn" : "";
  for (const std::string& module : scenario.training.recompute_modules)
    if (can_repeat(module, scenario.model)) text += (text.empty() ? "" : " ") + std::string(megatron_module(module));
  return text;
}

/// Whole layers. Under the overlap of experts' exchanges whole virtual stages, without a method and a number of layers.
void emit_full_recompute(Settings& said, RunSettings& settings, const Scenario& scenario) {
  const int layers = scenario.training.recompute_num_layers;
  const bool stages = overlaps_exchange(scenario.parallel);
  settings.list_unless(!stages || layers == 0, "training.recompute_num_layers");
  said.push_back({"recompute-granularity", "full"});
  if (stages) return;
  said.push_back({"recompute-method", layers > 0 ? "block" : "uniform"});
  said.push_back({"recompute-num-layers", std::to_string(std::max(1, layers))});
}

void emit_recompute(Settings& said, RunSettings& settings, const Scenario& scenario) {
  const Training& t = scenario.training;
  if (t.recompute == Recompute::selective_op) return;
  settings.take("training.recompute");
  if (t.recompute == Recompute::full) return emit_full_recompute(said, settings, scenario);
  settings.take("training.recompute_num_layers");
  const std::vector<std::string>& modules = t.recompute_modules;
  if (std::ranges::all_of(modules, [&](const std::string& each) { return can_repeat(each, scenario.model); }))
    settings.take("training.recompute_modules");
  const std::string text = recompute_modules_text(scenario);
  if (text.empty()) return;
  said.push_back({"recompute-granularity", "selective"});
  if (text != "core_attn") said.push_back({"recompute-modules", text});
}

/// Megatron-LM offloads the activations of some first layers, without a pipeline and without recomputation; the optimizer with the
/// distributed one, and with parameters that are not kept in 8 bits.
void emit_offloading(Settings& said, RunSettings& settings, const Scenario& scenario) {
  const Training& t = scenario.training;
  const bool some = t.offload_layers > 0 && t.offload_layers < scenario.model.layers();
  const bool repeats = t.recompute != Recompute::none || !t.recompute_modules.empty();
  if (t.offload_activations && some && !repeats && scenario.parallel.pp == 1) {
    settings.take("training.offload_activations");
    settings.take("training.offload_layers");
    said.push_back({"cpu-offloading-num-layers", std::to_string(t.offload_layers)});
  }
  if (t.offload_optimizer && scenario.parallel.zero_stage == 1 && !t.fp8_param_gather) {
    settings.take("training.offload_optimizer");
    said.insert(said.end(), {{"optimizer-cpu-offload"}, {"use-precision-aware-optimizer"}});
  }
}

void emit_experts(Settings& said, RunSettings& settings, const Scenario& scenario) {
  settings.take("parallel.moe_dispatcher");
  if (!scenario.model.moe) return;
  said.push_back({"moe-grouped-gemm"});  // as experts are forecast
  const bool flexible = scenario.parallel.moe_dispatcher != MoeDispatcher::alltoall;
  said.push_back({"moe-token-dispatcher-type", flexible ? "flex" : "alltoall"});
  if (flexible) said.push_back({"moe-flex-dispatcher-backend", to_string(scenario.parallel.moe_dispatcher)});
  settings.list_unless_of_stack(kStack, scenario.training.padded_experts, "training.padded_experts");
  settings.list_unless_of_stack(kStack, scenario.training.separate_expert_casts, "training.separate_expert_casts");
  settings.take("training.expert_capacity_factor");
  if (scenario.training.expert_capacity_factor > 0)
    said.push_back({"moe-expert-capacity-factor", fmt::format("{}", scenario.training.expert_capacity_factor)});
  settings.take("training.expert_capacity_padding");
  if (scenario.training.expert_capacity_padding) said.push_back({"moe-pad-expert-input-to-capacity"});
}

/// Of whole steps, which excludes the check for NaN, or of parts of layers.
void emit_graphs(Settings& said, RunSettings& settings, const Training& t) {
  settings.take("training.cuda_graphs");
  if (!t.cuda_graphs) settings.take("training.cuda_graph_modules");
  if (t.cuda_graphs) {
    said.insert(
        said.end(),
        {{"cuda-graph-impl", "local"}, {"cuda-graph-scope", "full_iteration"}, {"no-check-for-nan-in-loss-and-grad"}});
  } else if (!t.cuda_graph_modules.empty()) {
    said.push_back({"cuda-graph-impl", "transformer_engine"});
    said.push_back({"cuda-graph-scope", fmt::format("{}", fmt::join(t.cuda_graph_modules, " "))});
  }
}

/// PyTorch's loss cannot be chosen, not even with FSDP, nor Megatron-LM's own apart from a compiled model.
void emit_loss(Settings& said, RunSettings& settings, const Scenario& s) {
  const CrossEntropy loss = loss_of(s.parallel, s.training);
  const bool own = loss == CrossEntropy::vocab_parallel && !s.training.compiled;
  settings.list_unless(own || loss == CrossEntropy::fused || loss == CrossEntropy::fused_native,
                       "training.cross_entropy");
  const bool kernel = loss == CrossEntropy::fused;
  if (!kernel && loss != CrossEntropy::fused_native) return;
  said.push_back({"cross-entropy-loss-fusion"});
  said.push_back({"cross-entropy-fusion-impl", kernel ? "te" : "native"});
}

Settings emit_settings(const Scenario& scenario, RunSettings& settings) {
  Settings said;
  for (const auto& [key, value] : emit_rows(settings, kMegatronRows))
    said.push_back({key, value.kind == JsonNode::Kind::boolean ? "" : value.text()});
  emit_pipeline(said, settings, scenario);
  emit_optimizer(said, settings, scenario);
  emit_sharding(said, settings, scenario);
  emit_precision(said, settings, scenario.training);
  emit_recompute(said, settings, scenario);
  emit_offloading(said, settings, scenario);
  emit_graphs(said, settings, scenario.training);
  emit_loss(said, settings, scenario);
  emit_experts(said, settings, scenario);
  const Parallel& p = scenario.parallel;
  settings.list_unless_of_stack(kStack, true, "parallel.overlap_p2p_1f1b");
  if (p.pp > 1 && is_1f1b(p) && overlaps_messages(p)) settings.list("parallel.overlap_p2p_1f1b");
  if (p.cp > 1) said.push_back({"cp-comm-type", settings.take("parallel.cp_comm_type").string});
  settings.list_unless_of_stack(kStack, scenario.training.transformer_engine, "training.transformer_engine");
  for (const char* covered : {"parallel.dp", "parallel.cp_comm_type", "training.train_tokens"}) settings.take(covered);
  return said;
}

/// What Megatron-LM and Transformer Engine take from the environment (docs/references.md#format-megatron). An import does not read
/// it, so what it says beside the arguments is listed, too.
std::string environment_of(const Scenario& scenario) {
  const Parallel& p = scenario.parallel;
  // As many as NVIDIA's recipes leave (docs/references.md#sm-margins).
  const std::string margin = scenario.training.sm_margin ? "export NVTE_EXT_MARGIN_SM=16\n" : "";
  const bool groups = p.tp > 1 || p.cp > 1;
  const bool one_connection = groups && before_blackwell(scenario.profile.architecture);
  if (p.zero_stage > 1)
    return margin + fmt::format("unset CUDA_DEVICE_MAX_CONNECTIONS  # Megatron FSDP refuses 1{}\n",
                                one_connection ? ", which tensor and context parallelism would prefer" : "");
  return margin + (one_connection ? "export CUDA_DEVICE_MAX_CONNECTIONS=1\n" : "");
}

/// The section and the name of a setting in Megatron-Bridge, and its value if it is a flag there.
struct BridgeName {
  Name said;
  Name section;
  Name name;
  Name value = "";
};
constexpr Name kPrecision = "mixed_precision";  ///< replaces what the model and ddp say
constexpr BridgeName kBridgeNames[] = {
    {"micro-batch-size", "train", "micro_batch_size"},
    {"global-batch-size", "train", "global_batch_size"},
    {"overlap-grad-reduce", "ddp", "overlap_grad_reduce"},
    {"overlap-param-gather", "ddp", "overlap_param_gather"},
    {"ddp-bucket-size", "ddp", "bucket_size"},
    {"use-distributed-optimizer", "ddp", "use_distributed_optimizer"},
    {"use-megatron-fsdp", "ddp", "use_megatron_fsdp"},
    {"data-parallel-sharding-strategy", "ddp", "data_parallel_sharding_strategy"},
    {"num-distributed-optimizer-instances", "ddp", "num_distributed_optimizer_instances"},
    {"use-layer-wise-param-layout", "ddp", "use_layer_wise_param_layout"},
    {"optimizer", "optimizer", "optimizer"},
    {"muon-tp-mode", "optimizer", "muon_tp_mode"},
    {"muon-num-ns-steps", "optimizer", "muon_num_ns_steps"},
    {"optimizer-cpu-offload", "optimizer", "optimizer_cpu_offload"},
    {"use-precision-aware-optimizer", "optimizer", "use_precision_aware_optimizer"},
    {"ckpt-format", "checkpoint", "ckpt_format"},
    {"use-tp-pp-dp-mapping", "dist", "use_tp_pp_dp_mapping"},
    {"no-overlap-p2p-communication", "model", "overlap_p2p_comm", "false"},
    {"no-check-for-nan-in-loss-and-grad", "rerun_state_machine", "check_for_nan_in_loss", "false"},
    {"no-check-for-nan-in-grad", "ddp", "check_for_nan_in_grad", "false"},
    {"num-virtual-stages-per-pipeline-rank", "model", "virtual_pipeline_model_parallel_size"},
    {"microbatch-group-size-per-virtual-pipeline-stage", "model", "microbatch_group_size_per_vp_stage"},
    {"bf16", kPrecision, "bf16"},
    {"fp16", kPrecision, "fp16"},
    {"grad-reduce-in-bf16", kPrecision, "grad_reduce_in_fp32", "false"},
    {"accumulate-allreduce-grads-in-fp32", kPrecision, "grad_reduce_in_fp32", "true"},
    {"fp8-format", kPrecision, "fp8"},
    {"fp8-recipe", kPrecision, "fp8_recipe"},
    {"fp4-format", kPrecision, "fp4"},
    {"fp8-param-gather", kPrecision, "fp8_param_gather"},
    {"reuse-grad-buf-for-mxfp8-param-ag", kPrecision, "reuse_grad_buf_for_mxfp8_param_ag"},
    {"fp8-dot-product-attention", kPrecision, "fp8_dot_product_attention"},
    {"first-last-layers-bf16", kPrecision, "first_last_layers_bf16"},
    {"num-layers-at-start-in-bf16", kPrecision, "num_layers_at_start_in_bf16"},
    {"num-layers-at-end-in-bf16", kPrecision, "num_layers_at_end_in_bf16"},
};

/// Settings that a recipe may have set, and their values where a scenario leaves them out.
constexpr std::pair<Name, Name> kUnlessSaid[] = {{"context-parallel-size", "1"},
                                                 {"expert-model-parallel-size", "1"},
                                                 {"expert-tensor-parallel-size", "null"},
                                                 {"num-virtual-stages-per-pipeline-rank", "null"},
                                                 {"pipeline-model-parallel-layout", "null"},
                                                 {"num-distributed-optimizer-instances", "1"},
                                                 {"recompute-granularity", "null"},
                                                 {"recompute-method", "null"},
                                                 {"recompute-num-layers", "null"},
                                                 {"recompute-modules", "core_attn"},
                                                 {"cuda-graph-impl", "none"},
                                                 {"fp8-format", "null"},
                                                 {"fp4-format", "null"}};

/// What replaces the recipe's numbers, whether it has them by name or as an object.
std::string precision_object(const Training& t) {
  const char* const type = t.dtype == Precision::fp16 ? "float16" : t.dtype == Precision::fp32 ? "float32" : "bfloat16";
  return fmt::format(
      "  _target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig\n"
      "  params_dtype: {{_target_: torch.{0}, _call_: false}}\n  pipeline_dtype: {{_target_: torch.{0}, _call_: "
      "false}}\n",
      type);
}

/// LoRA. Megatron-Bridge gives experts adapters, too, where feed-forwards have them: that is not forecast.
std::string adapters_object(RunSettings& settings, const Scenario& scenario) {
  const Training& t = scenario.training;
  if (t.lora_rank == 0 || (scenario.model.moe && (has_adapter(t, "fc1") || has_adapter(t, "fc2")))) return "";
  std::vector<std::string> modules;
  for (const auto& each : EnumNames<LoraTarget>::table)
    if (has_adapter(t, std::string(each.name))) modules.push_back("linear_" + std::string(each.name));
  settings.take("training.lora_targets");
  return fmt::format("  _target_: megatron.bridge.peft.lora.LoRA\n  dim: {}\n  target_modules: [{}]\n",
                     settings.take("training.lora_rank").integer, fmt::join(modules, ", "));
}

}  // namespace

/// "flash" or "fused", where the scenario names a kernel of Transformer Engine; which FlashAttention it is, is not an argument.
std::string attention_backend(RunSettings& settings, const Training& t) {
  if (!t.flash_attention) return "unfused";
  const std::string& kernel = t.attention_kernel;
  settings.list_unless(kernel.empty() || kernel == "fa2" || kernel == "cudnn", "training.attention_kernel");
  return kernel.starts_with("fa") ? "flash" : kernel == "cudnn" ? "fused" : "";
}

EmittedRun emit_megatron(const Scenario& given) {
  const Scenario scenario = with_written_cut(given);
  RunSettings settings(scenario);
  Settings said = emit_settings(scenario, settings);
  const bool flash = settings.take("training.flash_attention").boolean;
  const std::string backend = attention_backend(settings, scenario.training);
  if (flash && backend != "fused") said.push_back({"use-flash-attn"});
  if (!backend.empty()) said.push_back({"attention-backend", backend});
  std::string text = environment_of(scenario) + "LAYOUT_ARGS=(\n";
  for (const auto& [key, value] : said) text += fmt::format("  --{}{}{}\n", key, value.empty() ? "" : " ", value);
  return {text + ")\n", settings.left()};
}

EmittedRun emit_megatron_bridge(const Scenario& given) {
  const Scenario scenario = with_written_cut(given);
  RunSettings settings(scenario);
  Settings said = emit_settings(scenario, settings);
  const auto is_said = [&](Name key) {
    return std::ranges::any_of(said, [&](const Said& each) { return each.key == key; });
  };
  Settings absent;
  for (const SettingRow& row : kMegatronRows) {
    if (is_said(row.theirs)) continue;
    if (row.kind == Kind::flag) absent.push_back({row.theirs, "false"});
    if (row.kind == Kind::negated) absent.push_back({"overlap-p2p-comm", "true"});
  }
  for (const char* flag :
       {"use-distributed-optimizer", "use-megatron-fsdp", "overlap-param-gather", "cross-entropy-loss-fusion"})
    if (!is_said(flag) && (scenario.parallel.zero_stage > 0 || flag != Name("overlap-param-gather")))
      absent.push_back({flag, "false"});
  for (const char* flag : {"bf16", "fp16", "first-last-layers-bf16"})
    if (!is_said(flag)) absent.push_back({flag, "false"});
  for (const auto& [key, value] : kUnlessSaid)
    if (!is_said(key)) absent.push_back({std::string(key), std::string(value)});
  if (!is_said("grad-reduce-in-bf16") && !is_said("accumulate-allreduce-grads-in-fp32"))
    absent.push_back({"grad-reduce-in-bf16"});
  if (is_said("no-check-for-nan-in-loss-and-grad")) absent.push_back({"no-check-for-nan-in-grad"});
  if (is_said("cpu-offloading-num-layers")) absent.push_back({"cpu-offloading"});
  said.insert(said.end(), absent.begin(), absent.end());
  std::map<Name, std::string> sections{{kPrecision, precision_object(scenario.training)}};
  if (const std::string adapters = adapters_object(settings, scenario); !adapters.empty()) sections["peft"] = adapters;
  for (const Said& each : said) {
    const auto* const found = std::ranges::find(kBridgeNames, each.key, &BridgeName::said);
    std::string name = each.key;
    std::ranges::replace(name, '-', '_');
    std::string value = each.value.empty() ? "true" : each.value;
    if (each.key == "recompute-modules" || each.key == "cuda-graph-scope")
      value = fmt::format("[{}]", fmt::join(split_words(value, " "), ", "));
    Name section = "model";
    if (found != std::end(kBridgeNames)) {
      section = found->section;
      name = found->name;
      if (!found->value.empty()) value = found->value;
    }
    const std::string line = fmt::format("  {}: {}\n", name, value);
    if (std::string& lines = sections[section]; lines.find(line) == std::string::npos) lines += line;
  }
  std::string text;
  for (const Name section :
       {"model", "train", "optimizer", "ddp", "mixed_precision", "checkpoint", "dist", "rerun_state_machine", "peft"})
    if (sections.contains(section)) text += fmt::format("{}:\n{}", section, sections[section]);
  return {text, settings.left()};
}

}  // namespace tracecast
