#include "sim/import/launchers/launcher_rules.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/launchers/megatron_words.hpp"
#include "sim/plan/layout_keys.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {
namespace {

using File = const EmittedFile&;
using Name = std::string_view;

constexpr Name kArguments = "megatron/training/arguments.py";
constexpr Name kConfig = "megatron/core/transformer/transformer_config.py";
constexpr Name kSchedules = "megatron/core/pipeline_parallel/schedules.py";
constexpr Name kContext = "transformer_engine/pytorch/attention/dot_product_attention/context_parallel.py";
constexpr Name kGroups = "megatron/core/parallel_state.py";
constexpr Name kBridge = "megatron/bridge/training/config.py";
constexpr Name kDims = "torchtitan/distributed/parallel_dims.py";
constexpr Name kPipeline = "torchtitan/distributed/pipeline_parallel.py";
constexpr Name kJob = "torchtitan/config/job_config.py";
constexpr Name kPipeEngine = "deepspeed/runtime/pipe/engine.py";
constexpr Name kDeepspeedConfig = "deepspeed/runtime/config.py";
constexpr Name kParallelism = "accelerate/parallelism_config.py";

std::int64_t count(File file, Name key, std::int64_t otherwise = 1) {
  return file.settings.count(key).value_or(otherwise);
}
bool flag(File file, Name key) { return file.settings.flag(key).value_or(false); }
bool divides(std::int64_t part, std::int64_t whole) { return part > 0 && whole % part == 0; }

// ---- Megatron-LM and Megatron-Bridge, whose settings have the same names

std::int64_t tp(File f) { return count(f, "tensor-model-parallel-size"); }
std::int64_t pp(File f) { return count(f, "pipeline-model-parallel-size"); }
std::int64_t cp(File f) { return count(f, "context-parallel-size"); }
std::int64_t ep(File f) { return count(f, "expert-model-parallel-size"); }
bool fsdp(File f) { return flag(f, "use-megatron-fsdp"); }
bool distributed(File f) { return fsdp(f) || flag(f, "use-distributed-optimizer"); }
bool has_experts(File f) { return f.scenario.model.moe.has_value(); }
bool before_blackwell(File f) { return tracecast::before_blackwell(f.scenario.profile.architecture); }
bool one_connection(File f) { return f.text.find("export CUDA_DEVICE_MAX_CONNECTIONS=1\n") != Name::npos; }

std::vector<int> layout(File f) {
  const std::string text = f.settings.word("pipeline-model-parallel-layout");
  return text.empty() ? std::vector<int>{} : parse_pipeline_layout(text).value_or(std::vector<int>{});
}
bool has_layout(File f) { return f.settings.has("pipeline-model-parallel-layout"); }
std::int64_t chunks(File f) {
  const auto stages = static_cast<std::int64_t>(layout(f).size());
  if (stages > 0) return stages / std::max<std::int64_t>(pp(f), 1);
  return std::max(count(f, "num-virtual-stages-per-pipeline-rank"), count(f, "virtual-pipeline-model-parallel-size"));
}
std::int64_t microbatches(File f) {
  const std::int64_t dp = f.scenario.cluster.world_size / (tp(f) * pp(f) * cp(f));
  return count(f, "global-batch-size") / (count(f, "micro-batch-size") * std::max<std::int64_t>(dp, 1));
}
/// Layers to divide over the ranks of a pipeline.
std::int64_t items(File f) {
  return f.scenario.model.layers() + (flag(f, "account-for-embedding-in-pipeline-split") ? 1 : 0) +
         (flag(f, "account-for-loss-in-pipeline-split") ? 1 : 0);
}

bool fsdp_has_its_checkpoint(File f) { return !fsdp(f) || f.settings.word("ckpt-format") == "fsdp_dtensor"; }
bool checkpoint_has_its_fsdp(File f) { return f.settings.word("ckpt-format") != "fsdp_dtensor" || fsdp(f); }
bool fsdp_has_connections(File f) { return !fsdp(f) || !one_connection(f); }
bool groups_have_one_connection(File f) {
  return fsdp(f) || (tp(f) == 1 && cp(f) == 1) || !before_blackwell(f) || one_connection(f);
}
/// Experts over fewer data-parallel ranks would have other pipeline groups than the rest, unless pipeline ranks are the farthest apart.
bool pipelines_agree(File f) {
  if (!has_experts(f) || pp(f) == 1 || !flag(f, "use-tp-pp-dp-mapping")) return true;
  const std::int64_t ranks = f.scenario.cluster.world_size / pp(f);
  const std::int64_t experts = ep(f) * count(f, "expert-tensor-parallel-size", tp(f));
  return ranks / experts == ranks / (tp(f) * cp(f));
}
bool fsdp_has_usual_ranks(File f) { return !fsdp(f) || !flag(f, "use-tp-pp-dp-mapping"); }
bool stages_once(File f) {
  return (f.settings.has("num-layers-per-virtual-pipeline-stage") ? 1 : 0) +
             (f.settings.has("num-virtual-stages-per-pipeline-rank") ? 1 : 0) + (has_layout(f) ? 1 : 0) <=
         1;
}
bool layout_alone(File f) {
  return !has_layout(f) ||
         (!flag(f, "account-for-embedding-in-pipeline-split") && !flag(f, "account-for-loss-in-pipeline-split"));
}
bool layout_divides(File f) { return !has_layout(f) || divides(pp(f), static_cast<std::int64_t>(layout(f).size())); }
bool layout_is_complete(File f) {
  if (!has_layout(f)) return true;
  const std::vector<int> stages = layout(f);
  std::int64_t sum = 0;
  for (const int each : stages) sum += each;
  const std::string text = f.settings.word("pipeline-model-parallel-layout");
  return sum == f.scenario.model.layers() && std::count(text.begin(), text.end(), 'm') == f.scenario.model.mtp_layers &&
         text.front() == 'E' && text.back() == 'L';
}
bool layers_divide(File f) { return has_layout(f) || divides(pp(f), items(f)); }
bool chunks_divide(File f) { return has_layout(f) || chunks(f) == 1 || divides(pp(f) * chunks(f), items(f)); }
bool chunks_have_a_pipeline(File f) {
  const bool overlap = !flag(f, "no-overlap-p2p-communication");
  return chunks(f) <= 1 || pp(f) > (overlap ? 1 : 2);
}
/// Micro-batches of a virtual stage in a row.
std::int64_t group(File f) {
  return count(f, "microbatch-group-size-per-virtual-pipeline-stage",
               count(f, "microbatch-group-size-per-vp-stage", pp(f)));
}
bool interleaved_batches(File f) {
  if (chunks(f) <= 1) return true;
  if (group(f) < pp(f) || group(f) > microbatches(f)) return false;
  const std::int64_t last = microbatches(f) % group(f);
  return last == 0 || last >= pp(f);
}
bool gather_has_shards(File f) {
  return !flag(f, "overlap-param-gather") || (distributed(f) && flag(f, "overlap-grad-reduce"));
}
bool fp8_gather_has_shards(File f) { return !flag(f, "fp8-param-gather") || distributed(f); }
bool experts_divide(File f) {
  return ep(f) == 1 || (has_experts(f) && divides(ep(f), f.scenario.model.moe->experts) && !flag(f, "fp16"));
}
bool experts_with_sequences(File f) { return !has_experts(f) || tp(f) == 1 || flag(f, "sequence-parallel"); }
bool shared_overlap_by_alltoall(File f) {
  return !flag(f, "moe-shared-expert-overlap") || f.settings.word("moe-token-dispatcher-type") == "alltoall";
}
bool sequences_divide(File f) {
  return cp(f) == 1 || count(f, "seq-length", f.scenario.training.seq_length) % (2 * cp(f)) == 0;
}
bool has_windows(const Model& model) {
  for (int layer = 0; layer < model.layers(); ++layer)
    if (model.mixer(layer) == Mixer::attention && model.window(layer) > 0) return true;
  return false;
}
bool windows_without_ring(File f) {
  const std::string exchange = f.settings.word("cp-comm-type");
  return cp(f) == 1 || !has_windows(f.scenario.model) || exchange == "a2a" || exchange == "all_gather";
}
bool exchanged_heads_divide(File f) {
  const Model& model = f.scenario.model;
  const std::int64_t keys = model.latent_attention ? model.num_attention_heads : model.num_query_groups;
  return cp(f) == 1 || f.settings.word("cp-comm-type") != "a2a" ||
         (divides(tp(f) * cp(f), model.num_attention_heads) && divides(tp(f) * cp(f), keys));
}
bool tp_overlap_with_sequences(File f) { return !flag(f, "tp-comm-overlap") || flag(f, "sequence-parallel"); }
bool heads_divide(File f) {
  const Model& model = f.scenario.model;
  return divides(tp(f), model.num_attention_heads) &&
         (model.latent_attention.has_value() || divides(tp(f), model.num_query_groups));
}
/// The exchange of experts beside another micro-batch, with which full recomputation repeats whole virtual stages.
bool overlaps_exchange(File f) { return flag(f, "overlap-moe-expert-parallel-comm"); }
bool recomputes_fully(File f) { return f.settings.word("recompute-granularity") == "full"; }
bool recompute_has_its_method(File f) {
  const bool method = f.settings.has("recompute-method"), layers = f.settings.has("recompute-num-layers");
  return recomputes_fully(f) && !overlaps_exchange(f) ? method && layers : !method && !layers;
}
bool recomputes_experts(File f) {
  const std::vector<std::string> modules = f.settings.words("recompute-modules");
  return std::ranges::find(modules, "moe") != modules.end();
}
bool overlap_keeps_experts(File f) { return !overlaps_exchange(f) || !recomputes_experts(f); }
bool overlap_without_shared(File f) { return !overlaps_exchange(f) || !flag(f, "moe-shared-expert-overlap"); }
bool overlap_suits_model(File f) {
  return !overlaps_exchange(f) || (f.scenario.training.dtype != Precision::fp32 && f.scenario.model.mtp_layers <= 1);
}

// torchtitan and DeepSpeed say no graphs: the scenario says which the run has.

bool graphs_modules(File f) {
  return !f.scenario.training.cuda_graphs && !f.scenario.training.cuda_graph_modules.empty();
}
bool graphs(File f, Name module) {
  const std::vector<std::string>& modules = f.scenario.training.cuda_graph_modules;
  return graphs_modules(f) && std::ranges::find(modules, module) != modules.end();
}
bool graphs_without_recompute(File f) {
  return !(graphs_modules(f) && recomputes_fully(f)) && !(graphs(f, "moe_router") && recomputes_experts(f));
}
bool graphs_without_offloading(File f) { return !graphs_modules(f) || count(f, "cpu-offloading-num-layers", 0) == 0; }
bool overlap_without_graphs(File f) {
  if (!overlaps_exchange(f)) return true;
  const bool any = f.scenario.training.cuda_graphs || graphs_modules(f);
  return !graphs(f, "mlp") && !(any && recomputes_fully(f));
}

// ---- torchtitan

std::int64_t degree(File f, Name name) { return count(f, fmt::format("parallelism.{}_degree", name)); }
std::int64_t copies(File f) { return degree(f, "data_parallel_replicate"); }
std::int64_t model_ranks(File f) {
  return degree(f, "context_parallel") * degree(f, "tensor_parallel") * degree(f, "pipeline_parallel");
}
std::int64_t shards(File f) {
  const std::int64_t given = count(f, "parallelism.data_parallel_shard_degree", -1);
  return given >= 0 ? given : f.scenario.cluster.world_size / (copies(f) * model_ranks(f));
}
bool degrees_make_the_job(File f) {
  return shards(f) >= 1 && copies(f) * shards(f) * model_ranks(f) == f.scenario.cluster.world_size;
}
bool experts_over_shards(File f) {
  const std::int64_t experts = degree(f, "expert_parallel");
  const std::int64_t tensor = degree(f, "tensor_parallel");
  const std::int64_t context = degree(f, "context_parallel");
  const std::int64_t of_experts = degree(f, "expert_tensor_parallel");
  if (experts == 1) return true;
  if (of_experts == tensor) return experts % context == 0 && divides(experts, shards(f) * context);
  return of_experts == 1 && experts % (context * tensor) == 0 && divides(experts, shards(f) * context * tensor);
}
bool reduces_in_float32(File f) {
  const std::string type = f.settings.word("training.mixed_precision_reduce");
  return type.empty() || type == "float32";
}
const ScheduleVariant* titan_schedule(File f) {
  const std::string name = f.settings.word("parallelism.pipeline_parallel_schedule");
  return find_schedule(name.empty() ? "1F1B" : name);
}
std::int64_t ends(File f) {
  return count(f, "parallelism.pipeline_parallel_first_stage_less_layers") +
         count(f, "parallelism.pipeline_parallel_last_stage_less_layers");
}
std::int64_t titan_stages(File f) {
  const std::int64_t pipeline = degree(f, "pipeline_parallel");
  const ScheduleVariant* schedule = titan_schedule(f);
  const auto layers = f.settings.count("parallelism.pipeline_parallel_layers_per_stage");
  if (layers && *layers > 0) return (f.scenario.model.layers() + ends(f) + *layers - 1) / *layers;
  return pipeline * (schedule != nullptr && schedule->default_chunks == 1 ? 1 : 2);
}
bool titan_stages_divide(File f) {
  return degree(f, "pipeline_parallel") == 1 || divides(degree(f, "pipeline_parallel"), titan_stages(f));
}
bool titan_stages_suit_schedule(File f) {
  const std::int64_t pipeline = degree(f, "pipeline_parallel");
  const ScheduleVariant* schedule = titan_schedule(f);
  if (pipeline == 1) return true;
  if (schedule == nullptr) return false;
  const std::int64_t of_rank = titan_stages(f) / pipeline;
  const bool in_v = schedule->name == "zb-v" || schedule->name == "dualpipev";
  return schedule->default_chunks == 1 ? of_rank == 1 : in_v ? of_rank == 2 : of_rank >= 2;
}
bool titan_ends_fit(File f) {
  if (degree(f, "pipeline_parallel") == 1) return true;
  const std::int64_t least = (f.scenario.model.layers() + ends(f)) / titan_stages(f);
  return least >= 1 && count(f, "parallelism.pipeline_parallel_first_stage_less_layers") <= least &&
         count(f, "parallelism.pipeline_parallel_last_stage_less_layers") <= least;
}
bool titan_batch_divides(File f) {
  const std::int64_t local = count(f, "training.local_batch_size", 8);
  const std::int64_t global = count(f, "training.global_batch_size", -1);
  const std::int64_t micro = count(f, "parallelism.pipeline_parallel_microbatch_size");
  return (degree(f, "pipeline_parallel") == 1 || divides(micro, local)) &&
         (global < 0 || divides(local * copies(f) * shards(f), global));
}
bool titan_sequences_divide(File f) {
  return count(f, "training.seq_len", 2048) % (degree(f, "tensor_parallel") * 2 * degree(f, "context_parallel")) == 0;
}

// ---- DeepSpeed

std::int64_t zero(File f) { return count(f, "zero_optimization.stage", 0); }
bool pipeline_without_zero_2(File f) { return count(f, "pipeline.stages") == 1 || zero(f) < 2; }
bool deepspeed_batch(File f) {
  const Scenario& s = f.scenario;
  return count(f, "train_batch_size") == count(f, "train_micro_batch_size_per_gpu") *
                                             count(f, "gradient_accumulation_steps") *
                                             (s.cluster.world_size / s.parallel.model_ranks());
}
bool one_narrow_type(File f) { return !flag(f, "bf16.enabled") || !flag(f, "fp16.enabled"); }
bool mics_is_stage_3(File f) { return count(f, "zero_optimization.mics_shard_size", -1) <= 0 || zero(f) == 3; }

// ---- Accelerate

std::int64_t size(File f, Name name) { return count(f, fmt::format("parallelism_config.parallelism_config_{}", name)); }
bool mesh_is_the_job(File f) {
  return size(f, "dp_replicate_size") * size(f, "dp_shard_size") * size(f, "tp_size") * size(f, "cp_size") *
             size(f, "sp_size") ==
         count(f, "num_processes");
}
bool groups_with_shards(File f) {
  const bool groups = size(f, "tp_size") > 1 || size(f, "cp_size") > 1;
  return !groups || size(f, "dp_replicate_size") == 1 || size(f, "dp_shard_size") > 1;
}
bool fsdp_is_version_2(File f) {
  return f.settings.word("distributed_type") != "FSDP" || count(f, "fsdp_config.fsdp_version") == 2;
}

/// A rule of one launcher, or of several that make the same check.
struct Row {
  Name formats;  ///< names, separated by blanks
  Name says;     ///< settings of Megatron as Megatron-LM spells them, a value after '='
  Name source;
  bool (*obeyed)(File file);
};

constexpr Name kBothMegatrons = "megatron megatron-bridge";

constexpr Row kRows[] = {
    {"megatron", "--use-megatron-fsdp needs --ckpt-format=fsdp_dtensor", kArguments, fsdp_has_its_checkpoint},
    {"megatron", "--ckpt-format=fsdp_dtensor needs --use-megatron-fsdp", kArguments, checkpoint_has_its_fsdp},
    {"megatron", "--use-megatron-fsdp forbids CUDA_DEVICE_MAX_CONNECTIONS=1", kArguments, fsdp_has_connections},
    {"megatron", "before Blackwell, tensor or context parallelism without FSDP needs CUDA_DEVICE_MAX_CONNECTIONS=1",
     kArguments, groups_have_one_connection},
    {"megatron", "virtual stages are given in one way only", kArguments, stages_once},
    {"megatron", "a pipeline layout has a multiple of pp stages", kArguments, layout_divides},
    {kBothMegatrons, "a pipeline layout excludes --account-for-embedding… and --account-for-loss…", kConfig,
     layout_alone},
    {kBothMegatrons, "a pipeline layout has E first, L last, every layer, and m for a prediction layer", kConfig,
     layout_is_complete},
    {"megatron", "without a layout, pp divides the layers, embedding and loss counted as asked", kArguments,
     layers_divide},
    {"megatron", "without a layout, the virtual stages divide the layers of a pipeline rank", kConfig, chunks_divide},
    {"megatron", "virtual stages need pp above 1, and above 2 without overlapped sends", kArguments,
     chunks_have_a_pipeline},
    {kBothMegatrons, "with virtual stages, every group of micro-batches has at least pp", kSchedules,
     interleaved_batches},
    {"megatron", "--overlap-param-gather needs --overlap-grad-reduce and the distributed optimizer or FSDP", kArguments,
     gather_has_shards},
    {"megatron", "--fp8-param-gather needs the distributed optimizer or FSDP", kArguments, fp8_gather_has_shards},
    {"megatron", "ep divides the experts, and fp16 excludes it", kArguments, experts_divide},
    {kBothMegatrons, "--use-tp-pp-dp-mapping with a pipeline needs ep × etp = tp × cp of experts", kGroups,
     pipelines_agree},
    {"megatron", "experts with tp above 1 need --sequence-parallel", kArguments, experts_with_sequences},
    {"megatron", "--moe-shared-expert-overlap needs the alltoall dispatcher", kConfig, shared_overlap_by_alltoall},
    {"megatron", "2 cp divides the sequence", kArguments, sequences_divide},
    {kBothMegatrons, "a sliding window with cp needs --cp-comm-type=all_gather or a2a", kContext, windows_without_ring},
    {kBothMegatrons, "with --cp-comm-type=a2a, tp × cp divides the heads and the key-value heads", kContext,
     exchanged_heads_divide},
    {"megatron", "--tp-comm-overlap needs --sequence-parallel", kArguments, tp_overlap_with_sequences},
    {kBothMegatrons, "tp divides the heads and the key-value heads", kConfig, heads_divide},
    {kBothMegatrons,
     "full recomputation needs a method and a number of layers, no other has them, nor has "
     "--overlap-moe-expert-parallel-comm",
     kConfig, recompute_has_its_method},
    {kBothMegatrons, "--overlap-moe-expert-parallel-comm excludes moe in --recompute-modules", kConfig,
     overlap_keeps_experts},
    {kBothMegatrons, "--overlap-moe-expert-parallel-comm excludes --moe-shared-expert-overlap", kConfig,
     overlap_without_shared},
    {kBothMegatrons, "--overlap-moe-expert-parallel-comm needs 16 bits, and has one prediction layer at most", kConfig,
     overlap_suits_model},
    {kBothMegatrons,
     "--overlap-moe-expert-parallel-comm excludes CUDA graphs of mlp, and with full recomputation all graphs", kConfig,
     overlap_without_graphs},
    {kBothMegatrons, "CUDA graphs of modules exclude full recomputation, one of moe_router moe in --recompute-modules",
     kConfig, graphs_without_recompute},
    {kBothMegatrons, "CUDA graphs of modules exclude --cpu-offloading-num-layers", kConfig, graphs_without_offloading},
    {"megatron-bridge", "--use-megatron-fsdp needs --ckpt-format=fsdp_dtensor", kBridge, fsdp_has_its_checkpoint},
    {"megatron-bridge", "--use-megatron-fsdp excludes --use-tp-pp-dp-mapping", kBridge, fsdp_has_usual_ranks},
    {"megatron-bridge", "a pipeline layout has a multiple of pp stages", kConfig, layout_divides},
    {"megatron-bridge", "without a layout, pp and the virtual stages divide the layers", kConfig,
     [](File f) { return layers_divide(f) && chunks_divide(f); }},
    {"megatron-bridge", "ep divides the experts, and fp16 excludes it", kConfig, experts_divide},
    {"torchtitan", "replicate × shard × cp × tp × pp is the number of GPUs", kDims, degrees_make_the_job},
    {"torchtitan", "ep is divided by cp (× tp if the experts' tensor degree is 1) and divides shard × cp (× tp)", kDims,
     experts_over_shards},
    {"torchtitan", "2 × cp × tp divides the sequence", kDims, titan_sequences_divide},
    {"torchtitan", "mixed_precision_reduce is float32", kJob, reduces_in_float32},
    {"torchtitan", "pp divides the virtual stages that layers_per_stage makes", kPipeline, titan_stages_divide},
    {"torchtitan", "GPipe and 1F1B have one stage per rank, V schedules two, others at least two", kPipeline,
     titan_stages_suit_schedule},
    {"torchtitan", "no stage is smaller than what its embedding or loss counts", kPipeline, titan_ends_fit},
    {"torchtitan", "the micro-batch divides the local batch, local batches the global one", kPipeline,
     titan_batch_divides},
    {"deepspeed", "a pipeline excludes ZeRO-2 and ZeRO-3", kPipeEngine, pipeline_without_zero_2},
    {"deepspeed", "train_batch_size is micro-batch × accumulation × data-parallel ranks", kDeepspeedConfig,
     deepspeed_batch},
    {"deepspeed", "bf16 and fp16 exclude each other", kDeepspeedConfig, one_narrow_type},
    {"deepspeed", "mics_shard_size needs stage 3", kDeepspeedConfig, mics_is_stage_3},
    {"accelerate", "the sizes of parallelism_config multiply to num_processes", kParallelism, mesh_is_the_job},
    {"accelerate", "tp and cp exclude copies that are not sharded", kParallelism, groups_with_shards},
    {"accelerate", "parallelism_config needs FSDP of version 2", kParallelism, fsdp_is_version_2},
};

/// "--cp-comm-type=a2a" as "--cp-comm-type a2a" on a command line, else as "cp_comm_type: a2a".
std::string spelled(Name says, bool command_line) {
  std::string text;
  for (const Name part : split(says, ' ')) {
    std::string word(part);
    if (word.starts_with("--")) {
      if (!command_line) std::ranges::replace(word.erase(0, 2), '-', '_');
      if (const std::size_t equals = word.find('='); equals != std::string::npos)
        word.replace(equals, 1, command_line ? " " : ": ");
    }
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

std::vector<LauncherRule> all_rules() {
  std::vector<LauncherRule> rules;
  for (const Row& row : kRows)
    for (const Name format : split(row.formats, ' ')) {
      const bool command_line = launcher_named(format).file_name.ends_with(".sh");
      rules.push_back({format, spelled(row.says, command_line), row.source, row.obeyed});
    }
  return rules;
}

/// Whether a setting, "parallel.tp=8", belongs to a layout.
bool is_of_layout(Name setting) { return find_layout_key(setting.substr(0, setting.find('='))) != nullptr; }

}  // namespace

std::span<const LauncherRule> launcher_rules() {
  static const std::vector<LauncherRule> kRules = all_rules();
  return kRules;
}

std::vector<const LauncherRule*> broken_rules(std::string_view format, const std::string& text,
                                              const Scenario& scenario) {
  const Launcher& launcher = launcher_named(format);
  const Result<JsonDocument> parsed = launcher.parse(text, std::string(launcher.file_name));
  std::vector<const LauncherRule*> broken;
  std::optional<RunImport> settings;
  if (parsed) settings.emplace(*parsed, launcher.names);
  for (const LauncherRule& rule : launcher_rules())
    if (rule.format == format && (!settings || !rule.obeyed({text, *settings, scenario}))) broken.push_back(&rule);
  return broken;
}

std::vector<std::string> launcher_refusals(std::string_view format, const Scenario& scenario) {
  const EmittedRun run = emit_run(format, scenario);
  std::vector<std::string> refusals;
  for (const std::string& setting : run.unmapped)
    if (is_of_layout(setting)) refusals.push_back(fmt::format("{} cannot express {}", format, setting));
  for (const LauncherRule* rule : broken_rules(format, run.text, scenario))
    refusals.push_back(fmt::format("{}: {} ({})", format, rule->says, rule->source));
  return refusals;
}

}  // namespace tracecast
