/// `tracecast replay`: runs a recorded step in the simulator.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"
#include "sim/base/quantity_text.hpp"
#include "sim/base/words.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/transfer_times.hpp"
#include "sim/io/files.hpp"
#include "sim/io/output_folder.hpp"
#include "sim/io/step_record.hpp"
#include "sim/network/cluster.hpp"
#include "sim/report/perfetto.hpp"
#include "tools/command_rows.hpp"
#include "tools/import_results.hpp"
#include "tools/option_checks.hpp"
#include "tools/rank_times.hpp"
#include "tracer/replay.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;

struct ReplayOptions {
  std::vector<std::string> files;
  std::int64_t step = -1;
  std::string topology;
  int gpus = 0;
  std::string out;
  bool json = false;
};

/// A step in the simulator and how it is described.
struct ReplayedStep {
  StepGraph graph;
  std::string summary;               ///< of the page
  nlohmann::ordered_json described;  ///< of --json
  std::vector<RecordedCall> calls;   ///< [collective of the graph] of a recording
};

/// What a span ran, as the page names it; "" if nothing.
std::string name_of(const ReplayedStep& step, const Op& op) {
  const auto payload = static_cast<std::size_t>(op.payload);
  switch (op.type) {
    case OpType::compute:
      return op.payload < 0 ? "" : step.graph.operators[payload].op.name;
    case OpType::collective:
      if (!step.calls.empty() && !step.calls[payload].kernel.empty()) return step.calls[payload].kernel;
      return fmt::format("nccl {}", to_string(step.graph.collectives[payload].call.collective));
    case OpType::send:
      return "nccl send";
    case OpType::receive:
      return "nccl receive";
    case OpType::host_sync:
      break;
  }
  return "";
}

/// Time of all streams by operation, largest first.
std::vector<std::pair<std::string, Duration>> time_by_name(const ReplayedStep& step, const Timeline& timeline) {
  std::map<std::string, Duration> sums;
  for (const Span& span : timeline.spans) {
    const Template& part = step.graph.templates[static_cast<std::size_t>(span.template_index)];
    const std::string name = name_of(step, part.ops[static_cast<std::size_t>(span.op)]);
    if (!name.empty()) sums[name] += span.end - span.start;
  }
  std::vector<std::pair<std::string, Duration>> sorted(sums.begin(), sums.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

std::string longest_operations(const ReplayedStep& step, const Timeline& timeline, const TextStyle& style) {
  constexpr std::size_t kMaxNames = 12;
  std::string text = '\n' + heading("Longest operations, all streams together", style);
  const auto names = time_by_name(step, timeline);
  for (std::size_t i = 0; i < std::min(kMaxNames, names.size()); ++i)
    text +=
        fmt::format("  {:>10}  {:>7}  {}\n", to_text(names[i].second),
                    percent(seconds(names[i].second) / std::max(1e-12, seconds(timeline.step_time))), names[i].first);
  return text;
}

ReplayedStep described(Replay replay, const Timeline& timeline, const std::vector<std::string>& notes) {
  const std::size_t gpus = replay.graph.ranks.size();
  const double error = seconds(timeline.step_time) / std::max(1e-12, seconds(replay.recorded)) - 1;
  std::string summary = fmt::format(
      "recorded {}, replayed {} ({}): {} kernels and copies of {} GPU{}, {} waits between streams, {} of the host{}",
      to_text(replay.recorded), to_text(timeline.step_time), signed_percent(error, 2), replay.works, gpus, plural(gpus),
      replay.waits, replay.syncs, replay.met > 0 ? fmt::format(", {} collectives across ranks", replay.met) : "");
  for (const std::string& note : notes) summary += "; " + note;
  nlohmann::ordered_json json{{"recorded_s", seconds(replay.recorded)},
                              {"replayed_s", seconds(timeline.step_time)},
                              {"gpus", gpus},
                              {"kernels_and_copies", replay.works},
                              {"waits_between_streams", replay.waits},
                              {"waits_of_the_host", replay.syncs},
                              {"collectives_in_which_ranks_meet", replay.met},
                              {"notes", notes}};
  return {std::move(replay.graph), std::move(summary), std::move(json), std::move(replay.calls)};
}

ReplayedStep described(const ImportedGraph& step, StepGraph graph, const Timeline& timeline) {
  std::string summary =
      fmt::format("{}: {} nodes, simulated {}", step.format, step.nodes.size(), to_text(timeline.step_time));
  for (const std::string& note : step.notes) summary += "; " + note;
  nlohmann::ordered_json json{{"format", step.format},
                              {"nodes", step.nodes.size()},
                              {"replayed_s", seconds(timeline.step_time)},
                              {"notes", step.notes}};
  return {std::move(graph), std::move(summary), std::move(json), {}};
}

std::string json_of(const ReplayedStep& step, const Timeline& timeline, const std::string& recording) {
  nlohmann::ordered_json out{{"recording", recording}};
  out.update(step.described);
  nlohmann::ordered_json by_name = nlohmann::ordered_json::object();
  for (const auto& [name, time] : time_by_name(step, timeline)) by_name[name] = seconds(time);
  out["seconds_by_name"] = by_name;
  return json_file(out);
}

Result<void> write_all(const ReplayOptions& options, const ReplayedStep& replay, const Timeline& timeline,
                       const StepRecord& record) {
  OutputFolder folder(options.out);
  folder.write("timeline.json", to_json(record));
  std::vector<TracedRank> ranks;
  for (std::size_t i = 0; i < replay.graph.ranks.size(); ++i) {
    const std::int32_t number = replay.graph.ranks[i].representative;
    ranks.push_back({number, static_cast<std::int32_t>(i), fmt::format("rank {}", number), Bytes{}});
  }
  AtomicFile& file = folder.file("trace.json");
  write_trace(replay.graph, timeline, ranks, record.scenario,
              [&file](std::string_view piece) { return file.write(piece); });
  return folder.commit();
}

/// One recording alone; several as ranks that wait for each other.
Result<Replay> read_all(const ReplayOptions& options, std::vector<std::string>& notes) {
  const auto step = options.step < 0 ? std::nullopt : std::optional(options.step);
  const Result<std::vector<Trace>> traces = read_recordings(options.files, notes);
  if (!traces) return tl::unexpected(traces.error());
  Result<Replay> replay = replay_ranks(*traces, options.files, step ? rank_steps(*traces) : RankSteps{}, step);
  if (replay) notes.insert(notes.end(), replay->notes.begin(), replay->notes.end());
  return replay;
}

std::string name_of(const std::vector<std::string>& files) {
  const std::string first = fs::path(files.front()).filename().string();
  return files.size() == 1 ? first : fmt::format("{} and {} more", first, files.size() - 1);
}

Result<ExitCode> show(const ReplayOptions& options, const ReplayedStep& step, const Timeline& timeline,
                      const Context& context) {
  const StepRecord record = record_of(step.graph, timeline, name_of(options.files), StepOrigin::executed);
  if (!options.out.empty())
    if (const Result<void> written = write_all(options, step, timeline, record); !written)
      return tl::unexpected(written.error());
  if (options.json)
    fmt::print("{}", json_of(step, timeline, record.scenario));
  else
    fmt::print("{}\n{}\n{}{}", record.scenario, paragraph("  ", step.summary, context.style),
               rank_times(record, "Where the time went", context.style),
               longest_operations(step, timeline, context.style));
  return ExitCode::done;
}

/// A step graph of another program.
Result<ExitCode> run_step(const ReplayOptions& options, const ImportedGraph& step, const Context& context) {
  if (options.files.size() > 1 || options.step >= 0)
    return fail({options.files.front(), 0, "", "",
                 fmt::format("is a step of one rank, {}: give this file alone, without --step", step.format)});
  StepGraph graph = step_graph_of(step);
  const Result<Timeline> timeline = simulate(graph, {}, {.record_spans = true});
  if (!timeline) return tl::unexpected(timeline.error());
  if (timeline->step_time == Duration{})
    return fail({options.files.front(), 0, "", "",
                 untimed_transfers(step) > 0 ? fmt::format("has {} transfers and no times: {}", untimed_transfers(step),
                                                           advice_for_untimed(step))
                                             : "has no times, so that there is nothing to replay"});
  return show(options, described(step, std::move(graph), *timeline), *timeline, context);
}

Result<ExitCode> run(const ReplayOptions& options, const Context& context) {
  const auto foreign = read_foreign_step(options.files.front(), options.topology, options.gpus);
  if (!foreign) return tl::unexpected(foreign.error());
  if (*foreign) return run_step(options, **foreign, context);
  if (!options.topology.empty())
    return fail_key("--topology", options.topology, "is for a step graph, not a recording, whose transfers have times");
  std::vector<std::string> notes;
  Result<Replay> replay = read_all(options, notes);
  if (!replay) return tl::unexpected(replay.error());
  const Result<Timeline> timeline = simulate(replay->graph, {}, {.record_spans = true});
  if (!timeline) return tl::unexpected(timeline.error());
  return show(options, described(std::move(*replay), *timeline, notes), *timeline, context);
}

Run add_replay_options(CLI::App& app) {
  auto options = std::make_shared<ReplayOptions>();
  app.add_option("RECORDING", options->files,
                 "a trace of record, a PyTorch profiler JSON, or an SQLite file of Nsight Systems; packed or not. "
                 "Several: ranks of one run, which synchronize in their collectives. Or one step graph (Chakra, SimAI)")
      ->required();
  app.add_option(
         "--step", options->step,
         "only this step: the range ProfilerStep#NUMBER, or the whole step of the work with this number; default: all")
      ->type_name("NUMBER")
      ->check(at_least_zero());
  app.add_option("--topology", options->topology,
                 "of a Chakra trace or a SimAI workload: time the transfers that have sizes only on this machine, "
                 "shipped or a file")
      ->type_name("MACHINE");
  app.add_option("--gpus", options->gpus, "of these: ranks of the run, if the file does not say")
      ->check(in_range(1, kMostGpus));
  app.add_option("--out", options->out, "also write timeline.json (for compare) and trace.json (for Perfetto) there")
      ->type_name("DIR");
  app.add_flag("--json", options->json, "print one JSON object instead of a page");
  return [options](const Context& context) { return run(*options, context); };
}

}  // namespace

const Command kReplayCommand{"replay", "run a recorded step in the simulator and show its time",
                             "replay docs/formats/samples/kineto.json --out replayed", add_replay_options};

}  // namespace tracecast::cli
