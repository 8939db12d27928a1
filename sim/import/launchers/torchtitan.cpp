/// torchtitan's TOML of the job, as it was until February 2026, and the JSON of the whole configuration that a run saves since then
/// (--debug.save_config_file): its configurations are Python functions, which nothing else can read.
/// Source of the defaults: torchtitan/config/job_config.py, 0.2.2; docs/references.md#format-torchtitan
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/launchers/setting_rows.hpp"
#include "sim/import/launchers/toml_document.hpp"
#include "sim/import/launchers/torchtitan_settings.hpp"
#include "sim/import/recognise.hpp"
#include "sim/io/fields.hpp"

namespace tracecast {
namespace {

using Kind = SettingRow::Kind;
using Name = std::string_view;

/// Names of early 2025. Pipelines of that time are refused: they counted micro-batches.
constexpr SettingRow kOldRows[] = {
    {"parallel.tp", "training.tensor_parallel_degree", Kind::size},
    {"parallel.cp", "experimental.context_parallel_degree", Kind::size},
    {"parallel.tp_comm_overlap", "experimental.enable_async_tensor_parallel", Kind::flag},
};

constexpr Name kWithoutEffect = R"(
    job. hf_assets_path dump_folder tokenizer. dataloader. profiler. profiling. metrics. comm. lr_scheduler.
    checkpoint. validation. validator. override. debug. experimental.custom_ activation_checkpoint. compile.backend
    compile.model model.hf_assets_path model.tokenizer_path optimizer.lr optimizer.eps optimizer.beta
    optimizer.weight_decay training.max_norm training.dataset training.seed training.gc_ quantize.)";

struct Flavour {
  Name model;
  Name flavour;
  Name ours;
  bool experts = false;
};
constexpr Flavour kFlavours[] = {
    {"llama3", "8B", "llama-3.1-8b"},
    {"llama3", "70B", "llama-3.1-70b"},
    {"llama3", "405B", "llama-3.1-405b"},
    {"deepseek_v3", "671B", "deepseek-v3", true},
    {"qwen3", "8B", "qwen3-8b"},
    {"qwen3", "30B-A3B", "qwen3-30b-a3b", true},
    {"gpt_oss", "20b", "gpt-oss-20b", true},
    {"llama2", "7B", "llama-2-7b"},
    {"llama2", "13B", "llama-2-13b"},
    {"llama2", "70B", "llama-2-70b"},
};

// ---- import

void import_model(RunImport& run) {
  const std::string name = run.word("model.name");
  const std::string flavour = run.word("model.flavor");
  if (run.given("model") != nullptr || flavour.empty()) return;
  const auto* known = std::ranges::find_if(
      kFlavours, [&](const Flavour& each) { return each.model == name && each.flavour == flavour; });
  if (known == std::end(kFlavours)) {
    run.model_refused = true;
    return run.error("model.flavor", fmt::format("of {} is not a shipped model: give --model", shortened(name)));
  }
  run.put("model", known->ours, "model.flavor");
}

/// A JSON has the model as model_spec, with a description of its layers that the flavour stands for. In configurations since mid-2026 the
/// length of a sequence is max_context_length, and a micro-batch is a number of tokens.
Result<JsonDocument> parse_torchtitan(const std::string& text, const std::string& file) {
  if (!is_json_object(text)) return parse_toml(text, file);
  Result<JsonDocument> document = parse_json(text, file);
  if (!document) return document;
  for (JsonMember& each : document->root.members) {
    if (each.key == "model_spec") {
      each.key = "model";
      std::erase_if(each.value.members,
                    [](const JsonMember& member) { return member.key != "name" && member.key != "flavor"; });
    }
    if (each.key == "training")
      for (JsonMember& member : each.value.members)
        if (member.key == "max_context_length") member.key = "seq_len";
  }
  return document;
}

/// FSDP over `shard` ranks and those of context parallelism, `replicate` copies of them; -1 is what is left.
void import_sharding(RunImport& run) {
  const Name shard_key =
      run.first_of({"parallelism.data_parallel_shard_degree", "training.data_parallel_shard_degree"});
  const Name replicate_key =
      run.first_of({"parallelism.data_parallel_replicate_degree", "training.data_parallel_replicate_degree"});
  constexpr Name kReshard = "parallelism.fsdp_reshard_after_forward";
  constexpr std::int64_t kMaxRanks = 10'000'000;
  constexpr std::pair<Name, int> kPolicies[] = {{"default", -1}, {"always", 1}, {"never", 0}};
  const std::int64_t replicas = run.count(replicate_key).value_or(1);
  const std::int64_t shard = run.count(shard_key).value_or(-1);
  const int policy = run.choice<int>(kReshard, kPolicies).value_or(-1);
  const bool sharded = shard != 1 || run.given_count("parallel.cp", 1) > 1;
  run.put("parallel.zero_stage", sharded ? 3 : 0, shard_key);
  const bool given = shard > 0 && replicas > 0;
  run.data_ranks = {given ? std::min(shard, kMaxRanks) * std::min(replicas, kMaxRanks) : 0,
                    std::string(run.has(shard_key) ? shard_key : replicate_key)};
  if (!sharded) return;  // enable_cpu_offload has no effect without FSDP, and is listed
  run.shard_copies = {replicas, std::string(replicate_key)};
  constexpr Name kOffload = "training.enable_cpu_offload";
  if (run.flag(kOffload).value_or(false))
    for (const char* offloaded : {"training.offload_optimizer", "training.offload_parameters"})
      run.put_flag(offloaded, true, kOffload);
  const bool pipeline = run.given_count("parallel.pp", 1) > 1;
  run.put_flag("parallel.reshard_after_forward", policy == 1 || (policy == -1 && !pipeline), kReshard);
  if (policy != 1 || !pipeline) return;
  // PyTorch's pipelines still gather nothing twice behind a backward, and reduce once (docs/references.md#fsdp-pipelines).
  run.put_flag("parallel.torch_pipelining", false, kReshard);
  run.put_flag("parallel.reshard_after_backward", false, kReshard);
  run.put_flag("parallel.defer_grad_sync", true, kReshard);
}

void import_pipeline(RunImport& run) {
  constexpr Name kSchedule = "parallelism.pipeline_parallel_schedule";
  constexpr Name kLayers = "parallelism.pipeline_parallel_layers_per_stage";
  constexpr Name kFirst = "parallelism.pipeline_parallel_first_stage_less_layers";
  constexpr Name kLast = "parallelism.pipeline_parallel_last_stage_less_layers";
  const std::string schedule = run.word(kSchedule);
  const std::string csv = run.word("parallelism.pipeline_parallel_schedule_csv");
  const auto per_stage = run.count(kLayers);
  const std::int64_t first = run.count(kFirst).value_or(1);
  const std::int64_t last = run.count(kLast).value_or(1);
  const std::int64_t pp = run.given_count("parallel.pp", 1);
  constexpr Name kOld = "experimental.pipeline_parallel_degree";
  if (run.count(kOld).value_or(1) > 1)
    return run.error(kOld,
                     "is of early 2025, when a pipeline had a number of micro-batches (write pipeline_parallel_degree "
                     "and pipeline_parallel_microbatch_size of [parallelism])");
  if (pp <= 1) return;
  if (!csv.empty() && !run.is_overridden("parallel.pp_schedule"))
    return run.error(
        "parallelism.pipeline_parallel_schedule_csv",
        fmt::format("has an order of its own, which tracecast schedule --times-from {} runs with the times of "
                    "these stages (elsewhere give --set parallel.pp_schedule=NAME, the nearest by name)",
                    run.file()));
  if (!put_schedule(run, !csv.empty() || schedule.empty() ? "1F1B" : schedule, kSchedule)) return;
  run.layers_per_stage = {per_stage.value_or(0), std::string(kLayers)};
  if (first > 1 || last > 1) return run.error(first > 1 ? kFirst : kLast, "is not supported (allowed: 0 1)");
  run.put_flag("parallel.account_for_embedding", first == 1, kFirst);
  run.put_flag("parallel.account_for_loss", last == 1, kLast);
}

/// The experts' tensor degree is 1 unless given; 0 stands for tp.
void import_expert_tensor(RunImport& run) {
  constexpr Name kDegree = "parallelism.expert_tensor_parallel_degree";
  const std::int64_t tp = run.given_count("parallel.tp", 1);
  const std::int64_t etp = run.count(kDegree).value_or(1);
  if (run.given_count("parallel.ep", 1) > 1 && etp != tp) run.put("parallel.etp", etp, kDegree);
}

/// How tokens reach the experts of other ranks. Without such ranks the setting has no effect.
void import_dispatcher(RunImport& run) {
  constexpr Name kBackend = "parallelism.expert_parallel_comm_backend";
  constexpr std::pair<Name, Name> kBackends[] = {
      {"standard", "alltoall"}, {"deepep", "deepep"}, {"hybridep", "hybridep"}};
  const auto backend = run.choice<Name>(kBackend, kBackends);
  if (backend && run.given_count("parallel.ep", 1) > 1) run.put("parallel.moe_dispatcher", *backend, kBackend);
}

/// A pipeline cuts the local batch into micro-batches; without one the local batch is the micro-batch.
void import_batch(RunImport& run) {
  const Name local_key = run.first_of({"training.local_batch_size", "training.batch_size"});
  constexpr Name kGlobal = "training.global_batch_size";
  constexpr Name kMicro = "parallelism.pipeline_parallel_microbatch_size";
  constexpr Name kTokens = "training.num_tokens_per_microbatch_per_dp_rank";
  if (const auto tokens = run.count(kTokens)) {
    const std::int64_t length = run.given_count("training.seq_length", 1);
    if (*tokens < length || *tokens % length != 0)
      return run.error(kTokens, fmt::format("is not a multiple of max_context_length = {}", length));
    run.put("training.micro_batch_size", *tokens / length, kTokens);
    if (const auto global = run.count(kGlobal); global && *global > 0)
      run.put("training.global_batch_size", *global, kGlobal);
    return;
  }
  const std::int64_t local = run.count(local_key).value_or(8);
  const std::int64_t micro = run.count(kMicro).value_or(1);
  const bool pipeline = run.given_count("parallel.pp", 1) > 1;
  run.put("training.micro_batch_size", pipeline ? micro : local, pipeline ? kMicro : local_key);
  if (pipeline && (micro < 1 || local % micro != 0))
    return run.error(local_key, fmt::format("is not a multiple of {} = {}", kMicro, micro));
  run.local_batch = {pipeline ? local : 0, std::string(local_key)};
  if (const auto global = run.count(kGlobal); global && *global > 0)
    return run.put("training.global_batch_size", *global, kGlobal);
  if (!pipeline) return;
  run.accumulation = {local / micro, std::string(local_key)};
}

/// The JSON has a model_spec; its members are those of a TOML's model (parse_torchtitan).
bool is_saved_configuration(const JsonNode& root) {
  return root.find("hf_assets_path") != nullptr || root.find("model_converters") != nullptr ||
         root.find("dump_folder") != nullptr;
}

/// Since mid-2026 a policy is a Python class, of which the JSON has the fields only.
void import_policy(RunImport& run, const JsonNode& policy) {
  constexpr Name kPolicy = "activation_checkpoint";
  const JsonNode* regions = policy.find("save_regions");
  const bool all = regions != nullptr && regions->items.size() == 1 && regions->items[0].string == "*";
  if (policy.kind == JsonNode::Kind::null)
    run.put("training.recompute", "none", kPolicy);
  else if (regions != nullptr && (all || regions->items.empty()))
    run.put("training.recompute", all ? "selective_op" : "full", kPolicy);
  else if (!run.is_overridden("training.recompute"))
    run.error(
        kPolicy,
        "does not say which policy it is: give --set training.recompute=selective_op (SelectiveAC) or full (FullAC)");
}

void import_torchtitan_recompute(RunImport& run) {
  constexpr std::pair<Name, Name> kModes[] = {{"none", "none"}, {"selective", "selective_op"}, {"full", "full"}};
  constexpr Name kMode = "activation_checkpoint.mode";
  constexpr Name kOption = "activation_checkpoint.selective_ac_option";
  if (const JsonNode* policy = run.theirs().find("activation_checkpoint");
      policy != nullptr && !run.has(kMode) && is_saved_configuration(run.theirs()))
    return import_policy(run, *policy);
  const Name mode = run.choice<Name>(kMode, kModes).value_or("selective_op");
  const bool by_default = mode == "selective_op" && !run.has(kOption) && !is_saved_configuration(run.theirs());
  const std::string option = by_default ? "2" : run.word(kOption);
  if (by_default) run.assume(fmt::format("{} = 2, torchtitan's default to 0.2.2", kOption));
  if (mode != "selective_op" || option.empty() || option == "op") return run.put("training.recompute", mode, kMode);
  const std::optional<int> interval = parse_number<int>(option);
  if (!interval || *interval < 0) return run.error(kOption, "is not supported (allowed: op, or every how many layers)");
  run.put("training.recompute", "full", kOption);
  if (*interval > 1)  // 0 is every layer, as 1 is
    run.assume(
        fmt::format("of every {} layers of a stage one is recomputed: the first ones stand for them", *interval));
  run.recompute_interval = {*interval, std::string(kOption) + (by_default ? " (torchtitan's default)" : "")};
}

/// Of whole layers. torchtitan passes its early_stop on since 0.2, with false where a file has none; before, PyTorch's true held. Files of
/// before have training.batch_size.
void import_early_stop(RunImport& run) {
  constexpr Name kEarly = "activation_checkpoint.early_stop";
  const JsonNode* const recompute = run.given("training.recompute");
  if (const auto early = run.flag(kEarly)) return run.put_flag("training.recompute_early_stop", *early, kEarly);
  const bool whole = recompute != nullptr && recompute->string == "full";
  if (!whole || run.has("training.batch_size")) return;
  run.put_default("training.recompute_early_stop", node_of(false),
                  fmt::format("{} = false, torchtitan's default since 0.2", kEarly));
}

constexpr const char* kOldFloat8Section = "float8";  ///< of earlier releases
constexpr const char* kOldMxSection = "mx";

/// A model converter, by the name that torchtitan registers.
struct Converter {
  Name name;
  Name section;        ///< of its settings, by its own name
  Name other_section;  ///< by that of another release
  Name dtype;
  bool experts = false;  ///< of the multiplications of experts, not of linear layers
};
constexpr Converter kConverters[] = {
    {kFloat8Section, kFloat8Section, kOldFloat8Section, "fp8"},
    {kOldFloat8Section, kOldFloat8Section, kFloat8Section, "fp8"},
    {kMxSection, kMxSection, kOldMxSection, "mxfp8"},
    {kOldMxSection, kOldMxSection, kMxSection, "mxfp8"},
    {"quantize.grouped_mm.float8", "", "", "fp8", true},
    {"quantize.grouped_mm.mx", "", "", "mxfp8", true},
};

/// Linear layers of a block, by parts of the names that a filter may have.
struct LinearNames {
  Name part;
  std::array<Name, 4> names;
};
constexpr LinearNames kLinearNames[] = {{"attention", {"attention.wq", "attention.wk", "attention.wv", "attention.wo"}},
                                        {"mlp", {"feed_forward.w1", "feed_forward.w2", "feed_forward.w3", ""}}};

/// One scale for a tensor, or one for each row.
void import_float8(RunImport& run, Name section) {
  constexpr std::array kRecipes{std::pair{Name("tensorwise"), false}, std::pair{Name("rowwise"), true},
                                std::pair{Name("rowwise_with_gw_hp"), true}};
  const std::string recipe = fmt::format("{}.recipe_name", section),
                    gather = fmt::format("{}.enable_fsdp_float8_all_gather", section);
  const bool gathers = run.flag(gather).value_or(false);
  if (gathers && !run.has(recipe)) run.put_flag("training.fp8_param_gather", true, gather);
  if (!run.has(recipe)) return;
  if (run.word(recipe) == "rowwise_with_gw_hp")
    run.assume(fmt::format("{} rowwise_with_gw_hp: weight gradients are multiplied in fp8 here", recipe));
  const auto by_row = run.choice<bool>(recipe, kRecipes);
  if (!by_row) return;
  run.put_flag("training.row_scales", *by_row, recipe);
  if (gathers && *by_row) run.assume(fmt::format("{}: parameters are gathered in bf16 here", gather));
  if (gathers && !*by_row) run.put_flag("training.fp8_param_gather", true, gather);
}

/// Parts whose layers a filter keeps from the converter; a layer whose name contains one of its words stays as it is.
/// What keeps only some layers of a part is said. mx leaves the output layer out unless a filter is given, float8 does
/// not.
std::vector<std::string> import_filter(RunImport& run, const Converter& converter) {
  std::string key = fmt::format("{}.filter_fqns", converter.section);
  const std::string other = fmt::format("{}.filter_fqns", converter.other_section);
  if (!run.has(key) && run.has(other)) key = other;
  std::vector<std::string> words = run.words(key);
  if (!run.has(key) && converter.dtype == "mxfp8") words.emplace_back("output");
  const auto filtered = [&](Name layer) {
    return std::ranges::any_of(words, [&](const std::string& word) { return layer.find(word) != Name::npos; });
  };
  run.put_flag("training.fp8_output_layer", !filtered("output") && !filtered("lm_head"), key);
  std::vector<std::string> wide;
  std::vector<Name> kept;
  for (const auto& [part, names] : kLinearNames) {
    std::vector<Name> of_part;
    for (const Name name : names)
      if (!name.empty() && filtered(name)) of_part.push_back(name);
    if (std::ssize(of_part) == std::ssize(names) - std::ranges::count(names, Name()))
      wide.emplace_back(part);
    else
      kept.insert(kept.end(), of_part.begin(), of_part.end());
  }
  if (!kept.empty()) run.assume(fmt::format("{}: {} multiply in {} here", key, fmt::join(kept, " "), converter.dtype));
  if (filtered("auto_filter_small_kn"))
    run.assume(fmt::format("{}: no layer is too small for {} here", key, converter.dtype));
  return wide;
}

bool has_experts(const RunImport& run) {
  const JsonNode* const model = run.given("model");
  if (model == nullptr || model->kind != JsonNode::Kind::string) {
    const JsonNode* const experts = run.given("model.moe");
    return experts != nullptr && experts->kind == JsonNode::Kind::object;
  }
  return std::ranges::any_of(kFlavours,
                             [&](const Flavour& each) { return each.ours == model->string && each.experts; });
}

/// The converters that a file names. Linear layers and experts have their own.
std::vector<const Converter*> converters_of(RunImport& run) {
  constexpr Name kKey = "model.converters";
  std::vector<const Converter*> found;
  for (const std::string& each : run.words(kKey)) {
    const auto* const known = std::ranges::find(kConverters, Name(each), &Converter::name);
    if (known == std::end(kConverters)) {
      std::string names;
      for (const Converter& one : kConverters) names += " " + std::string(one.name);
      run.error(kKey, fmt::format("is not supported (allowed:{})", names));
      return {};
    }
    found.push_back(known);
  }
  constexpr Name kOldSwitch = "float8.enable_float8_linear";
  if (run.flag(kOldSwitch).value_or(false)) found.push_back(&kConverters[1]);
  return found;
}

/// Numbers of linear layers and experts; what no converter is for stays in bf16.
void import_converters(RunImport& run) {
  const std::vector<const Converter*> found = converters_of(run);
  const auto find = [&](bool of_experts) {
    const auto each = std::ranges::find(found, of_experts, &Converter::experts);
    return each == found.end() ? nullptr : *each;
  };
  const bool experts = has_experts(run);
  const Converter* const linear = find(false);
  const Converter* const grouped = experts ? find(true) : nullptr;
  if (linear == nullptr && grouped == nullptr) return;
  const Name dtype = linear != nullptr ? linear->dtype : grouped->dtype;
  if (grouped != nullptr && grouped->dtype != dtype)
    return run.error("model.converters", "is not supported: linear layers and experts have different numbers");
  run.put("training.dtype", dtype, "model.converters");
  std::vector<std::string> wide{"attention", "mlp"};
  if (linear != nullptr) wide = import_filter(run, *linear);
  if (linear != nullptr && dtype == "fp8")
    for (const Name section : {linear->section, linear->other_section}) import_float8(run, section);
  if (experts && grouped == nullptr) wide.emplace_back("experts");
  if (wide.empty()) return;
  run.put("training.bf16_modules", node_of(wide), "model.converters");
}

/// float8 and mx are model converters.
void import_precision(RunImport& run) {
  constexpr std::pair<Name, Name> kTypes[] = {{"bfloat16", "bf16"}, {"float32", "fp32"}};
  constexpr Name kReduce = "training.mixed_precision_reduce";
  constexpr Name kParam = "training.mixed_precision_param";
  constexpr Name kStored = "training.dtype";
  run.put("training.grad_reduce_dtype", run.choice<Name>(kReduce, kTypes).value_or("fp32"), kReduce);
  run.put("training.dtype", run.choice<Name>(kParam, kTypes).value_or("bf16"), kParam);
  if (run.choice<Name>(kStored, kTypes) == "bf16") {  // parameters and states, without a copy in fp32
    run.put_flag("training.master_weights", false, kStored);
    run.put("training.optimizer_state_dtype", "bf16", kStored);
  }
  if (is_saved_configuration(run.theirs()) && !run.is_overridden("training.dtype")) {
    constexpr Name kSaved = "model_converters.converters";
    const JsonNode* saved = run.find(kSaved);
    if (saved != nullptr && !saved->items.empty())
      return run.error(kSaved, "does not say which converters these are: give --set training.dtype=fp8, mxfp8 or bf16");
    if (saved == nullptr) run.assume("no converter (float8, mx): the file does not say what converts the model");
  }
  import_converters(run);
}

/// Model and loss are compiled apart: both, unless the file names one of them.
void import_compile(RunImport& run) {
  constexpr Name kCompile = "compile.enable";
  constexpr Name kComponents = "compile.components";
  const bool old = run.flag("training.compile").value_or(false);
  const bool on = run.flag(kCompile).value_or(old);
  const std::vector<std::string> components = run.words(kComponents);
  const bool all = !run.has(kComponents);
  const auto compiles = [&](Name part) {
    return on && (all || std::ranges::find(components, part) != components.end());
  };
  const bool model = compiles("model");
  const bool loss = compiles("loss");
  run.put_flag("training.compiled", model, kCompile);
  run.put_flag("training.unfused_elementwise", !model, kCompile);
  run.put("training.cross_entropy",
          !on || (model && loss) ? "automatic"
          : loss                 ? "compiled"
                                 : "pytorch",
          all ? kCompile : kComponents);
}

void import_others(RunImport& run) {
  constexpr std::pair<Name, Name> kRotations[] = {{"allgather", "all_gather"}, {"alltoall", "p2p"}};
  constexpr Name kRotation = "parallelism.context_parallel_rotate_method";
  if (run.given_count("parallel.cp", 1) > 1)
    run.put("parallel.cp_comm_type", run.choice<Name>(kRotation, kRotations).value_or("all_gather"), kRotation);
  constexpr std::pair<Name, Name> kOptimizers[] = {{"AdamW", "adam"}, {"Adam", "adam"}};
  if (const auto optimizer = run.choice<Name>("optimizer.name", kOptimizers))
    run.put("training.optimizer", *optimizer, "optimizer.name");
  import_compile(run);
  const bool sequence_parallel = run.flag("parallelism.enable_sequence_parallel").value_or(true);
  run.put_flag("parallel.sequence_parallel", sequence_parallel && run.given_count("parallel.tp", 1) > 1,
               "parallelism.tensor_parallel_degree");
  run.find("training.steps");
}

void import_torchtitan(RunImport& run) {
  run.put("stack", "torchtitan");
  import_model(run);
  import_rows(run, kTorchtitanRows, AbsentFlag::is_false);
  import_rows(run, kOldRows, AbsentFlag::is_open);
  import_expert_tensor(run);
  import_dispatcher(run);
  import_sharding(run);
  import_pipeline(run);
  import_batch(run);
  import_torchtitan_recompute(run);
  import_precision(run);
  import_others(run);
  import_early_stop(run);
  run.pass_over(kWithoutEffect);
}

bool is_torchtitan(std::string_view content, std::string_view) {
  if (is_json_object(content))
    return has_key(content, "model_spec") && has_key(content, "parallelism") && has_key(content, "training");
  return head_contains(content, "[parallelism]") ||
         (head_contains(content, "[training]") && head_contains(content, "[model]"));
}

}  // namespace

const Importer kTorchtitan{
    "torchtitan", "configuration of torchtitan (TOML)", "launchers.md", is_torchtitan,
    Launcher{parse_torchtitan, RunImport::Names::dotted, "config.toml", import_torchtitan, emit_torchtitan}};

}  // namespace tracecast
