#include "sim/import/launchers/launcher.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/cost/attention.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/launchers/argument_document.hpp"
#include "sim/import/launchers/calculon_run.hpp"
#include "sim/import/launchers/unread_launchers.hpp"
#include "sim/io/fields.hpp"
#include "sim/io/overrides.hpp"
#include "sim/io/scenario_document.hpp"
#include "sim/plan/plan.hpp"
#include "sim/schedule/interleaved.hpp"

namespace tracecast {
namespace {

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

/// `--set model=…` and `--set cluster.world_size=…` work as --model and --gpus: the importer needs both while it reads.
RunGivens with_overrides(RunGivens givens) {
  constexpr std::string_view kModel = "model=";
  constexpr std::string_view kGpus = "cluster.world_size=";
  std::vector<std::string> rest;
  for (const std::string& each : givens.overrides) {
    const auto gpus = each.starts_with(kGpus) ? parse_number<int>(each.substr(kGpus.size())) : std::nullopt;
    if (each.starts_with(kModel))
      givens.model = each.substr(kModel.size());
    else if (gpus)
      givens.gpus = *gpus;
    else
      rest.push_back(each);
  }
  givens.overrides = std::move(rest);
  return givens;
}

std::string source_of(const RunImport& run, std::string_view format) {
  std::string source = fmt::format("imported from {} ({})", run.file(), format);
  for (const std::string& each : run.assumptions) source += "; " + each;
  return source;
}

void take_givens(RunImport& run, const RunGivens& givens) {
  if (!givens.topology.empty()) run.put("cluster.topology", givens.topology);
  if (givens.gpus > 0) run.put("cluster.world_size", givens.gpus);
  apply_overrides(run.ours, givens.overrides, run.errors);
}

/// What a script adds that is not known, among which may be what is missing.
std::string unknown_arguments(const RunImport& run) {
  const JsonNode* const notes = run.theirs().find(kScriptNotes);
  if (notes == nullptr) return "";
  std::string text;
  for (const JsonNode& note : notes->items)
    if (note.string.find("is not known: the arguments") != std::string::npos) text += "; " + note.string;
  return text;
}

/// One sentence asks for everything, with options that every command has.
void ask_for_the_rest(RunImport& run) {
  std::string missing;
  std::string options;
  const auto ask = [&](const char* key, const char* what, const char* example) {
    if (run.given(key) != nullptr) return;
    missing += fmt::format("{}{}", missing.empty() ? "" : ", ", what);
    options += fmt::format(" --set {}={}", key, example);
  };
  if (!run.model_refused) ask("model", "the model", "NAME");
  if (run.given("model.num_layers") != nullptr) ask("model.vocab_size", "the size of the vocabulary", "128256");
  ask("cluster.topology", "the machine", "NAME");
  ask("cluster.world_size", "the number of GPUs", "N");
  ask("training.seq_length", "the length of a sequence", "4096");
  if (missing.empty()) return;
  const char* const names = options.find("=NAME") == std::string::npos ? "" : " (NAME: shipped, or a file)";
  run.errors.push_back({run.file(), 0, "", "",
                        fmt::format("does not say {}: give{}{}{}", missing, options, names, unknown_arguments(run))});
}

/// A count that products of three cannot overflow; what is larger is refused by the scenario's reader.
std::int64_t bounded(std::int64_t count) { return std::clamp<std::int64_t>(count, 1, 2'000'000); }

std::int64_t degree(const RunImport& run, const char* key) { return bounded(run.given_count(key, 1)); }

/// 0: the plan says what does not divide.
std::int64_t data_ranks(const RunImport& run) {
  const std::int64_t model_ranks = degree(run, "parallel.tp") * degree(run, "parallel.pp") * degree(run, "parallel.cp");
  const std::int64_t gpus = degree(run, "cluster.world_size");
  return gpus % model_ranks == 0 ? gpus / model_ranks : 0;
}

/// global batch = micro-batch x micro-batches of a rank x data-parallel ranks; any of the three follows from the
/// others.
void complete_batch(RunImport& run) {
  const std::int64_t dp = data_ranks(run);
  const bool has_micro = run.given("training.micro_batch_size") != nullptr;
  const bool has_global = run.given("training.global_batch_size") != nullptr;
  std::int64_t micro = degree(run, "training.micro_batch_size");
  if (dp == 0) {
    if (!has_global) run.put("training.global_batch_size", micro);  // so that the plan can say it
    return;
  }
  const std::int64_t accumulated = bounded(run.accumulation.value);
  const std::int64_t global = run.given_count("training.global_batch_size", 0);
  if (has_global && !has_micro && run.accumulation.value > 0) {
    if (global % (accumulated * dp) != 0)
      return run.error(
          run.name_of("training.global_batch_size"),
          fmt::format("is not a multiple of {} = {} x {} data-parallel ranks", run.accumulation.key, accumulated, dp));
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
  } else if (run.accumulation.value > 0 && global != micro * accumulated * dp) {
    run.error(run.name_of("training.global_batch_size"),
              fmt::format("is not micro-batch {} x {} {} x {} data-parallel ranks (allowed: {})", micro,
                          run.accumulation.key, accumulated, dp, micro * accumulated * dp));
  }
}

/// A step has a whole number of local batches of every rank.
void check_local_batches(RunImport& run) {
  const std::int64_t dp = data_ranks(run);
  if (run.local_batch.value <= 0 || dp == 0) return;
  const std::int64_t each = bounded(run.local_batch.value) * dp;
  const std::int64_t global = run.given_count("training.global_batch_size", each);
  if (global % each != 0)
    return run.error(run.name_of("training.global_batch_size"),
                     fmt::format("is not a multiple of {} = {} x {} data-parallel ranks", run.local_batch.key,
                                 run.local_batch.value, dp));
  if (global > each)
    run.assume(fmt::format(
        "one pipeline run of all micro-batches: the launcher fills and drains the pipeline for each local batch of {}",
        run.local_batch.value));
}

/// Hybrid sharding said as the number of copies: the group is what is left of dp x cp.
void complete_shard_group(RunImport& run) {
  const std::int64_t copies = run.shard_copies.value;
  if (copies <= 1 || run.is_overridden("parallel.shard_group")) return;
  const std::int64_t ranks =
      degree(run, "cluster.world_size") / (degree(run, "parallel.tp") * degree(run, "parallel.pp"));
  if (ranks % copies != 0)
    return run.error(run.shard_copies.key,
                     fmt::format("does not divide the {} ranks that data parallelism has", ranks));
  run.put("parallel.shard_group", ranks / copies, run.shard_copies.key);
}

/// A launcher that says the sizes of all dimensions starts as many ranks as they multiply to.
void check_ranks(RunImport& run) {
  constexpr std::array kDegrees{"parallel.cp", "parallel.tp", "parallel.pp"};
  if (run.data_ranks.value <= 0 ||
      std::ranges::any_of(kDegrees, [&](const char* each) { return run.is_overridden(each); }))
    return;
  auto ranks = static_cast<double>(run.data_ranks.value);
  for (const char* each : kDegrees) ranks *= static_cast<double>(degree(run, each));
  const std::int64_t gpus = degree(run, "cluster.world_size");
  if (ranks != static_cast<double>(gpus))
    run.error(run.data_ranks.key,
              fmt::format("makes {:.0f} GPUs ({} data-parallel ranks x cp {} x tp {} x pp {}), and the job has {}",
                          ranks, run.data_ranks.value, degree(run, "parallel.cp"), degree(run, "parallel.tp"),
                          degree(run, "parallel.pp"), gpus));
}

/// Megatron's groups of micro-batches count as mapped where they are those of the forecast, which has no key for them.
void drop_usual_group(RunImport& run, const Plan& plan) {
  const int group = usual_group({.ranks = plan.parallel.pp, .microbatches = static_cast<int>(plan.num_microbatches)});
  std::erase_if(run.unmapped, [&](const UnmappedSetting& each) {
    const bool names_group = each.key == "microbatch-group-size-per-virtual-pipeline-stage" ||
                             each.key == "microbatch-group-size-per-vp-stage";
    return names_group && each.value == std::to_string(group);
  });
}

/// Layers of each of so many virtual stages, the first ones of which have one more (calculate_virtual_stages of AutoModel).
std::vector<int> spread(std::int64_t layers, std::int64_t stages) {
  std::vector<int> spread(static_cast<std::size_t>(stages), static_cast<int>(layers / stages));
  for (std::int64_t stage = 0; stage < layers % stages; ++stage) ++spread[static_cast<std::size_t>(stage)];
  return spread;
}

/// Chunks of a pipeline rank, said as the layers of each.
void complete_chunks(RunImport& run) {
  if (run.layers_per_stage.value <= 0 || run.is_overridden("parallel.vpp")) return;
  const std::int64_t items = run.pipeline_items(degree(run, "model.num_layers"));
  std::int64_t stages = (items - 1) / run.layers_per_stage.value + 1;
  const std::int64_t pp = degree(run, "parallel.pp");
  const bool rounded = stages % pp != 0 && run.stage_rounding != StageRounding::none;
  if (rounded) stages = (stages / pp + (run.stage_rounding == StageRounding::up ? 1 : 0)) * pp;
  if (stages % pp != 0 || stages == 0)
    return run.error(run.layers_per_stage.key,
                     fmt::format("makes {} stages, no multiple of {} pipeline ranks", stages, pp));
  run.put("parallel.vpp", stages / pp, run.layers_per_stage.key);
  if (rounded && stages <= items && !run.is_overridden("parallel.pp_layout"))
    run.put("parallel.pp_layout", node_of(spread(items, stages)), run.layers_per_stage.key);
}

/// Every n-th layer of a virtual stage recomputed, as so many of them: layers are alike. Stages in which they are not as many have no
/// such number.
Result<void> complete_recompute(const RunImport& run, const Plan& plan, Training& training) {
  const std::int64_t interval = run.recompute_interval.value;
  if (interval <= 1 || run.is_overridden("training.recompute") || run.is_overridden("training.recompute_num_layers"))
    return {};
  const auto recomputed = [interval](const Stage& stage) { return static_cast<int>(stage.num_layers / interval); };
  const auto [least, most] =
      std::minmax_element(plan.stages.begin(), plan.stages.end(),
                          [&](const Stage& one, const Stage& other) { return recomputed(one) < recomputed(other); });
  if (recomputed(*least) != recomputed(*most))
    return fail({run.file(), 0, run.recompute_interval.key, std::to_string(interval),
                 fmt::format("recomputes {} to {} layers of a stage: give --set training.recompute_num_layers={}, say",
                             recomputed(*least), recomputed(*most), recomputed(*most))});
  training.recompute_num_layers = recomputed(*most);
  if (recomputed(*most) == 0) training.recompute = Recompute::none;
  return {};
}

/// The kernel of fused attention, which is known with the GPU alone.
void complete_attention(RunImport& run, Scenario& scenario) {
  Training& training = scenario.training;
  const std::string& kernel = run.attention_kernel;
  if (kernel.empty() || !training.flash_attention || run.is_overridden("training.attention_kernel")) return;
  const std::vector<std::string> known = attention_kernels(scenario.profile);
  const auto has = [&](const char* name) { return std::ranges::find(known, name) != known.end(); };
  if (!has(kernel.c_str()))
    return run.assume(fmt::format("{} asks for {}, of which {} has no times: attention is the profile's first kernel",
                                  run.attention_key, kernel, scenario.profile.name));
  // What multiplies in 8 bits is FlashAttention 3.
  if (training.fp8_attention && !has_attention_in(scenario.profile, kernel, training.dtype))
    return run.assume(fmt::format(
        "{} asks for {}, of which {} has no times in {}: attention is the profile's first kernel", run.attention_key,
        kernel == "fa2" ? "FlashAttention 3" : kernel, scenario.profile.name, to_string(training.dtype)));
  training.attention_kernel = kernel;
  if (kernel == "fa2")
    run.assume(
        fmt::format("{}: attention_kernel = fa2, FlashAttention 2{}", run.attention_key,
                    has("fa3") ? "; fa3 if flash-attn 3 is installed (--set training.attention_kernel=fa3)" : ""));
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

const Launcher& launcher_named(std::string_view name) {
  if (name == "calculon") return kCalculonRun;  // its importer is that of a model
  const auto found = std::ranges::find(importers(), name, &Importer::name);
  TRACECAST_ASSERT(found != importers().end() && (*found)->kind() == ImportKind::launcher,
                   "the format is a launcher's");
  return std::get<Launcher>((*found)->read);
}

Result<JsonDocument> parse_json_settings(const std::string& content, const std::string& file) {
  return parse_json(content, file);
}

Result<ImportedRun> import_run(std::string_view name, const std::string& content, const std::string& file,
                               const RunGivens& options, const DataPaths& data) {
  const RunGivens givens = with_overrides(options);
  if (const std::string other = unread_launcher(content, file); !other.empty()) return fail({file, 0, "", "", other});
  const Launcher& launcher = launcher_named(name);
  const Result<JsonDocument> theirs = launcher.parse(content, file);
  if (!theirs) return tl::unexpected(theirs.error());
  if (theirs->root.kind != JsonNode::Kind::object)
    return fail({file, theirs->root.line, "", "", "is not a list of settings"});
  RunImport run(*theirs, launcher.names);
  if (!givens.model.empty())
    if (const Result<void> put = put_model(run, givens.model, data); !put) return tl::unexpected(put.error());
  run.gpus = givens.gpus;
  for (const std::string& each : givens.overrides) {
    const std::size_t equals = std::min(each.find('='), each.size());
    run.overridden[each.substr(0, equals)] = each.substr(std::min(equals + 1, each.size()));
  }
  launcher.import(run);
  run.list_unmapped();
  if (const JsonNode* model = run.given("model"); model != nullptr && model->kind == JsonNode::Kind::string)
    if (const Result<void> put = put_model(run, std::string(model->string), data); !put)
      return tl::unexpected(put.error());
  take_givens(run, givens);
  ask_for_the_rest(run);
  if (run.errors.empty()) check_ranks(run);
  if (run.errors.empty()) complete_batch(run);
  if (run.errors.empty()) check_local_batches(run);
  if (run.errors.empty()) complete_shard_group(run);
  if (run.errors.empty()) complete_chunks(run);
  if (!run.errors.empty()) return tl::unexpected(in_file_order(std::move(run.errors)));
  Result<Scenario> scenario = read_scenario(JsonDocument{file, run.ours}, data, read_any_topology);
  if (!scenario) return tl::unexpected(in_their_words(std::move(scenario.error()), run));
  complete_attention(run, *scenario);
  scenario->source = source_of(run, name);
  const Result<Plan> plan =
      make_plan(scenario->model, scenario->parallel, scenario->training, scenario->cluster.world_size);
  if (!plan) return tl::unexpected(in_their_words(located(plan.error(), *scenario), run));
  if (const Result<void> done = complete_recompute(run, *plan, scenario->training); !done)
    return tl::unexpected(done.error());
  drop_usual_group(run, *plan);
  return ImportedRun{std::string(name), std::move(*scenario), std::move(run.assumptions), std::move(run.unmapped),
                     std::move(run.passed_over)};
}

std::string schedule_file_of(const std::string& content, const std::string& file) {
  const auto importer = find_foreign(content, file, {ImportKind::launcher});
  if (!importer || *importer == nullptr || (*importer)->name != "torchtitan") return "";
  const Launcher& launcher = launcher_named("torchtitan");
  const Result<JsonDocument> theirs = launcher.parse(content, file);
  if (!theirs || theirs->root.kind != JsonNode::Kind::object) return "";
  return RunImport(*theirs, launcher.names).word("parallelism.pipeline_parallel_schedule_csv");
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
  if (plan->parallel.zero_stage != 3) plain.parallel.reshard_after_forward = true;
  if (plain.parallel.tp == 1) plain.parallel.tp_comm_overlap = false;
  return plain;
}

EmittedRun emit_run(std::string_view name, const Scenario& scenario) {
  const Launcher& launcher = launcher_named(name);
  TRACECAST_ASSERT(launcher.emit != nullptr, "the format can be emitted");
  EmittedRun run = launcher.emit(in_plain_terms(scenario));
  if (scenario.training.documents) run.unmapped.emplace_back("training.documents, which the data set decides");
  // Kernels of attention and the host's time are its own, and no keys of a scenario.
  if (stack_of_emitted(name, run.text) != scenario.stack)
    run.unmapped.push_back(fmt::format("stack=\"{}\"", scenario.stack));
  return run;
}

std::string stack_of_emitted(std::string_view name, const std::string& text) {
  const Launcher& launcher = launcher_named(name);
  const Result<JsonDocument> parsed = launcher.parse(text, std::string(launcher.file_name));
  TRACECAST_ASSERT(parsed.has_value(), "what is emitted can be read");
  RunImport run(*parsed, launcher.names);
  launcher.import(run);
  const JsonNode* const stack = run.given("stack");
  return stack == nullptr ? "" : std::string(stack->string);
}

}  // namespace tracecast
