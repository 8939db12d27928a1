/// DeepSpeed's ds_config.json. Bucket sizes are elements and may be floats; "auto" is filled in by the launcher.
/// Source of the defaults: deepspeed/runtime/config.py and zero/config.py; docs/references.md#format-deepspeed
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"
#include "sim/base/words.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/launchers/deepspeed_settings.hpp"
#include "sim/import/launchers/setting_rows.hpp"
#include "sim/import/recognise.hpp"

namespace tracecast {
namespace {

using Kind = SettingRow::Kind;
using Name = std::string_view;

constexpr SettingRow kDeepspeedRows[] = {
    {"parallel.tp", "tensor_parallel.autotp_size", Kind::count},
    {"parallel.pp", "pipeline.stages", Kind::count},
    {"parallel.ep", "expert_parallel.autoep_size", Kind::count},
    {"parallel.reduce_bucket_size", "zero_optimization.reduce_bucket_size", Kind::count},
    {"parallel.allgather_bucket_size", "zero_optimization.allgather_bucket_size", Kind::count},
    {"parallel.prefetch_bucket_size", "zero_optimization.stage3_prefetch_bucket_size", Kind::count},
    {"parallel.param_persistence_threshold", "zero_optimization.stage3_param_persistence_threshold", Kind::count},
    {"training.micro_batch_size", "train_micro_batch_size_per_gpu", Kind::size},
    {"training.global_batch_size", "train_batch_size", Kind::size},
};

/// The same by the names that their fields have.
constexpr SettingRow kFieldNames[] = {
    {"parallel.prefetch_bucket_size", "zero_optimization.prefetch_bucket_size", Kind::count},
    {"parallel.param_persistence_threshold", "zero_optimization.param_persistence_threshold", Kind::count},
};

constexpr Name kWithoutEffect = R"(
    steps_per_print gradient_clipping scheduler wall_clock_breakdown optimizer.params fp16.loss_scale
    fp16.initial_scale_power fp16.hysteresis fp16.consecutive_hysteresis fp16.min_loss_scale
    bf16.check_grad_overflow zero_optimization.contiguous_gradients zero_optimization.stage3_gather
    zero_optimization.gather_16bit zero_optimization.sub_group_size zero_allow_untested_optimizer tensorboard wandb
    csv_monitor comms_logger flops_profiler dump_state)";

constexpr const char* kNeedsZero = "needs ZeRO: DeepSpeed offloads the optimizer at stages 1, 2 and 3 only";

/// DeepSpeed's own defaults, and what is forecast: any other value is listed as not mapped.
struct Default {
  Name key;
  Name value;
};
constexpr Default kDefaults[] = {{"zero_optimization.reduce_scatter", "true"},
                                 {"zero_optimization.stage3_max_live_parameters", "1000000000"},
                                 {"zero_optimization.stage3_max_reuse_distance", "1000000000"},
                                 {"zero_optimization.max_live_parameters", "1000000000"},
                                 {"zero_optimization.max_reuse_distance", "1000000000"},
                                 {"zero_optimization.allgather_partitions", "true"},
                                 {"zero_optimization.offload_optimizer.ratio", "1"},
                                 {"zero_optimization.offload_optimizer.pin_memory", "true"},
                                 {"zero_optimization.offload_param.pin_memory", "true"},
                                 {"fp16.fp16_master_weights_and_grads", "false"},
                                 {"bf16.bf16_master_weights_and_grads", "false"},
                                 {"bf16.bf16_optimizer_states", "false"}};

using Type = std::pair<Name, Name>;

/// torch.autocast beside parameters in fp32, of which linear layers are gathered and reduced in its type.
std::optional<Type> autocast_type(RunImport& run) {
  constexpr Name kEnabled = "torch_autocast.enabled", kDtype = "torch_autocast.dtype";
  const bool on = run.flag(kEnabled).value_or(false);
  run.pass_over("torch_autocast.lower_precision_safe_modules");
  if (!on) return std::nullopt;
  constexpr std::pair<Name, Name> kTypes[] = {{"bfloat16", "bf16"}, {"torch.bfloat16", "bf16"}, {"bf16", "bf16"},
                                              {"float16", "fp16"},  {"torch.float16", "fp16"},  {"fp16", "fp16"}};
  return Type{kDtype, run.choice<Name>(kDtype, kTypes).value_or("bf16")};
}

void assume_fp32(RunImport& run) {
  constexpr std::array<Name, 4> kSwitches{"bf16.enabled", "bfloat16.enabled", "fp16.enabled", "torch_autocast.enabled"};
  const bool said = std::ranges::any_of(kSwitches, [&](Name key) { return run.has(key); });
  if (!said && !run.is_overridden("training.dtype"))
    run.assume(
        "training.dtype = fp32: the file has no bf16, fp16 or torch_autocast; a training script may choose another");
}

/// The setting that says the type, and the type. "auto" is filled in by the training script, Hugging Face's Trainer for one: 16 bits
/// then.
Type type_of(RunImport& run) {
  constexpr Type kTypes[] = {{"bf16.enabled", "bf16"}, {"bfloat16.enabled", "bf16"}, {"fp16.enabled", "fp16"}};
  std::optional<Type> chosen;
  for (const Type& each : kTypes) {
    if (!run.flag(each.first).value_or(false)) continue;
    if (chosen && chosen->second != each.second) run.error(each.first, fmt::format("excludes {}", chosen->first));
    if (!chosen) chosen = each;
  }
  const std::optional<Type> autocast = autocast_type(run);
  if (chosen) return *chosen;
  if (autocast) {
    run.assume("torch_autocast: parameters are in 16 bits here beside an fp32 copy; in the run they are in fp32 alone");
    return *autocast;
  }
  for (const Type& each : kTypes) {
    if (!run.is_auto(each.first)) continue;
    if (!run.is_overridden("training.dtype"))
      run.assume(fmt::format("training.dtype = {}: {} is \"auto\", which the training script fills in", each.second,
                             each.first));
    return each;
  }
  assume_fp32(run);
  return {"fp16.enabled", "fp32"};
}

/// With ZeRO the copy of the parameters that the optimizer updates, and then its states, may have 16 bits.
void import_narrow_states(RunImport& run, Name dtype) {
  const std::string masters = fmt::format("{0}.{0}_master_weights_and_grads", dtype);
  constexpr Name kStates = "bf16.bf16_optimizer_states";
  const bool narrow = run.flag(masters).value_or(false);
  const bool states = dtype == "bf16" && run.flag(kStates).value_or(false);
  if (states && !narrow) return run.error(kStates, "needs bf16.bf16_master_weights_and_grads: true");
  if (!narrow) return;
  if (run.given_count("parallel.zero_stage", 0) == 0)
    return run.error(masters, "needs ZeRO: DeepSpeed has it at stages 1, 2 and 3 only");
  run.put_flag("training.master_weights", false, masters);
  if (states) return run.put("training.optimizer_state_dtype", "bf16", kStates);
  run.assume(fmt::format("{}: the optimizer's states have 16 bits here, as its parameters", masters));
}

/// Beside the 16-bit gradients, which are reduced.
void put_fp32_accumulation(RunImport& run) {
  run.put("training.grad_reduce_dtype", "fp32");
  run.put_flag("training.keep_16bit_gradients", true);
}

/// The type that gradients are added up in. Without ZeRO it is fp32 for bf16; at stage 1 fp32 chooses the same optimizer as there, unless
/// the optimizer is on the host (DeepSpeedEngine._do_optimizer_sanity_check).
void import_accumulation_type(RunImport& run, Name dtype) {
  constexpr Name kKey = "data_types.grad_accum_dtype";
  constexpr std::pair<Name, Name> kTypes[] = {{"fp32", "fp32"}, {"fp16", "fp16"}, {"bf16", "bf16"}};
  const std::optional<Name> type = run.choice<Name>(kKey, kTypes);
  if (!type) return;
  const std::int64_t stage = run.given_count("parallel.zero_stage", 0);
  if (stage == 0 && dtype == "bf16" && *type != "fp32")
    return run.error(kKey, "needs ZeRO: at stage 0 DeepSpeed adds gradients of bf16 up in fp32");
  if (stage == 1 && dtype == "bf16" && *type == "fp32" && run.given("training.offload_optimizer") == nullptr)
    return put_fp32_accumulation(run);
  if (stage > 0 && *type != dtype)
    run.assume(
        fmt::format("{} = {}: not modelled at stage {}; gradients are added up in {} here", kKey, *type, stage, dtype));
}

void import_precision(RunImport& run) {
  constexpr std::pair<Name, Name> kTypes[] = {{"fp32", "fp32"}, {"fp16", "fp16"}, {"bf16", "bf16"}, {"bfp16", "bf16"}};
  const auto [key, dtype] = type_of(run);
  run.put("training.dtype", dtype, key);
  if (dtype != "fp32") import_narrow_states(run, dtype);
  if (const auto type = run.choice<Name>("communication_data_type", kTypes))
    run.put("training.grad_reduce_dtype", *type, "communication_data_type");
  else
    run.put("training.grad_reduce_dtype", dtype);
  import_accumulation_type(run, dtype);
  import_bf16_optimizer(run, "zero_optimization.stage");
}

void import_optimizer(RunImport& run) {
  // Those that begin with Mu differ in learning rates only. 1-bit optimizers send other gradients.
  constexpr std::pair<Name, Name> kOptimizers[] = {{"adam", "adam"},    {"adamw", "adam"}, {"muadam", "adam"},
                                                   {"muadamw", "adam"}, {"lamb", "lamb"},  {"sgd", "sgd"},
                                                   {"musgd", "sgd"}};
  const std::string type = lower_case(run.word("optimizer.type"));
  if (type.empty()) return;
  const auto* const known = std::ranges::find(kOptimizers, Name(type), &std::pair<Name, Name>::first);
  if (known == std::end(kOptimizers))
    return run.error("optimizer.type", "is not supported (allowed: Adam AdamW MuAdam MuAdamW Lamb SGD MuSGD)");
  run.put("training.optimizer", known->second, "optimizer.type");
}

/// Groups inside data parallelism (MiCS), and sequences divided as Ulysses does.
void import_groups(RunImport& run) {
  constexpr Name kGroup = "zero_optimization.mics_shard_size";
  if (const auto size = run.count(kGroup); size && *size > 0) run.put("parallel.shard_group", *size, kGroup);
  import_ulysses(run, "sequence_parallel_size");
}

void import_offload(RunImport& run) {
  constexpr Name kOld = "zero_optimization.cpu_offload";
  import_deepspeed_offload(run, "zero_optimization.offload_optimizer.device", "zero_optimization.offload_param.device");
  if (!run.flag(kOld).value_or(false)) return;
  if (run.given_count("parallel.zero_stage", 0) == 0) return run.error(kOld, kNeedsZero);
  run.put_flag("training.offload_optimizer", true, kOld);
}

void import_zero(RunImport& run) {
  constexpr Name kSwitch = "zero_optimization";  // before the section of this name: stage 1
  constexpr Name kStage = "zero_optimization.stage";
  constexpr Name kOverlap = "zero_optimization.overlap_comm";
  const bool on = run.flag(kSwitch).value_or(false);
  const std::int64_t stage = run.count(kStage).value_or(on ? 1 : 0);
  put_deepspeed_stage(run, stage, on ? kSwitch : kStage);
  const auto overlap = run.flag(kOverlap);
  if (!overlap) return;
  run.put_flag("parallel.overlap_grad_reduce", *overlap, kOverlap);
  if (stage == 1 && *overlap)
    run.assume(
        fmt::format("{} with stage 1: releases before pull request 4887 of 2024 ignore it, and reduce after the "
                    "backward without buffers",
                    kOverlap));
}

/// Sizes that are "auto" as Hugging Face's Trainer fills them in (integrations/deepspeed.py), the latter two at stage 3.
void fill_in_sizes(RunImport& run) {
  constexpr std::int64_t kMaxHidden = 1 << 30;
  const std::int64_t hidden = std::min(run.given_count("model.hidden_size", 0), kMaxHidden);
  const auto fill = [&](const char* ours, Name key, std::int64_t elements) {
    if (!run.is_auto(key) || hidden <= 0) return;
    run.put(ours, elements, key);
    run.assume(fmt::format("{} = {}: {} is \"auto\", which Hugging Face's Trainer fills in so", ours, elements, key));
  };
  fill("parallel.reduce_bucket_size", "zero_optimization.reduce_bucket_size", hidden * hidden);
  if (run.given_count("parallel.zero_stage", 0) < 3) return;
  fill("parallel.prefetch_bucket_size", "zero_optimization.stage3_prefetch_bucket_size", hidden * hidden * 9 / 10);
  fill("parallel.param_persistence_threshold", "zero_optimization.stage3_param_persistence_threshold", 10 * hidden);
}

/// A global batch alone is one micro-batch of every rank (_set_batch_related_parameters).
void import_accumulation(RunImport& run) {
  constexpr Name kSteps = "gradient_accumulation_steps", kMicro = "train_micro_batch_size_per_gpu";
  const auto steps = run.count(kSteps);
  const bool alone = run.has("train_batch_size") && !run.has(kMicro) && !run.is_auto(kMicro) && !run.is_auto(kSteps) &&
                     !run.is_overridden("training.micro_batch_size");
  if (!steps && !alone) return;
  run.accumulation = {steps.value_or(1), std::string(kSteps)};
}

void set(nlohmann::ordered_json& root, const std::string& dotted, const JsonNode& value) {
  nlohmann::ordered_json* at = &root;
  for (std::size_t begin = 0; begin <= dotted.size();) {
    const std::size_t end = std::min(dotted.find('.', begin), dotted.size());
    at = &(*at)[dotted.substr(begin, end - begin)];
    begin = end + 1;
  }
  *at = value.integer;
}

/// The file says nothing of the model's code. Megatron-DeepSpeed's is fused, and Hugging Face's is not.
void assume_fused_operators(RunImport& run) {
  if (!run.is_overridden("stack"))
    run.assume("the model's operators are fused: of a model of Hugging Face they are not (--set stack=deepspeed)");
}

void import_deepspeed(RunImport& run) {
  run.put("parallel.data_parallel", "deepspeed");
  assume_fused_operators(run);
  import_zero(run);
  import_offload(run);
  import_rows(run, kFieldNames, AbsentFlag::is_open);
  import_rows(run, kDeepspeedRows, AbsentFlag::is_open);
  fill_in_sizes(run);
  import_groups(run);
  import_precision(run);
  import_optimizer(run);
  import_accumulation(run);
  for (const auto& [key, value] : kDefaults) run.pass_over_if(key, value);
  run.pass_over(kWithoutEffect);
}

EmittedRun emit_deepspeed(const Scenario& scenario) {
  const Parallel& p = scenario.parallel;
  const Training& t = scenario.training;
  RunSettings settings(scenario);
  nlohmann::ordered_json root;
  for (const auto& [key, value] : emit_rows(settings, kDeepspeedRows)) set(root, key, value);
  const std::int64_t dp = scenario.cluster.world_size / p.model_ranks();
  root["gradient_accumulation_steps"] = t.global_batch_size / (t.micro_batch_size * dp);
  root["zero_optimization"]["stage"] = p.zero_stage;
  settings.list_unless(p.zero_stage > 0 || t.dtype != Precision::bf16, "parallel.zero_stage");  // BF16_Optimizer
  root["zero_optimization"]["overlap_comm"] = settings.take("parallel.overlap_grad_reduce").boolean;
  settings.list_unless(p.overlap_param_gather == (p.zero_stage == 3), "parallel.overlap_param_gather");
  settings.list_unless(p.data_parallel == DataParallelKind::deepspeed, "parallel.data_parallel");
  if (t.offload_optimizer && p.zero_stage > 0) {
    settings.take("training.offload_optimizer");
    root["zero_optimization"]["offload_optimizer"]["device"] = "cpu";
  }
  if (settings.take("training.offload_parameters").boolean)
    root["zero_optimization"]["offload_param"]["device"] = "cpu";
  if (p.shard_group > 0) root["zero_optimization"]["mics_shard_size"] = settings.take("parallel.shard_group").integer;
  if (p.cp > 1 && p.cp_comm_type == ContextExchange::a2a) {
    settings.take("parallel.cp_comm_type");
    root["sequence_parallel_size"] = settings.take("parallel.cp").integer;
  }
  if (t.dtype == Precision::bf16 || t.dtype == Precision::fp16)
    root[t.dtype == Precision::bf16 ? "bf16" : "fp16"]["enabled"] = true;
  if (t.dtype == Precision::bf16 || t.dtype == Precision::fp16 || t.dtype == Precision::fp32)
    settings.take("training.dtype");
  if (t.dtype == Precision::bf16 && p.zero_stage > 0 && !t.master_weights) {
    settings.take("training.master_weights");
    root["bf16"]["bf16_master_weights_and_grads"] = true;
    if (settings.take("training.optimizer_state_dtype").string == "bf16") root["bf16"]["bf16_optimizer_states"] = true;
  }
  if (t.optimizer == OptimizerKind::sgd || t.optimizer == OptimizerKind::lamb) {
    settings.take("training.optimizer");
    root["optimizer"]["type"] = t.optimizer == OptimizerKind::sgd ? "SGD" : "Lamb";
  }
  root["communication_data_type"] = settings.take("training.grad_reduce_dtype").string;
  for (const char* covered : {"parallel.dp", "training.seq_length", "training.train_tokens"}) settings.take(covered);
  return {json_file(root), settings.left()};
}

bool is_deepspeed(std::string_view content, std::string_view) {
  return has_key(content, "zero_optimization") || has_key(content, "train_batch_size") ||
         has_key(content, "train_micro_batch_size_per_gpu");
}

}  // namespace

void put_deepspeed_stage(RunImport& run, std::int64_t stage, std::string_view key) {
  run.put("parallel.zero_stage", stage, key);
  run.put_flag("parallel.overlap_grad_reduce", stage == 3, key);
  run.put_flag("parallel.overlap_param_gather", stage == 3, key);
}

void import_bf16_optimizer(RunImport& run, std::string_view stage) {
  const JsonNode* const dtype = run.given("training.dtype");
  const bool narrow = dtype != nullptr && dtype->string == "bf16";
  if (!narrow || run.given_count("parallel.zero_stage", 0) > 0 || run.is_overridden("parallel.zero_stage")) return;
  run.put("parallel.zero_stage", 1, stage);
  put_fp32_accumulation(run);
  run.assume(
      "parallel.zero_stage = 1: at stage 0 DeepSpeed's BF16_Optimizer divides the optimizer's states all the same, and "
      "adds gradients up in fp32");
}

void import_deepspeed_offload(RunImport& run, std::string_view optimizer, std::string_view parameters) {
  constexpr std::pair<Name, bool> kDevices[] = {{"none", false}, {"cpu", true}, {"nvme", true}};
  const auto leaves_gpu = [&](std::string_view key) {
    if (run.is_auto(key)) run.assume(fmt::format("{} is \"auto\", which the launcher fills in: taken as none", key));
    if (run.says(key, "\"nvme\"")) run.assume(fmt::format("{} = nvme: taken as cpu", key));
    return run.choice<bool>(key, kDevices).value_or(false);
  };
  const std::int64_t stage = run.given_count("parallel.zero_stage", 0);
  const bool states = leaves_gpu(optimizer);
  if (states && stage == 0)
    run.error(optimizer, kNeedsZero);
  else if (states)
    run.put_flag("training.offload_optimizer", true, optimizer);
  if (!leaves_gpu(parameters)) return;
  if (stage < 3)
    run.assume(fmt::format("{}: no effect at stage {}, since DeepSpeed offloads parameters at stage 3 only", parameters,
                           stage));
  else if (!states)
    run.assume(fmt::format("{}: not modelled without {}; parameters stay on the GPU", parameters, optimizer));
  else
    run.put_flag("training.offload_parameters", true, parameters);
}

const Importer kDeepspeed{
    "deepspeed", "configuration of DeepSpeed (JSON)", "launchers.md", is_deepspeed,
    Launcher{parse_json_settings, RunImport::Names::dotted, "ds_config.json", import_deepspeed, emit_deepspeed}};

}  // namespace tracecast
