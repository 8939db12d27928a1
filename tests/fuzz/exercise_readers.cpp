#include "tests/fuzz/exercise_readers.hpp"

#include <fstream>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "sim/engine/simulate.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/import/importers.hpp"
#include "sim/io/compressed.hpp"
#include "sim/io/files.hpp"
#include "sim/io/overrides.hpp"
#include "sim/io/trace_reader.hpp"
#include "sim/plan/plan.hpp"
#include "sim/report/json.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tracer/replay.hpp"
#include "tracer/trace_writer.hpp"

namespace tracecast {
namespace {

namespace fs = std::filesystem;

/// A small set of data files for scenarios to refer to, and the places that inputs are written to.
struct Workplace {
  Workplace() {
    const fs::path root = source_dir();
    for (const char* file : {"scenarios/models/gpt2-small.json", "topologies/laptop.json", "topologies/dgx-h100.json",
                             "kernels/profiles/h100.json", "scenarios/stacks/megatron-core.json",
                             "scenarios/stacks/torchtitan.json", "scenarios/stacks/pytorch-fsdp.json"}) {
      fs::create_directories((folder.path() / file).parent_path());
      fs::copy_file(root / file, folder.path() / file);
    }
    data = {folder.path() / "scenarios", folder.path() / "topologies", folder.path() / "kernels/profiles"};
    input = folder.path() / "input.json";
    written = folder.path() / "written.json";
  }
  TemporaryFolder folder;
  DataPaths data;
  fs::path input;
  fs::path written;
};

void save(const fs::path& path, std::string_view content) {
  fs::remove(path);  // a new file is never flushed to disk on closing, one that was cut short may be
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(content.data(), static_cast<std::streamsize>(content.size()));
}

void check(const Error& error) {
  TRACECAST_ASSERT(!error.diagnostics.empty(), "an error says something");
  for (const Diagnostic& diagnostic : error.diagnostics) {
    TRACECAST_ASSERT(!diagnostic.message.empty(), "a diagnostic has a sentence");
    TRACECAST_ASSERT(diagnostic.line >= 0, "lines are counted from 1");
    TRACECAST_ASSERT(to_string(diagnostic).find('\n') == std::string::npos, "a sentence is one line");
  }
}

template <class T>
bool holds(const Result<T>& result) {
  if (!result) check(result.error());
  return result.has_value();
}

/// What has a plan can be forecast, or is refused in a sentence. Only small steps, which take milliseconds.
void exercise_forecast(const Scenario& scenario, const Plan& plan) {
  if (plan.world_size > 16 || plan.num_microbatches > 16 || scenario.model.layers() > 16) return;
  const Result<ForecastRun> run = forecast(scenario, {.explain = true});
  if (!holds(run)) return;
  TRACECAST_ASSERT(run->timeline.step_time >= Duration{}, "time passes");
  TRACECAST_ASSERT(!result_json(scenario, run->forecast).empty(), "and it can be printed");
}

void exercise_scenario(const Workplace& place) {
  const Result<Scenario> scenario = read_scenario(place.input, place.data);
  if (!holds(scenario)) return;
  const std::string text = to_json(*scenario);
  save(place.written, text);
  const Result<Scenario> again = read_scenario(place.written, place.data);
  TRACECAST_ASSERT(again.has_value(), "a scenario that was written can be read");
  TRACECAST_ASSERT(to_json(*again) == text, "a scenario that was written and read is the same");
  const Result<Plan> plan =
      make_plan(scenario->model, scenario->parallel, scenario->training, scenario->cluster.world_size);
  if (!plan) return check(located(plan.error(), *scenario));
  exercise_forecast(*scenario, *plan);
}

void exercise_model(const Workplace& place) {
  const Result<Model> model = read_model(place.input);
  if (!holds(model)) return;
  TRACECAST_ASSERT(parameter_count(*model).total() > 0, "a model has parameters");
  save(place.written, to_json(*model));
  const Result<Model> again = read_model(place.written);
  TRACECAST_ASSERT(again.has_value(), "a model that was written can be read");
  TRACECAST_ASSERT(*again == *model, "a model that was written and read is the same");
}

void exercise_profile(const Workplace& place) {
  const Result<Profile> profile = read_profile(place.input);
  if (!holds(profile)) return;
  save(place.written, to_json(*profile));
  TRACECAST_ASSERT(read_profile(place.written).has_value(), "a profile that was written can be read");
}

void exercise_overrides(std::string_view input) {
  JsonNode root;
  root.kind = JsonNode::Kind::object;
  std::vector<Diagnostic> errors;
  apply_overrides(root, {std::string(input.substr(0, input.find('\n')))}, errors);
  if (!errors.empty()) check(Error{errors});
}

/// A recording that is accepted can be replayed, whatever its times are, or is refused in a sentence.
void exercise_replay(const Trace& trace) {
  const Result<Replay> replay = replay_graph(trace, std::nullopt, "input");
  if (!holds(replay)) return;
  const Result<Timeline> timeline = simulate(replay->graph);
  TRACECAST_ASSERT(timeline.has_value(), "a recorded step does not wait for itself");
  TRACECAST_ASSERT(timeline->step_time <= replay->recorded + Duration{1'000'000'000},
                   "and takes no longer than it took");
}

void exercise_trace(const Workplace& place) {
  if (const Result<Trace> trace = read_trace(place.input); holds(trace)) exercise_replay(*trace);
}

/// What is asked of the values that importers accept.
struct ImportExercise {
  const Importer& importer;
  std::string_view input;
  const Workplace& place;

  template <class T>
  void operator()(Reader<T> read) const {
    if (const Result<T> value = read(input, "input"); holds(value)) check_value(*value);
  }

  /// What a launcher's importer accepts is a scenario that our own reader accepts and that can be written for each launcher.
  void operator()(const Launcher&) const {
    const RunGivens givens{"gpt2-small", "laptop", 1, {"training.seq_length=64"}};
    for (const char* file : {"input.yaml", "input.sh"}) {
      if (importer.name != "megatron" && file == std::string_view("input.sh")) continue;
      const Result<ImportedRun> run = import_run(importer.name, std::string(input), file, givens, place.data);
      if (!holds(run)) continue;
      save(place.written, to_json(run->scenario));
      TRACECAST_ASSERT(read_scenario(place.written, place.data).has_value(), "an imported run can be written and read");
      for (const Importer* other : importers())
        if (const auto* launcher = std::get_if<Launcher>(&other->read);
            launcher != nullptr && launcher->emit != nullptr)
          TRACECAST_ASSERT(!emit_run(other->name, run->scenario).text.empty(), "and emitted");
    }
  }

  void check_value(const ImportedTopology& imported) const {
    const Result<Cluster> again = read_topology_text(to_topology_json(imported, "input"), "input.json");
    TRACECAST_ASSERT(again.has_value(), "a topology that was imported can be written and read");
    TRACECAST_ASSERT(again->node.gpus == imported.cluster.node.gpus, "and is the same");
  }
  void check_value(const ImportedTrace& imported) const {
    exercise_replay(imported.trace);
    TRACECAST_ASSERT(write_trace(place.written.string(), imported.trace), "a trace can be written");
    const Result<Trace> again = read_trace(place.written);
    TRACECAST_ASSERT(again.has_value(), "a trace that was written can be read");
    TRACECAST_ASSERT(again->kernels.size() == imported.trace.kernels.size(), "and is the same");
  }
  void check_value(const ImportedGraph& step) const {
    TRACECAST_ASSERT(simulate(step_graph_of(step)).has_value(), "nodes in order do not wait in a cycle");
  }
  void check_value(const CollectiveMeasurements& measured) const {
    TRACECAST_ASSERT(!measured.calls.empty(), "what is accepted has measured something");
    TRACECAST_ASSERT(!to_csv(measured).empty(), "and is a table");
  }
  void check_value(const CalculonInput&) const {}
  void check_value(const NcclLog&) const {}
};

/// A reader by the name of its format, and what is asked of it.
struct Exercise {
  std::string name;
  std::function<void(std::string_view input, const Workplace& place)> run;
};

std::vector<Exercise> make_exercises() {
  constexpr std::size_t kMaxUnpacked = std::size_t{16} << 20;
  std::vector<Exercise> all{
      {"scenario", [](std::string_view, const Workplace& place) { exercise_scenario(place); }},
      {"topology", [](std::string_view, const Workplace& place) { holds(read_topology(place.input)); }},
      {"profile", [](std::string_view, const Workplace& place) { exercise_profile(place); }},
      {"model", [](std::string_view, const Workplace& place) { exercise_model(place); }},
      {"overrides", [](std::string_view input, const Workplace&) { exercise_overrides(input); }},
      {"trace", [](std::string_view, const Workplace& place) { exercise_trace(place); }},
      {"gzip",
       [](std::string_view input, const Workplace&) { holds(unpacked(std::string(input), "input", kMaxUnpacked)); }},
      {"any-format", [](std::string_view input, const Workplace&) { holds(find_importer(input, "input")); }},
  };
  for (const Importer* importer : importers())
    all.push_back({std::string(importer->name), [importer](std::string_view input, const Workplace& place) {
                     std::visit(ImportExercise{*importer, input, place}, importer->read);
                   }});
  return all;
}

const std::vector<Exercise>& exercises() {
  static const std::vector<Exercise> all = make_exercises();
  return all;
}

}  // namespace

std::vector<std::string> exercised_readers() {
  std::vector<std::string> names;
  for (const Exercise& each : exercises()) names.push_back(each.name);
  return names;
}

void exercise_readers(std::string_view input, std::string_view only) {
  static const Workplace place;
  save(place.input, input);
  for (const Exercise& each : exercises())
    if (only.empty() || each.name == only) each.run(input, place);
}

}  // namespace tracecast
