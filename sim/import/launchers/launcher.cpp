#include "sim/import/launchers/launcher.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/import/launchers/argument_document.hpp"
#include "sim/import/launchers/launcher_formats.hpp"
#include "sim/import/launchers/toml_document.hpp"
#include "sim/import/launchers/yaml_document.hpp"
#include "sim/io/overrides.hpp"
#include "sim/io/scenario_document.hpp"
#include "sim/plan/plan.hpp"

namespace tracecast {
namespace {

Result<JsonDocument> parse_json_file(const std::string& content, const std::string& file) {
  return parse_json(content, file);
}

/// Arguments on a command line or in a script, or the YAML of Megatron's tests.
Result<JsonDocument> parse_megatron(const std::string& content, const std::string& file) {
  if (!file.ends_with(".yaml") && !file.ends_with(".yml")) return parse_arguments(content, file);
  Result<JsonDocument> document = parse_yaml(content, file);
  const JsonNode* arguments = document ? document->root.find("MODEL_ARGS") : nullptr;
  if (arguments == nullptr) return document;
  return JsonDocument{file, JsonNode(*arguments)};  // and nothing of the environment variables beside them
}

constexpr std::array kLauncherFormats{
    LauncherFormat{"megatron", "arguments of Megatron-LM: a launch script, a command line, or YAML (also NeMo's)",
                   parse_megatron, RunImport::Names::flagged, import_megatron, emit_megatron},
    LauncherFormat{"megatron-bridge", "YAML overrides of Megatron-Bridge", parse_yaml, RunImport::Names::flagged,
                   import_megatron_bridge, nullptr},
    LauncherFormat{"deepspeed", "DeepSpeed's JSON configuration", parse_json_file, RunImport::Names::dotted,
                   import_deepspeed, emit_deepspeed},
    LauncherFormat{"torchtitan", "torchtitan's TOML", parse_toml, RunImport::Names::dotted, import_torchtitan,
                   emit_torchtitan},
    LauncherFormat{"accelerate", "YAML of Hugging Face Accelerate", parse_yaml, RunImport::Names::dotted,
                   import_accelerate, emit_accelerate},
    LauncherFormat{"hugging-face", "a model's config.json", parse_json_file, RunImport::Names::dotted,
                   import_hugging_face, nullptr},
};

const LauncherFormat& format_named(std::string_view name) {
  const auto* format = std::find_if(kLauncherFormats.begin(), kLauncherFormats.end(),
                                    [&](const LauncherFormat& each) { return each.name == name; });
  TRACECAST_ASSERT(format != kLauncherFormats.end(), "the format is one of launcher_formats()");
  return *format;
}

void forget_lines(JsonNode& node) {
  node.line = 0;
  for (JsonMember& each : node.members) forget_lines(each.value);
}

/// The model written out, so that the file's own settings can change it.
Result<void> put_model(RunImport& run, const std::string& name, const DataPaths& data) {
  const Result<std::filesystem::path> file = find_file(name, data.scenarios / "models", "model");
  if (!file) return tl::unexpected(file.error());
  const Result<Model> model = read_model(*file);
  if (!model) return tl::unexpected(model.error());
  JsonNode written_out = parse_json(to_json(*model), file->string())->root;
  forget_lines(written_out);
  run.put("model", std::move(written_out));
  return {};
}

void take_givens(RunImport& run, const RunGivens& givens) {
  if (!givens.topology.empty()) run.put("cluster.topology", givens.topology);
  if (givens.gpus > 0) run.put("cluster.world_size", givens.gpus);
  apply_overrides(run.ours, givens.overrides, run.errors);
}

void ask(RunImport& run, const std::string& key, const std::string& advice) {
  if (run.given(key) == nullptr) run.errors.push_back({run.file(), 0, key, "", "is not in the file: " + advice});
}

void ask_for_the_rest(RunImport& run) {
  ask(run, "model", "give --model, a shipped model or a file");
  if (run.given("model.num_layers") != nullptr) ask(run, "model.vocab_size", "give --set model.vocab_size=128256, say");
  ask(run, "cluster.topology", "give --topology, a shipped machine or a file");
  ask(run, "cluster.world_size", "give --gpus");
  ask(run, "training.seq_length", "give --set training.seq_length=4096, say");
}

/// A count that products of three cannot overflow; what is larger is refused by the scenario's reader.
std::int64_t bounded(std::int64_t count) { return std::clamp<std::int64_t>(count, 1, 2'000'000); }

std::int64_t degree(const RunImport& run, const char* key) { return bounded(run.given_count(key, 1)); }

/// global batch = micro-batch x micro-batches of a rank x data-parallel ranks; any of the three follows from the others.
void complete_batch(RunImport& run) {
  const std::int64_t model_ranks = degree(run, "parallel.tp") * degree(run, "parallel.pp") * degree(run, "parallel.cp");
  const std::int64_t gpus = degree(run, "cluster.world_size");
  if (gpus % model_ranks != 0) return;  // the plan says so
  const std::int64_t dp = gpus / model_ranks;
  const bool has_micro = run.given("training.micro_batch_size") != nullptr;
  const bool has_global = run.given("training.global_batch_size") != nullptr;
  std::int64_t micro = degree(run, "training.micro_batch_size");
  const std::int64_t accumulated = bounded(run.accumulation);
  const std::int64_t global = run.given_count("training.global_batch_size", 0);
  if (has_global && !has_micro && run.accumulation > 0) {
    if (global % (accumulated * dp) != 0)
      return run.refuse(
          run.name_of("training.global_batch_size"),
          fmt::format("is no multiple of {} = {} x {} data-parallel ranks", run.accumulation_key, accumulated, dp));
    micro = global / (accumulated * dp);
    run.put("training.micro_batch_size", micro);
    return run.assume(fmt::format("training.micro_batch_size = {}, which follows from the global batch", micro));
  }
  if (!has_micro) {
    run.put("training.micro_batch_size", micro);
    run.assume("training.micro_batch_size = 1, which the file leaves open");
  }
  if (!has_global) {
    run.put("training.global_batch_size", micro * accumulated * dp);
    run.assume(fmt::format("training.global_batch_size = {}: {} sequences x {} micro-batches x {} data-parallel ranks",
                           micro * accumulated * dp, micro, accumulated, dp));
  } else if (run.accumulation > 0 && global != micro * accumulated * dp) {
    run.refuse(run.name_of("training.global_batch_size"),
               fmt::format("is not micro-batch {} x {} {} x {} data-parallel ranks (allowed: {})", micro,
                           run.accumulation_key, accumulated, dp, micro * accumulated * dp));
  }
}

/// Hybrid sharding said as the number of copies: the group is what is left of dp x cp.
void complete_shard_group(RunImport& run) {
  const std::int64_t copies = run.shard_copies;
  if (copies <= 1) return;
  const std::int64_t ranks =
      degree(run, "cluster.world_size") / (degree(run, "parallel.tp") * degree(run, "parallel.pp"));
  if (ranks % copies != 0)
    return run.refuse(run.shard_copies_key,
                      fmt::format("does not divide the {} ranks that data parallelism has", ranks));
  if (ranks / copies > 1) run.put("parallel.shard_group", ranks / copies, run.shard_copies_key);
}

/// Chunks of a pipeline rank, said as the layers of each.
void complete_chunks(RunImport& run) {
  if (run.layers_per_stage <= 0) return;
  const auto counts = [&](const char* key) {
    const JsonNode* node = run.given(key);
    return node != nullptr && node->boolean ? 1 : 0;
  };
  const std::int64_t items =
      degree(run, "model.num_layers") + counts("parallel.account_for_embedding") + counts("parallel.account_for_loss");
  const std::int64_t stages = (items - 1) / run.layers_per_stage + 1;
  const std::int64_t pp = degree(run, "parallel.pp");
  if (stages % pp != 0)
    return run.refuse(run.layers_per_stage_key,
                      fmt::format("makes {} stages, no multiple of {} pipeline ranks", stages, pp));
  run.put("parallel.vpp", stages / pp, run.layers_per_stage_key);
}

/// Tells what a scenario's reader or a plan found with the launcher's key in place of ours.
Error in_their_words(Error error, const RunImport& run) {
  for (Diagnostic& each : error.diagnostics) {
    const std::string theirs = run.name_of(each.key);
    if (!theirs.empty()) each.key = theirs + " (" + each.key + ")";
  }
  return error;
}

}  // namespace

std::span<const LauncherFormat> launcher_formats() { return kLauncherFormats; }

Result<ImportedRun> import_run(std::string_view name, const std::string& content, const std::string& file,
                               const RunGivens& givens, const DataPaths& data) {
  const LauncherFormat& format = format_named(name);
  const Result<JsonDocument> theirs = format.parse(content, file);
  if (!theirs) return tl::unexpected(theirs.error());
  if (theirs->root.kind != JsonNode::Kind::object)
    return fail({file, theirs->root.line, "", "", "is no list of settings"});
  RunImport run(*theirs, format.names);
  if (!givens.model.empty())
    if (const Result<void> put = put_model(run, givens.model, data); !put) return tl::unexpected(put.error());
  run.gpus = givens.gpus;
  format.import(run);
  run.list_unmapped();
  if (const JsonNode* model = run.given("model"); model != nullptr && model->kind == JsonNode::Kind::string)
    if (const Result<void> put = put_model(run, std::string(model->string), data); !put)
      return tl::unexpected(put.error());
  take_givens(run, givens);
  ask_for_the_rest(run);
  if (run.errors.empty()) complete_batch(run);
  if (run.errors.empty()) complete_shard_group(run);
  if (run.errors.empty()) complete_chunks(run);
  if (!run.errors.empty()) return tl::unexpected(in_file_order(std::move(run.errors)));
  Result<Scenario> scenario = read_scenario(JsonDocument{file, run.ours}, data);
  if (!scenario) return tl::unexpected(in_their_words(std::move(scenario.error()), run));
  const Result<Plan> plan =
      make_plan(scenario->model, scenario->parallel, scenario->training, scenario->cluster.world_size);
  if (!plan) return tl::unexpected(in_their_words(located(plan.error(), *scenario), run));
  return ImportedRun{std::string(name), std::move(*scenario), std::move(run.assumptions), std::move(run.unmapped),
                     run.passed_over};
}

Scenario in_plain_terms(const Scenario& scenario) {
  const Result<Plan> plan =
      make_plan(scenario.model, scenario.parallel, scenario.training, scenario.cluster.world_size);
  TRACECAST_ASSERT(plan.has_value(), "only valid scenarios are emitted");
  Scenario plain = scenario;
  plain.parallel.sharding_strategy = ShardingStrategy::by_zero_stage;
  plain.parallel.zero_stage = plan->parallel.zero_stage;
  plain.parallel.reshard_after_forward = plan->parallel.reshard_after_forward;
  plain.parallel.shard_group = plan->parallel.shard_group;
  return plain;
}

EmittedRun emit_run(std::string_view name, const Scenario& scenario) {
  const LauncherFormat& format = format_named(name);
  TRACECAST_ASSERT(format.emit != nullptr, "the format can be emitted");
  return format.emit(in_plain_terms(scenario));
}

}  // namespace tracecast
