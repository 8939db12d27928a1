/// YAML of NeMo Automodel: Hugging Face models on FSDP2, with a recipe's sections.
/// Source: components/distributed/config.py (FSDP2Config), examples/llm_pretrain; docs/references.md#format-automodel

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/launchers/setting_rows.hpp"
#include "sim/import/launchers/yaml_document.hpp"
#include "sim/import/recognise.hpp"
#include "sim/io/fields.hpp"

namespace tracecast {
namespace {

using Name = std::string_view;

constexpr Name kWithoutEffect = R"(
    recipe seed rng. dist_env. checkpoint. dataset. dataloader. validation_dataset validation_dataloader.
    lr_scheduler. wandb. mlflow. ci. clip_grad_norm. step_scheduler. optimizer.lr optimizer.betas optimizer.eps
    optimizer.weight_decay optimizer.adam_w_mode optimizer.bias_correction model._target_ model.backend._target_
    model.trust_remote_code model.load_base_model distributed._target_ distributed.dp_size
    distributed.enable_fsdp2_prefetch distributed.fsdp2_ distributed.mp_policy._target_
    distributed.moe._target_ distributed.moe.ignore_router distributed.moe.wrap_outer distributed.moe.lm_head_precision
    parallelizer._target_ parallelizer.ignore_router parallelizer.wrap_outer parallelizer.lm_head_precision
    model.backend.te_fp8._target_ distributed.mp_policy.cast_forward_inputs distributed.mp_policy.output_dtype distributed.pipeline._target_
    distributed.pipeline.dtype distributed.pipeline.scale_grads autopipeline._target_ autopipeline.dtype
    autopipeline.scale_grads packed_sequence.)";

struct HubModel {
  Name id;  ///< of the Hugging Face hub
  Name ours;
};
constexpr HubModel kHubModels[] = {{"meta-llama/llama-2-7b", "llama-2-7b"},
                                   {"meta-llama/llama-2-13b", "llama-2-13b"},
                                   {"meta-llama/llama-2-70b", "llama-2-70b"},
                                   {"meta-llama/llama-3.1-8b", "llama-3.1-8b"},
                                   {"meta-llama/llama-3.1-70b", "llama-3.1-70b"},
                                   {"meta-llama/llama-3.1-405b", "llama-3.1-405b"},
                                   {"meta-llama/meta-llama-3-8b", "llama-3-8b"},
                                   {"meta-llama/meta-llama-3-70b", "llama-3-70b"},
                                   {"meta-llama/meta-llama-3.1-8b", "llama-3.1-8b"},
                                   {"meta-llama/meta-llama-3.1-70b", "llama-3.1-70b"},
                                   {"meta-llama/meta-llama-3.1-405b", "llama-3.1-405b"},
                                   {"mistralai/mixtral-8x7b-v0.1", "mixtral-8x7b"},
                                   {"openai/gpt-oss-20b", "gpt-oss-20b"},
                                   {"deepseek-ai/deepseek-v3", "deepseek-v3"},
                                   {"deepseek-ai/deepseek-v3-base", "deepseek-v3"},
                                   {"qwen/qwen3-8b", "qwen3-8b"},
                                   {"qwen/qwen3-30b-a3b", "qwen3-30b-a3b"},
                                   {"qwen/qwen3-235b-a22b", "qwen3-235b-a22b"}};

void import_hub_model(RunImport& run) {
  if (run.given("model") != nullptr) return;
  for (const char* key : {"model.pretrained_model_name_or_path", "model.config.pretrained_model_name_or_path"}) {
    std::string id = lower_case(run.word(key));
    if (id.empty()) continue;
    for (const Name suffix : {"-instruct", "-hf"})
      if (id.ends_with(suffix)) id.resize(id.size() - suffix.size());
    const auto* known = std::ranges::find_if(kHubModels, [&id](const HubModel& each) { return each.id == id; });
    if (known != std::end(kHubModels)) return run.put("model", known->ours, key);
    run.model_refused = true;
    return run.error(key, "is not a shipped model: give --model, the config.json of the model or a shipped one");
  }
}

/// "none" stands for a degree that follows from the others.
std::int64_t degree_of(RunImport& run, Name key) {
  const JsonNode* node = run.find(key);
  if (node == nullptr || (node->kind == JsonNode::Kind::string && lower_case(node->string) == "none")) return 1;
  return run.count(key).value_or(1);
}

/// What a mixture of experts is divided with: a section of its own, `parallelizer` until 2026; other models have it in `distributed`.
std::string parallelizer_key(const RunImport& run, Name key) {
  for (const Name section : {"distributed.moe", "parallelizer"})
    if (const std::string own = fmt::format("{}.{}", section, key); run.has(own)) return own;
  return fmt::format("distributed.{}", key);
}

/// The strategy by its name, or by the class that managed it until 2026.
void import_strategy(RunImport& run) {
  constexpr Name kStrategy = "distributed.strategy";
  const std::string reshard_key = parallelizer_key(run, "reshard_after_forward");
  constexpr Name kReplicate = "distributed.dp_replicate_size";
  constexpr Name kDefer = "distributed.defer_fsdp_grad_sync";
  const std::string manager = run.word("distributed._target_");
  std::string strategy = lower_case(run.word(kStrategy));
  if (strategy.empty())
    strategy = manager.ends_with("DDPManager")            ? "ddp"
               : manager.ends_with("MegatronFSDPManager") ? "megatron_fsdp"
                                                          : "fsdp2";
  if (strategy == "ddp") {
    run.put("parallel.zero_stage", 0, kStrategy);
    return run.put("parallel.data_parallel", "ddp", kStrategy);
  }
  if (strategy != "fsdp2" && strategy != "megatron_fsdp")
    return run.error(kStrategy, "is not supported (allowed: fsdp2 megatron_fsdp ddp)");
  const std::int64_t stage = run.count("distributed.zero_dp_strategy").value_or(3);
  if (strategy == "megatron_fsdp")
    import_megatron_fsdp(run, stage, kStrategy);
  else
    run.put("parallel.zero_stage", stage, kStrategy);
  run.shard_copies = {degree_of(run, kReplicate), std::string(kReplicate)};
  run.put_flag("parallel.defer_grad_sync", run.flag(kDefer).value_or(true), kDefer);
  const std::optional<bool> reshard = run.flag(reshard_key);
  const bool experts = run.given_count("parallel.ep", 1) > 1;  // MoEParallelizerConfig keeps the parameters
  const bool by_default = !experts && run.given_count("parallel.pp", 1) == 1;
  run.put_flag("parallel.reshard_after_forward", reshard.value_or(by_default), reshard_key);
  if (!reshard && by_default)
    run.assume(
        "parallel.reshard_after_forward = true: Automodel keeps the parameters of the last layer, here it does not");
}

/// The pipeline's section was `autopipeline` until 2026.
std::string pipeline_key(const RunImport& run, Name key) {
  const std::string now = fmt::format("distributed.pipeline.{}", key);
  return run.has(now) ? now : fmt::format("autopipeline.{}", key);
}

void import_pipeline(RunImport& run) {
  if (run.given_count("parallel.pp", 1) == 1) return;
  const std::string schedule_key = pipeline_key(run, "pp_schedule");
  const std::string layers_key = pipeline_key(run, "layers_per_stage");
  const std::string written = run.word(schedule_key);
  if (!put_schedule(run, written.empty() ? "1f1b" : written, schedule_key)) return;
  run.layers_per_stage = {run.count(layers_key).value_or(0), layers_key};
  constexpr std::pair<Name, StageRounding> kRoundings[] = {{"up", StageRounding::up}, {"down", StageRounding::down}};
  run.stage_rounding = run.choice<StageRounding>(pipeline_key(run, "round_virtual_stages_to_pp_multiple"), kRoundings)
                           .value_or(StageRounding::none);
}

/// With a pipeline the local batch is cut into micro-batches; without one it is the micro-batch. Until autumn 2025 the
/// data loader had the local batch, and the scheduler a number of them.
void import_batches(RunImport& run) {
  constexpr Name kGlobal = "step_scheduler.global_batch_size";
  constexpr Name kSteps = "step_scheduler.grad_acc_steps";
  const bool old = !run.has(kGlobal);
  const Name local_key = old ? run.first_of({"step_scheduler.local_batch_size", "dataloader.batch_size"})
                             : Name("step_scheduler.local_batch_size");
  const std::string micro_key = pipeline_key(run, "pp_microbatch_size");
  const bool pipeline = run.given_count("parallel.pp", 1) > 1;
  const auto local = run.count(local_key);
  const std::int64_t micro = run.count(micro_key).value_or(1);
  if (pipeline)
    run.put("training.micro_batch_size", micro, micro_key);
  else if (local)
    run.put("training.micro_batch_size", *local, local_key);
  if (const auto global = run.count(kGlobal)) run.put("training.global_batch_size", *global, kGlobal);
  if (pipeline && local && (micro < 1 || *local % micro != 0))
    return run.error(local_key, fmt::format("is not a multiple of {} = {}", micro_key, micro));
  run.local_batch = {pipeline ? local.value_or(0) : 0, std::string(local_key)};
  if (!old) return;
  constexpr std::int64_t kMax = 1'000'000;
  const auto steps = run.count(kSteps);
  const std::int64_t cuts = pipeline ? local.value_or(micro) / micro : 1;
  run.accumulation = {std::min(steps.value_or(1), kMax) * std::min(cuts, kMax),
                      std::string(steps ? kSteps : local_key)};
}

void import_optimizer(RunImport& run) {
  constexpr Name kClass = "optimizer._target_";
  const std::string written = run.word(kClass);
  const std::string name = lower_case(written);
  if (name.empty() || name.ends_with("adam") || name.ends_with("adamw")) return;
  if (name.ends_with(".sgd")) return run.put("training.optimizer", "sgd", kClass);
  run.assume(fmt::format("optimizer._target_ = {}: taken as adam, with its states and its update", written));
}

/// FSDP2 shards the parameters in the type that the model is loaded in, and the optimizer has no other copy, unless it says so
/// (import_states). The default, "auto", is the type of the hub's file: bf16.
void import_loaded_type(RunImport& run) {
  const Name key = run.first_of({"model.torch_dtype", "model.dtype"});
  const bool fp32 = says_type(run, key, "fp32");
  const bool said = fp32 || says_type(run, key, "bf16");
  const std::string why = run.has(key) ? fmt::format("{} = {} is taken as bf16", key, shortened(run.word(key)))
                                       : "the file has no torch_dtype";
  const auto take_over = [&](const std::string& ours, JsonNode value, Name text) {
    if (run.given(ours) != nullptr) return;
    if (said)
      run.put(ours, std::move(value), key);
    else
      run.put_default(ours, std::move(value), fmt::format("{} = {}: {}", ours, text, why));
  };
  take_over("training.master_weights", node_of(fp32), "false");
  take_over("training.optimizer_state_dtype", node_of(std::string(fp32 ? "fp32" : "bf16")), "bf16");
  run.take(key);
}

/// Types that Transformer Engine's FusedAdam has arguments for. Momentum and variance have one type here.
void import_states(RunImport& run) {
  constexpr Name kMomentum = "optimizer.exp_avg_dtype", kVariance = "optimizer.exp_avg_sq_dtype",
                 kMasters = "optimizer.master_weights";
  if (const auto masters = run.flag(kMasters)) run.put_flag("training.master_weights", *masters, kMasters);
  for (const Name type : {"bf16", "fp32"}) {
    if (!says_type(run, kMomentum, type) || !says_type(run, kVariance, type)) continue;
    run.put("training.optimizer_state_dtype", type, kMomentum);
    for (const Name key : {kMomentum, kVariance}) run.take(key);
  }
}

/// MaskedCrossEntropy is what the stacks stand for.
void import_loss(RunImport& run) {
  constexpr Name kClass = "loss_fn._target_";
  const std::string written = run.word(kClass);
  const std::string name = lower_case(written);
  if (name.empty() || name.ends_with("maskedcrossentropy")) return;
  const bool linear = name.ends_with("fusedlinearcrossentropy");
  if (linear || name.ends_with("teparallelcrossentropy")) run.put("training.cross_entropy", "fused", kClass);
  if (linear)
    run.assume(fmt::format("{}: counted as one kernel behind the output layer, whose logits are kept", kClass));
  else if (run.given("training.cross_entropy") == nullptr)
    run.assume(fmt::format("{} = {}: taken as the loss of the stack", kClass, written));
}

/// How tokens reach the experts of other ranks; until 2026 a switch.
void import_dispatcher(RunImport& run) {
  constexpr Name kDispatcher = "model.backend.dispatcher", kSwitch = "model.backend.enable_deepep";
  constexpr std::pair<Name, Name> kDispatchers[] = {
      {"torch", "alltoall"}, {"deepep", "deepep"}, {"hybridep", "hybridep"}, {"uccl_ep", "deepep"}};
  const auto dispatcher = run.choice<Name>(kDispatcher, kDispatchers);
  const auto deepep = run.flag(kSwitch);
  if (run.given_count("parallel.ep", 1) <= 1 || (!dispatcher && !deepep)) return;
  const Name chosen = dispatcher.value_or(deepep.value_or(false) ? "deepep" : "alltoall");
  const Name key = dispatcher ? kDispatcher : kSwitch;
  run.put("parallel.moe_dispatcher", chosen, key);
  if (chosen == "alltoall")
    run.assume(fmt::format("{}: tokens are sent to their experts here; in the run every rank gathers all", key));
}

void import_length(RunImport& run) {
  for (const char* key : {"packed_sequence.packed_sequence_size", "dataset.seq_length", "dataset.seq_len"})
    if (const auto length = run.count(key); length && *length > 0) return run.put("training.seq_length", *length, key);
}

/// 8 bits by Transformer Engine, where the model's backend has a section for them (TEFp8Config).
void import_transformer_engine_types(RunImport& run) {
  constexpr Name kRecipe = "model.backend.te_fp8.recipe", kClass = "model.backend.te_fp8._target_";
  constexpr std::pair<Name, Name> kRecipes[] = {{"current", "fp8"}, {"block", "fp8_block"}, {"mxfp8", "mxfp8"}};
  if (!run.has(kRecipe) && !run.has(kClass)) return;
  const std::optional<Name> type = run.has(kRecipe) ? run.choice<Name>(kRecipe, kRecipes) : Name("fp8");
  if (!type) return;
  run.put("training.dtype", *type, kRecipe);
  if (*type == "fp8") run.put("training.fp8_scaling", "current", kRecipe);
}

void import_types(RunImport& run) {
  constexpr std::pair<Name, Name> kTypes[] = {
      {"bfloat16", "bf16"}, {"torch.bfloat16", "bf16"}, {"float32", "fp32"}, {"torch.float32", "fp32"}};
  constexpr Name kParam = "distributed.mp_policy.param_dtype";
  constexpr Name kReduce = "distributed.mp_policy.reduce_dtype";
  const bool fp8 = run.flag("fp8.enabled").value_or(false);
  const Name type = run.choice<Name>(kParam, kTypes).value_or("bf16");
  run.put("training.dtype", fp8 ? Name("fp8") : type, fp8 ? Name("fp8.enabled") : kParam);
  import_transformer_engine_types(run);
  run.put("training.grad_reduce_dtype", run.choice<Name>(kReduce, kTypes).value_or("fp32"), kReduce);
}

void import_checkpointing(RunImport& run) {
  const std::string key = parallelizer_key(run, "activation_checkpointing");
  const JsonNode* node = run.find(key);
  if (node == nullptr) return;
  const bool flag = node->kind == JsonNode::Kind::boolean;
  if (!flag && node->string != "full" && node->string != "selective")
    return run.error(key, "is not supported (allowed: true false full selective)");
  const char* const recompute = flag                     ? (node->boolean ? "full" : "none")
                                : node->string == "full" ? "full"
                                                         : "selective_op";
  run.put("training.recompute", recompute, key);
}

void import_automodel(RunImport& run) {
  import_hub_model(run);
  for (const auto& [ours, theirs] : {std::pair("parallel.tp", "distributed.tp_size"),
                                     {"parallel.pp", "distributed.pp_size"},
                                     {"parallel.cp", "distributed.cp_size"},
                                     {"parallel.ep", "distributed.ep_size"}})
    if (const std::int64_t degree = degree_of(run, theirs); degree != 1) run.put(ours, degree, theirs);
  const bool experts = run.given_count("parallel.ep", 1) > 1;
  run.put("stack", experts ? "nemo-automodel" : "nemo-automodel-dense");
  import_strategy(run);
  import_pipeline(run);
  import_batches(run);
  import_optimizer(run);
  import_states(run);
  import_loaded_type(run);
  import_loss(run);
  import_dispatcher(run);
  import_length(run);
  import_types(run);
  import_checkpointing(run);
  const bool tensor = run.given_count("parallel.tp", 1) > 1;
  const bool async = run.flag("distributed.enable_async_tensor_parallel").value_or(false);
  const bool sequence = run.flag("distributed.sequence_parallel").value_or(false);
  run.put_flag("parallel.tp_comm_overlap", tensor && async, "distributed.enable_async_tensor_parallel");
  run.put_flag("parallel.sequence_parallel", tensor && (sequence || async), "distributed.sequence_parallel");
  const bool compiled =
      run.flag("distributed.enable_compile").value_or(false) || run.flag("compile.enabled").value_or(false);
  run.put_flag("training.compiled", compiled, "distributed.enable_compile");
  run.put_flag("training.unfused_elementwise", !compiled, "distributed.enable_compile");
  for (const char* fused_apart : {"training.fused_norms", "training.fused_rope"})
    if (compiled) run.put_flag(fused_apart, false, "distributed.enable_compile");
  if (const auto rank = run.count("peft.dim")) run.put("training.lora_rank", *rank, "peft.dim");
  run.pass_over(kWithoutEffect);
}

bool is_automodel(std::string_view content, std::string_view) {
  return head_contains(content, "nemo_automodel.") ||
         (head_contains(content, "step_scheduler:") && head_contains(content, "distributed:"));
}

}  // namespace

const Importer kAutomodel{"automodel", "configuration of NeMo Automodel (YAML)", "launchers.md", is_automodel,
                          Launcher{parse_yaml, RunImport::Names::dotted, "config.yaml", import_automodel, nullptr}};

}  // namespace tracecast
