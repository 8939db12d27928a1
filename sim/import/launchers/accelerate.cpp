/// Launch files of Hugging Face Accelerate: distributed_type says which of its sections counts; keys repeat the name of
/// their section.   Source: accelerate/utils/dataclasses.py; docs/references.md#format-accelerate
#include <algorithm>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/base/words.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/launchers/deepspeed_settings.hpp"
#include "sim/import/launchers/megatron_settings.hpp"
#include "sim/import/launchers/setting_rows.hpp"
#include "sim/import/launchers/yaml_document.hpp"
#include "sim/import/recognise.hpp"

namespace tracecast {
namespace {

using Kind = SettingRow::Kind;
using Name = std::string_view;

constexpr SettingRow kMegatronSection[] = {
    {"parallel.tp", "megatron_lm_config.megatron_lm_tp_degree", Kind::size},
    {"parallel.pp", "megatron_lm_config.megatron_lm_pp_degree", Kind::size},
    {"parallel.sequence_parallel", "megatron_lm_config.megatron_lm_sequence_parallelism", Kind::flag},
};
/// Names of accelerate, and PyTorch's meaning of them (set_rotate_method): all-gather is the default.
constexpr std::pair<Name, Name> kRotations[] = {{"allgather", "all_gather"}, {"alltoall", "p2p"}};
constexpr Name kRotation = "parallelism_config.parallelism_config_cp_comm_strategy";
constexpr SettingRow kMeshRows[] = {
    {"parallel.tp", "parallelism_config.parallelism_config_tp_size", Kind::count},
    {"parallel.cp", "parallelism_config.parallelism_config_cp_size", Kind::count},
};

constexpr Name kWithoutEffect = R"(
    compute_environment debug downcast_bf16 enable_cpu_affinity machine_rank main_ rdzv_backend same_network tpu_
    use_cpu num_machines command_file commands deepspeed_config.zero3_init_flag deepspeed_config.zero3_save
    deepspeed_config.gradient_clipping megatron_lm_config.megatron_lm_gradient fsdp_config.fsdp_cpu_ram
    fsdp_config.fsdp_state_dict fsdp_config.fsdp_sync fsdp_config.fsdp_use_orig fsdp_config.fsdp_transformer_layer
    gpu_ids)";

/// What is forecast: any other value is listed as not mapped. Version 2 of FSDP knows no other order of its gathers, and ignores these
/// settings. docs/references.md#format-accelerate
void pass_over_wrapping(RunImport& run, bool second) {
  run.pass_over_if("fsdp_config.fsdp_auto_wrap_policy", "\"TRANSFORMER_BASED_WRAP\"");
  run.pass_over_if("fsdp_config.fsdp_backward_prefetch", "\"BACKWARD_PRE\"");
  run.pass_over_if("fsdp_config.fsdp_forward_prefetch", "false");
  if (second) run.pass_over("fsdp_config.fsdp_backward_prefetch fsdp_config.fsdp_forward_prefetch");
}

/// FSDP of version 1 may have its strategy as fsdp_reshard_after_forward: FULL_SHARD. Version 2 has a switch there.
bool is_strategy(RunImport& run, Name key, std::span<const std::pair<Name, Name>> strategies) {
  return std::ranges::find(strategies, Name(run.word(key)), &std::pair<Name, Name>::first) != strategies.end();
}

void import_fsdp(RunImport& run) {
  constexpr Name kVersion = "fsdp_config.fsdp_version";
  constexpr Name kStrategy = "fsdp_config.fsdp_sharding_strategy";
  constexpr Name kReshard = "fsdp_config.fsdp_reshard_after_forward";
  constexpr Name kCheckpointing = "fsdp_config.fsdp_activation_checkpointing";
  constexpr Name kOffload = "fsdp_config.fsdp_offload_params";
  constexpr std::pair<Name, Name> kStrategies[] = {{"FULL_SHARD", "FULL_SHARD"},
                                                   {"1", "FULL_SHARD"},
                                                   {"SHARD_GRAD_OP", "SHARD_GRAD_OP"},
                                                   {"2", "SHARD_GRAD_OP"},
                                                   {"NO_SHARD", "NO_SHARD"},
                                                   {"3", "NO_SHARD"},
                                                   {"HYBRID_SHARD", "HYBRID_SHARD"},
                                                   {"4", "HYBRID_SHARD"},
                                                   {"HYBRID_SHARD_ZERO2", "_HYBRID_SHARD_ZERO2"},
                                                   {"_HYBRID_SHARD_ZERO2", "_HYBRID_SHARD_ZERO2"},
                                                   {"5", "_HYBRID_SHARD_ZERO2"}};
  run.put("stack", "hugging-face");  // FSDP of version 1
  const bool second = run.count(kVersion) == 2;
  if (second) run.put("parallel.data_parallel", "automatic", kVersion);
  pass_over_wrapping(run, second);
  const bool by_reshard = !second && !run.has(kStrategy) && is_strategy(run, kReshard, kStrategies);
  const Name key = by_reshard ? kReshard : kStrategy;
  if (const auto strategy = run.choice<Name>(key, kStrategies)) {
    run.put("parallel.zero_stage", *strategy == "NO_SHARD" ? 0 : 3, key);
    run.put("parallel.sharding_strategy", *strategy, key);
    if (strategy->find("SHARD_GRAD_OP") != Name::npos || strategy->find("ZERO2") != Name::npos)
      run.put_flag("parallel.reshard_after_forward", false, key);
  } else {
    run.put("parallel.zero_stage", 3);
    if (const auto reshard = run.flag(kReshard)) run.put_flag("parallel.reshard_after_forward", *reshard, kReshard);
  }
  if (run.flag(kCheckpointing).value_or(false)) {
    run.put("training.recompute", "full", kCheckpointing);
    run.put_flag("training.recompute_early_stop", true, kCheckpointing);  // CheckpointImpl.NO_REENTRANT
  }
  // FSDP moves the shards of parameters and gradients to the host, so the optimizer works there.
  if (!run.flag(kOffload).value_or(false)) return;
  run.put_flag("training.offload_optimizer", true, kOffload);
  run.put_flag("training.offload_parameters", true, kOffload);
}

void import_mesh(RunImport& run) {
  constexpr Name kReplicate = "parallelism_config.parallelism_config_dp_replicate_size";
  constexpr Name kShard = "parallelism_config.parallelism_config_dp_shard_size";
  import_rows(run, kMeshRows, AbsentFlag::is_open);
  const std::int64_t replicas = run.count(kReplicate).value_or(1);
  const auto shard = run.count(kShard);
  if (shard && *shard == 1 && replicas > 1) {
    run.put("parallel.zero_stage", 0, kShard);
  } else {
    run.shard_copies = {replicas, std::string(kReplicate)};
  }
  if (run.given_count("parallel.cp", 1) > 1)
    run.put("parallel.cp_comm_type", run.choice<Name>(kRotation, kRotations).value_or("all_gather"), kRotation);
  import_ulysses(run, "parallelism_config.parallelism_config_sp_size");
  // All of size 1: every process is a copy.
  const bool open = replicas == 1 && shard.value_or(1) == 1 && run.given_count("parallel.cp", 1) == 1 &&
                    run.given_count("parallel.tp", 1) == 1;
  if (open || !(shard || run.has(kReplicate)) || replicas < 1 || shard.value_or(1) < 1) return;
  constexpr std::int64_t kMaxRanks = 10'000'000;
  run.data_ranks = {std::min(replicas, kMaxRanks) * std::min(shard.value_or(1), kMaxRanks),
                    std::string(shard ? kShard : kReplicate)};
}

void import_deepspeed_section(RunImport& run) {
  constexpr Name kFile = "deepspeed_config.deepspeed_config_file";
  constexpr Name kStage = "deepspeed_config.zero_stage";
  if (run.has(kFile))
    return run.error(kFile, "has the settings: import it (tracecast import deepspeed), with --gpus of this file");
  run.put("stack", "deepspeed");
  run.put("parallel.data_parallel", "deepspeed", "distributed_type");
  if (!run.has(kStage)) run.assume("deepspeed_config.zero_stage = 2, Accelerate's default");
  put_deepspeed_stage(run, run.count(kStage).value_or(2), kStage);
  import_deepspeed_offload(run, "deepspeed_config.offload_optimizer_device", "deepspeed_config.offload_param_device");
}

void import_megatron_section(RunImport& run) {
  constexpr Name kMicro = "megatron_lm_config.megatron_lm_num_micro_batches";
  constexpr Name kRecompute = "megatron_lm_config.megatron_lm_recompute_activations";
  constexpr Name kDistributed = "megatron_lm_config.megatron_lm_use_distributed_optimizer";
  run.put("stack", "megatron-core");
  import_rows(run, kMegatronRows, AbsentFlag::is_false);  // Megatron-LM's own arguments, none of which is given
  run.put_flag("parallel.overlap_param_gather", false);
  import_rows(run, kMegatronSection, AbsentFlag::is_false);
  run.put("training.cross_entropy", "automatic");  // without --cross-entropy-loss-fusion
  if (run.flag(kRecompute).value_or(false)) run.put("training.recompute", "selective", kRecompute);
  if (run.flag(kDistributed).value_or(false)) run.put("parallel.zero_stage", 1, kDistributed);
  if (const auto count = run.count(kMicro)) {
    run.accumulation = {*count, std::string(kMicro)};
  }
}

void import_ddp(RunImport& run) {
  run.put("stack", "hugging-face");
  run.put("parallel.zero_stage", 0);
  run.put("parallel.data_parallel", "ddp", "distributed_type");
}

/// FSDP and DeepSpeed reduce gradients in the type of mixed_precision. Without them, autocast leaves parameters and gradients in fp32.
/// Megatron-LM (`megatron`) adds gradients of bf16 up in fp32, and has no fp8 here.
void import_precision(RunImport& run, bool converted, bool megatron) {
  constexpr Name kKey = "mixed_precision";
  constexpr std::pair<Name, Name> kPrecisions[] = {{"no", "fp32"}, {"fp16", "fp16"}, {"bf16", "bf16"}, {"fp8", "fp8"}};
  const std::optional<Name> written = run.choice<Name>(kKey, kPrecisions);
  const Name precision = written.value_or("fp32");
  if (!written && converted && run.is_overridden("training.dtype")) return;  // the stack's reduction
  if (!written && !run.has(kKey) && !run.is_overridden("training.dtype"))
    run.assume(
        "training.dtype = fp32: the file has no mixed_precision, and Accelerate's default is no; a training script may "
        "choose another");
  run.put("training.dtype", precision, kKey);
  const bool narrow = converted ? precision != "fp32" : megatron && precision == "fp16";
  run.put("training.grad_reduce_dtype", !narrow ? "fp32" : precision == "fp8" ? "bf16" : precision, kKey);
}

/// torch.compile of the model. Other backends of TorchDynamo are not known to fuse operators.
void import_compile(RunImport& run) {
  const Name key = run.first_of({"dynamo_config.dynamo_backend", "dynamo_backend"});
  const std::string backend = lower_case(run.word(key));
  if (backend.empty() || backend == "no" || backend == "false")  // NO is false in YAML
    return run.pass_over("dynamo_config.");
  if (backend != "inductor")
    return run.assume(fmt::format("{} = {}: not modelled; the model is not compiled here", key, shortened(backend)));
  run.put_flag("training.compiled", true, key);
  run.pass_over("dynamo_config.dynamo_use_");
  run.pass_over_if("dynamo_config.dynamo_mode", "\"default\"");
}

void import_accumulation(RunImport& run) {
  for (const char* key : {"gradient_accumulation_steps", "deepspeed_config.gradient_accumulation_steps"})
    if (const auto steps = run.count(key)) {
      run.accumulation = {*steps, std::string(key)};
    }
}

void import_accelerate(RunImport& run) {
  constexpr std::pair<Name, int> kTypes[] = {
      {"FSDP", 0}, {"DEEPSPEED", 1}, {"MEGATRON_LM", 2}, {"MULTI_GPU", 3}, {"NO", 3}};
  if (!run.has("distributed_type"))
    return run.errors.push_back(
        {run.file(), 0, "distributed_type", "", "is missing (allowed: FSDP DEEPSPEED MEGATRON_LM MULTI_GPU NO)"});
  const auto type = run.choice<int>("distributed_type", kTypes);
  import_accumulation(run);
  if (type == 0) import_fsdp(run);
  if (type == 1) import_deepspeed_section(run);
  if (type == 2) import_megatron_section(run);
  if (type == 3) import_ddp(run);
  import_mesh(run);
  if (const auto processes = run.count("num_processes"); processes && run.gpus == 0)
    run.put("cluster.world_size", *processes, "num_processes");
  import_precision(run, type == 0 || type == 1, type == 2);
  if (type == 1) import_bf16_optimizer(run, "deepspeed_config.zero_stage");
  if (type != 2) import_compile(run);  // Megatron-LM's model is not compiled
  run.pass_over(kWithoutEffect);
}

/// accelerate's name of a precision; empty: it has none.
Name precision_name(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "no";
    case Precision::fp16:
      return "fp16";
    case Precision::bf16:
      return "bf16";
    case Precision::fp8:
      return "fp8";
    default:
      return {};
  }
}

/// Degrees of a run in the words of accelerate.
struct Mesh {
  std::int64_t data_ranks;  ///< that share the work, those of a context included
  std::int64_t group;       ///< of them divide one copy of the model
  std::int64_t dp;
  bool sharded;  ///< by FSDP
};

Mesh mesh_of(const Scenario& scenario) {
  const Parallel& p = scenario.parallel;
  const std::int64_t data_ranks = scenario.cluster.world_size / (std::int64_t{p.tp} * p.pp);
  return {data_ranks, p.shard_group > 0 ? p.shard_group : data_ranks, data_ranks / p.cp, p.zero_stage == 3};
}

/// What distributed_type decides: takes what it means, lists what it cannot say.
void take_type(RunSettings& settings, const Scenario& scenario, const Mesh& mesh) {
  const Parallel& p = scenario.parallel;
  const Training& t = scenario.training;
  // Groups of one rank are copies that are not sharded.
  const bool divided = mesh.sharded && mesh.group != p.cp;
  settings.list_unless(divided || p.zero_stage == 0, "parallel.zero_stage");
  settings.list_unless(p.shard_group == 0 || divided, "parallel.shard_group");
  const bool by_type = !mesh.sharded               ? t.grad_reduce_dtype == Precision::fp32
                       : t.dtype == Precision::fp8 ? t.grad_reduce_dtype == Precision::bf16
                                                   : t.grad_reduce_dtype == t.dtype;
  settings.list_unless(by_type, "training.grad_reduce_dtype");
  settings.list_unless(p.data_parallel == (mesh.sharded ? DataParallelKind::automatic : DataParallelKind::ddp),
                       "parallel.data_parallel");
}

/// An import has the stack hugging-face.
void list_replaced_by_stack(RunSettings& settings, const Scenario& scenario, bool sharded) {
  const Parallel& p = scenario.parallel;
  const Training& t = scenario.training;
  constexpr Name kStack = "hugging-face";
  constexpr const char* kEarlyStop = "training.recompute_early_stop";
  settings.list_unless_of_stack(kStack, p.dtensor, "parallel.dtensor");
  if (t.recompute == Recompute::full && sharded)
    settings.list_unless(t.recompute_early_stop, kEarlyStop);
  else
    settings.list_unless_of_stack(kStack, !t.recompute_early_stop, kEarlyStop);
  settings.list_unless_of_stack(kStack, p.defer_grad_sync, "parallel.defer_grad_sync");
  settings.list_unless_of_stack(kStack, t.unfused_elementwise, "training.unfused_elementwise");
  settings.list_unless_of_stack(kStack, t.cross_entropy == CrossEntropy::pytorch, "training.cross_entropy");
}

std::string emit_fsdp(RunSettings& settings, const Scenario& scenario) {
  const Parallel& p = scenario.parallel;
  const Training& t = scenario.training;
  if (p.reshard_group == 0) settings.take("parallel.reshard_after_forward");
  if (t.recompute == Recompute::full || t.recompute == Recompute::none) settings.take("training.recompute");
  const bool offload = t.offload_parameters;  // which scenarios have with the optimizer only
  if (offload || !t.offload_optimizer) settings.take("training.offload_optimizer");
  settings.take("training.offload_parameters");
  return fmt::format(
      "fsdp_config:\n  fsdp_version: 2\n  fsdp_reshard_after_forward: {}\n  fsdp_activation_checkpointing: {}\n"
      "  fsdp_offload_params: {}\n",
      p.reshard_after_forward, t.recompute == Recompute::full, offload);
}

std::string emit_mesh(RunSettings& settings, const Parallel& p, const Mesh& mesh) {
  const auto line = [](Name key, const auto& value) {
    return fmt::format("  {}: {}\n", key.substr(key.find('.') + 1), value);
  };
  std::string text = "parallelism_config:\n";
  text += line("parallelism_config_dp_replicate_size", mesh.sharded ? mesh.data_ranks / mesh.group : mesh.dp);
  text += line("parallelism_config_dp_shard_size", mesh.sharded ? mesh.group / p.cp : 1);
  const bool ulysses = p.cp > 1 && p.cp_comm_type == ContextExchange::a2a;
  if (ulysses) text += line("parallelism_config_sp_size", settings.take("parallel.cp").integer);
  for (const auto& [key, value] : emit_rows(settings, std::span(kMeshRows).first(ulysses ? 1 : 2)))
    text += line(key, value.integer);
  if (p.cp > 1) settings.take("parallel.cp_comm_type");
  if (p.cp > 1 && !ulysses) text += line(kRotation, p.cp_comm_type == ContextExchange::p2p ? "alltoall" : "allgather");
  return text;
}

EmittedRun emit_accelerate(const Scenario& scenario) {
  const Training& t = scenario.training;
  const Mesh mesh = mesh_of(scenario);
  const Name precision = precision_name(t.dtype);
  RunSettings settings(scenario);
  const int machines = ceil_div(scenario.cluster.world_size, scenario.cluster.node.gpus_per_host);
  std::string text = fmt::format("distributed_type: {}\nnum_machines: {}\nnum_processes: {}\nmixed_precision: '{}'\n",
                                 mesh.sharded ? "FSDP" : "MULTI_GPU", machines, scenario.cluster.world_size,
                                 precision.empty() ? "bf16" : precision);
  if (!precision.empty()) settings.take("training.dtype");
  // The training script has the micro-batch, of one sequence unless a setting says so, and accumulates gradients: ClusterConfig knows no
  // key for it.
  const bool accumulates = t.global_batch_size != t.micro_batch_size * mesh.dp;
  settings.list_unless(t.micro_batch_size == 1, "training.micro_batch_size");
  settings.list_unless(t.micro_batch_size == 1 && !accumulates, "training.global_batch_size");
  take_type(settings, scenario, mesh);
  list_replaced_by_stack(settings, scenario, mesh.sharded);
  if (settings.take("training.compiled").boolean) text += "dynamo_config:\n  dynamo_backend: INDUCTOR\n";
  if (mesh.sharded) text += emit_fsdp(settings, scenario);
  text += emit_mesh(settings, scenario.parallel, mesh);
  for (const char* covered : {"parallel.dp", "training.seq_length", "training.train_tokens"}) settings.take(covered);
  return {text, settings.left()};
}

bool is_accelerate(std::string_view content, std::string_view) {
  return head_contains(content, "distributed_type:") || head_contains(content, "compute_environment:");
}

}  // namespace

const Importer kAccelerate{
    "accelerate", "configuration of Hugging Face Accelerate (YAML)", "launchers.md", is_accelerate,
    Launcher{parse_yaml, RunImport::Names::dotted, "config.yaml", import_accelerate, emit_accelerate}};

}  // namespace tracecast
