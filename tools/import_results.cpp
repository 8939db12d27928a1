#include "tools/import_results.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/quantity_text.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/import/transfer_times.hpp"
#include "sim/io/atomic_file.hpp"
#include "sim/io/compressed.hpp"
#include "sim/io/files.hpp"
#include "sim/io/trace_reader.hpp"
#include "sim/network/measured_network.hpp"
#include "tools/environment.hpp"
#include "tools/named_files.hpp"
#include "tracer/named_record.hpp"
#include "tracer/replay.hpp"
#include "tracer/trace_writer.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;

using Counts = std::vector<std::pair<std::string, std::int64_t>>;

const TextTable kFound({-28, 8});

std::string summary_of(const std::string& name, const std::string& format, const Counts& found) {
  std::string text = fmt::format("{}: {}\n", name, format);
  for (const auto& [what, count] : found) text += kFound.row(what, count);
  return text;
}

std::string notes_text(const std::vector<std::string>& notes, const TextStyle& style) {
  std::string text;
  for (const std::string& note : notes) text += paragraph("note: ", note, style);
  return text;
}

Result<StepRecord> simulated(const StepGraph& graph, const std::string& path) {
  const Result<Timeline> timeline = simulate(graph, {}, {.record_spans = true});
  if (!timeline) return tl::unexpected(timeline.error());
  return record_of(graph, *timeline, fs::path(path).filename().string(), StepOrigin::executed);
}

/// With --topology transfers without a time take that of --gpus ranks of the machine; without it a note counts them.
Result<void> time_transfers(ImportedGraph& step, const std::string& file, const std::string& topology, int gpus) {
  if (topology.empty()) {
    if (const std::int64_t untimed = untimed_transfers(step); untimed > 0)
      step.notes.push_back(fmt::format("transfers without a time in the file: {}; they take none: {}", untimed,
                                       advice_for_untimed(step)));
    return {};
  }
  Result<Cluster> cluster = named_topology(topology);
  if (!cluster) return tl::unexpected(cluster.error());
  const Result<Profile> profile = named_profile(cluster->gpu);
  if (!profile) return tl::unexpected(profile.error());
  return tracecast::time_transfers(step, std::move(*cluster), *profile, gpus, file);
}

/// The profile of `options.into` with the measurements of one host added.
Result<ProfileWithCollectives> put_into_profile(const ImportOptions& options, const CollectiveMeasurements& measured) {
  Result<Profile> base = named_profile(options.into);
  if (!base) return tl::unexpected(base.error());
  base->source = fmt::format("collectives measured: {} ({}); all else: {}", fs::path(options.file).filename().string(),
                             measured.format, base->source);
  base->kind = "recorded";
  std::optional<Cluster> machine;
  if (!options.topology.empty()) {
    Result<Cluster> named = named_topology(options.topology);
    if (!named) return tl::unexpected(named.error());
    if (network_of_host(named->node).bytes_per_second <= 0)
      return fail_key("--topology", options.topology,
                      "has no hosts with NICs of their own, each a scale-up domain: measurements between hosts "
                      "cannot be used on it");
    machine = std::move(*named);
  }
  Result<ProfileWithCollectives> result = with_collectives(std::move(*base), measured, machine ? &*machine : nullptr);
  if (!result) {
    Error error = result.error();
    for (Diagnostic& each : error.diagnostics) each.file = options.file;
    return tl::unexpected(std::move(error));
  }
  if (result->taken + result->taken_between == 0)
    return fail({options.file, 0, "", "",
                 machine ? "has no collective with as many ranks on each host"
                         : "has no collective of one host; those between hosts need the machine: give --topology"});
  if (!options.output.empty()) result->profile.name = fs::path(options.output).stem().string();
  return result;
}

/// A table names its machine, and its readers know those that are shipped. "" names none.
Result<void> check_shipped(const std::string& topology) {
  if (topology.empty()) return {};
  if (const Result<Cluster> machine = named_topology(topology); !machine) return tl::unexpected(machine.error());
  std::error_code ignored;
  if (fs::path(topology).has_parent_path() || fs::path(topology).extension() == ".json" ||
      fs::is_regular_file(topology, ignored))
    return fail_key(
        "--topology", topology,
        "is a file, which a table cannot name (allowed: the name of a shipped machine; a file with --into)");
  return {};
}

/// What NCCL chose, a line for each size; then the table that it chose from.
std::string table_of(const NcclLog& log) {
  std::string text = fmt::format("{} collectives begun, {} ranks in the largest communicator\n", log.calls, log.ranks);
  const TextTable choices({-16, 14, -17, -8, 8, 12, 8}, 0);
  if (!log.choices.empty())
    text += "\n" + choices.row("collective", "bytes", " algorithm", "protocol", "channels", "time us", "lines");
  for (const NcclChoice& c : log.choices)
    text += choices.row(to_string(c.collective), c.bytes, fmt::format(" {}", to_string(c.algorithm)),
                        to_string(c.protocol), c.channels > 0 ? std::to_string(c.channels) : "",
                        c.time_us > 0 ? fmt::format("{:.3f}", c.time_us) : "", c.seen);
  const TextTable costs({-16, -16, -8, 12, 12}, 0);
  if (!log.table.empty()) text += "\n" + costs.row("collective", "algorithm", "protocol", "latency us", "GB/s");
  for (const NcclTableCell& c : log.table)
    text += costs.row(to_string(c.collective), to_string(c.algorithm), to_string(c.protocol),
                      fmt::format("{:.1f}", c.latency_us), fmt::format("{:.1f}", c.bandwidth_gb_s));
  return text;
}

std::string summary_of(const ImportedRun& run, const ImportOptions& options, const TextStyle& style) {
  const Scenario& s = run.scenario;
  std::string text = fmt::format("{}: {} on {} GPUs of {}\n", options.output,
                                 s.model.name.empty() ? s.name : s.model.name, s.cluster.world_size, s.topology);
  for (const std::string& each : run.assumptions) text += paragraph("assumed: ", each, style);
  if (!run.passed_over.empty())
    text += paragraph("no effect on the time of a step: ", fmt::format("{}", fmt::join(run.passed_over, ", ")), style);
  if (!run.unmapped.empty()) text += "not mapped:\n";
  for (const UnmappedSetting& each : run.unmapped)
    text += fmt::format("  {}:{}: {} = {}\n", options.file, each.line, each.key, each.value);
  return text;
}

/// One function per kind of reader.
class ImportWriter {
 public:
  ImportWriter(const Importer& importer, const ImportOptions& options, const std::string& content,
               const Context& context)
      : importer_(importer), options_(options), content_(content), style_(context.style) {}

  template <class T>
  Result<ExitCode> operator()(Reader<T> read) const {
    Result<T> value = read(content_, options_.file);
    if (!value) return tl::unexpected(value.error());
    return write(*value);
  }

  Result<ExitCode> operator()(const Launcher&) const {
    const Result<DataPaths> data = data_paths();
    if (!data) return tl::unexpected(data.error());
    const RunGivens givens{options_.model, options_.topology, options_.gpus, options_.overrides};
    const Result<ImportedRun> run = import_run(importer_.name, content_, options_.file, givens, *data);
    if (!run) return tl::unexpected(run.error());
    return deliver(to_json(run->scenario), summary_of(*run, options_, style_));
  }

 private:
  /// Writes `text` to the output file and prints `summary`, or prints `text` alone.
  Result<ExitCode> deliver(const std::string& text, const std::string& summary,
                           const std::vector<std::string>& notes = {}) const {
    if (!options_.output.empty())
      if (const Result<void> ok = write_file(options_.output, text); !ok) return tl::unexpected(ok.error());
    fmt::print("{}", options_.output.empty() ? text : summary + notes_text(notes, style_));
    if (options_.output.empty()) fmt::print(stderr, "{}", notes_text(notes, style_));
    return ExitCode::done;
  }

  Result<ExitCode> write(ImportedTopology& imported) const {
    const fs::path file = options_.file;
    imported.cluster.name = file.stem().string();
    return deliver(to_topology_json(imported, file.filename().string()),
                   summary_of(imported.cluster.name, imported.format, imported.found), imported.notes);
  }

  Result<ExitCode> write(const ImportedTrace& imported) const {
    if (!options_.output.empty())
      if (const Result<void> ok = save_recording(options_.output, imported.trace); !ok)
        return tl::unexpected(ok.error());
    fmt::print("{}{}", summary_of(options_.file, imported.format, imported.found), notes_text(imported.notes, style_));
    return ExitCode::done;
  }

  Result<ExitCode> write(ImportedGraph& step) const {
    if (Result<void> timed = time_transfers(step, options_.file, options_.topology, options_.gpus); !timed)
      return tl::unexpected(timed.error());
    const Result<StepRecord> record = simulated(step_graph_of(step), options_.file);
    if (!record) return tl::unexpected(record.error());
    Counts found = step.found;
    found.insert(found.begin(), {"nodes", static_cast<std::int64_t>(step.nodes.size())});
    return deliver(
        to_json(*record),
        summary_of(options_.file, step.format, found) + kFound.row("longest path", to_text(record->step_time)),
        step.notes);
  }

  Result<ExitCode> write(const CollectiveMeasurements& measured) const {
    std::string summary = summary_of(options_.file, measured.format,
                                     {{"calls measured", static_cast<std::int64_t>(measured.calls.size())}});
    if (!measured.gpu.empty()) summary += fmt::format("  GPU {}\n", measured.gpu);
    if (options_.into.empty()) {
      if (const Result<void> shipped = check_shipped(options_.topology); !shipped)
        return tl::unexpected(shipped.error());
      return deliver(to_csv(measured, options_.topology), summary, measured.notes);
    }
    const Result<ProfileWithCollectives> made = put_into_profile(options_, measured);
    if (!made) return tl::unexpected(made.error());
    summary += fmt::format(
        "  put into {}: {} of one host{}; {} across hosts are left to the network model\n  written to {}; use it "
        "with --set cluster.profile={}\n",
        options_.into, made->taken,
        made->taken_between > 0 ? fmt::format(", {} between hosts of {}", made->taken_between, options_.topology) : "",
        made->left_out, options_.output, options_.output);
    std::vector<std::string> notes = measured.notes;
    if (measured.gpu.empty())
      notes.push_back(
          fmt::format("the file does not name the GPU: taken as {}, that of {}", made->profile.gpu, options_.into));
    return deliver(to_json(made->profile), summary, notes);
  }

  Result<ExitCode> write(CalculonInput& input) const {
    const std::string summary = options_.file + ": Calculon\n";
    if (input.model) {
      input.model->name = fs::path(options_.file).stem().string();
      return deliver(to_json(*input.model), summary, input.notes);
    }
    std::string settings;
    for (const std::string& each : input.settings) settings += "--set " + each + "\n";
    return deliver(settings, summary, input.notes);
  }

  Result<ExitCode> write(const NcclLog& log) const {
    std::string table = table_of(log);
    const bool of_shares = std::ranges::any_of(log.choices, [](const NcclChoice& choice) {
      const bool by_rank =
          choice.collective == Collective::all_gather || choice.collective == Collective::reduce_scatter;
      return by_rank && choice.channels > 0;
    });
    if (of_shares)
      table +=
          "\n" + paragraph("note: ",
                           "bytes of all_gather and reduce_scatter are one rank's share, as NCCL counts them, in lines "
                           "that name channels",
                           style_);
    if (log.left_out > 0)
      table += fmt::format("\nnote: {} lines that were cut or are of other calls were left out\n", log.left_out);
    return deliver(table, summary_of(options_.file, "log of NCCL",
                                     {{"collectives begun", log.calls},
                                      {"sizes with a choice", static_cast<std::int64_t>(log.choices.size())}}));
  }

  const Importer& importer_;
  const ImportOptions& options_;
  const std::string& content_;
  const TextStyle& style_;
};

}  // namespace

Result<void> save_recording(const std::string& path, const Trace& trace) {
  AtomicFile file(path);
  if (Result<void> opened = file.finish(); !opened) return opened;
  const bool packs = fs::path(path).extension() == ".gz";
  const fs::path plain = file.partial().string() + (packs ? ".plain" : "");
  Result<void> written = fail({path, 0, "", "", "cannot be written (is the disk full?)"});
  if (write_trace(plain, trace)) written = packs ? pack(plain, path) : file.commit();
  std::error_code ignored;
  if (packs) fs::remove(plain, ignored);
  return written;
}

Result<ExitCode> import_with(const Importer& importer, const ImportOptions& options, const std::string& content,
                             const Context& context) {
  return std::visit(ImportWriter(importer, options, content, context), importer.read);
}

Result<bool> is_recording(const std::string& path) {
  if (is_trace_file(path)) return true;
  const Result<std::string> content = read_packed(path);
  if (!content) return false;  // a folder
  return find_foreign(*content, path, {ImportKind::step, ImportKind::recording}).map([](const Importer* importer) {
    return importer != nullptr && importer->kind() == ImportKind::recording;
  });
}

Result<std::vector<Trace>> read_recordings(const std::vector<std::string>& files, std::vector<std::string>& notes) {
  std::vector<Trace> traces;
  for (const std::string& file : files) {
    std::vector<std::string> of_file;
    Result<Trace> trace = read_any_recording(file, &of_file);
    if (!trace) return tl::unexpected(trace.error());
    const TraceHeader& header = trace->header;
    for (std::size_t i = 0; i < traces.size(); ++i) {
      const TraceHeader& other = traces[i].header;
      if (header.rank >= 0 && header.rank == other.rank)
        return fail({file, 0, "rank", std::to_string(header.rank),
                     fmt::format("is that of {} too (allowed: one recording of each rank)", files[i])});
      if (header.ranks > 0 && other.ranks > 0 && header.ranks != other.ranks)
        return fail({file, 0, "ranks", std::to_string(header.ranks),
                     fmt::format("is another run than that of {}, which has {}", files[i], other.ranks)});
    }
    for (const std::string& note : of_file) notes.push_back(files.size() > 1 ? file + ": " + note : note);
    traces.push_back(std::move(*trace));
  }
  return traces;
}

Result<RecordedRanks> read_recorded_step(const std::vector<std::string>& files, std::int64_t step,
                                         const StepRecord& forecast) {
  std::vector<std::string> notes;
  const Result<std::vector<Trace>> read = read_recordings(files, notes);
  if (!read) return tl::unexpected(read.error());
  for (const std::string& note : notes) fmt::print(stderr, "note: {}\n", note);
  const RankSteps steps = rank_steps(*read);
  const std::vector<std::int64_t> common = steps.common();
  std::optional<std::int64_t> chosen;
  if (step >= 0) chosen = step;
  if (step < 0 && !common.empty()) chosen = common.size() > 1 ? common[common.size() - 2] : common.back();
  const Result<Replay> all = replay_ranks(*read, files, steps, chosen);
  if (!all) return tl::unexpected(all.error());
  notes = all->notes;
  std::int64_t ranks = 0;
  for (const StepRank& rank : forecast.ranks) ranks += rank.multiplicity;
  const bool named = std::ranges::all_of(*read, [](const Trace& trace) { return trace.header.rank >= 0; });
  if (const auto recorded = static_cast<std::int64_t>(all->graph.ranks.size()); recorded < ranks)
    notes.push_back(fmt::format("ranks recorded: {} of {}; {}", recorded, ranks,
                                named ? "they are compared with the forecast of the same ranks"
                                      : "not all say which they are, so they are compared with the forecast of all"));
  for (const std::string& note : notes) fmt::print(stderr, "note: {}\n", note);
  return simulated(all->graph, files.front()).map([&](const StepRecord& record) {
    return RecordedRanks{named_as(record, forecast), named};
  });
}

Result<std::optional<ImportedGraph>> read_foreign_step(const std::string& path, const std::string& topology, int gpus) {
  if (is_trace_file(path)) return std::nullopt;
  const Result<std::string> content = read_packed(path);
  if (!content) return tl::unexpected(content.error());
  const auto importer = find_importer(*content, path, "", {ImportKind::recording, ImportKind::step});
  if (!importer) return tl::unexpected(importer.error());
  if ((*importer)->kind() != ImportKind::step) return std::nullopt;
  Result<ImportedGraph> step = import_as<ImportedGraph>(*content, path, (*importer)->name);
  if (!step) return tl::unexpected(step.error());
  if (Result<void> timed = time_transfers(*step, path, topology, gpus); !timed) return tl::unexpected(timed.error());
  return std::optional(std::move(*step));
}

Result<StepRecord> read_any_step(const std::string& path) {
  const Result<std::string> content = read_packed(path);
  if (!content) return read_step_record(path);  // a folder
  const Result<const Importer*> importer = find_foreign(*content, path, {ImportKind::step, ImportKind::recording});
  if (!importer) return tl::unexpected(importer.error());
  if (is_trace(*content) || (*importer != nullptr && (*importer)->kind() == ImportKind::recording))
    return read_any_recording(path)
        .and_then([&](const Trace& trace) { return replay_graph(trace, std::nullopt, path); })
        .and_then([&](const Replay& replay) { return simulated(replay.graph, path); });
  if (*importer == nullptr) return read_step_record(path);
  return import_as<ImportedGraph>(*content, path, (*importer)->name)
      .and_then([&](const ImportedGraph& step) -> Result<StepRecord> {
        if (const std::int64_t untimed = untimed_transfers(step); untimed > 0)
          return fail(
              {path, 0, "", "",
               step.sizes == ImportedGraph::Sizes::unknown
                   ? fmt::format("has {} transfers without a time, and {}", untimed, advice_for_untimed(step))
                   : fmt::format("has {} transfers without a time (allowed: what tracecast replay --topology NAME "
                                 "--gpus N --out DIR writes, where they have those of a machine)",
                                 untimed)});
        if (step.untimed_computations > 0)
          return fail({path, 0, "", "",
                       fmt::format("has {} computations without a duration (allowed: what tracecast replay --out DIR "
                                   "writes, where they take no time)",
                                   step.untimed_computations)});
        return simulated(step_graph_of(step), path);
      })
      .and_then([&](StepRecord record) -> Result<StepRecord> {
        if (record.step_time > Duration{}) return record;
        return fail(
            {path, 0, "", "", "has no times, so that there is nothing to compare (allowed: a step with times)"});
      });
}

}  // namespace tracecast::cli
