/// `tracecast schedule`: makes, checks, simulates and draws pipeline schedules.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/forecast/schedule_runs.hpp"
#include "sim/graph/stage_times.hpp"
#include "sim/import/launchers/launcher.hpp"
#include "sim/import/pytorch_schedule.hpp"
#include "sim/io/compressed.hpp"
#include "sim/io/files.hpp"
#include "sim/report/schedule_view.hpp"
#include "sim/schedule/program.hpp"
#include "sim/schedule/schedule_run.hpp"
#include "tools/build_info.hpp"
#include "tools/command_rows.hpp"
#include "tools/exact_times.hpp"
#include "tools/named_files.hpp"
#include "tools/option_checks.hpp"

namespace tracecast::cli {
namespace {

constexpr const char* kDefaultSchedule = default_schedule(1);
constexpr int kUsualMicrobatches = 8;

struct ScheduleOptions {
  std::string schedule;  ///< empty: kDefaultSchedule, or the scenario's
  std::string file;
  ScheduleRequest request;
  TimeTexts times;
  std::string times_from;
  std::vector<std::string> overrides;
  std::vector<std::string> compare;
  std::string sends, receives, dialect = "detect";
  bool batched = false;
  bool with_latency_only = false;
  std::string streams;
  bool json = false;
  std::string svg, html, csv, csv_communication = "none";
  int width = 0;  ///< of the SVG
  bool csv_crlf = false;
};

ScheduleOptions without_rules(ScheduleOptions o) {
  o.sends = o.receives = o.streams = "";
  o.batched = false;
  return o;
}

bool has_rules(const ScheduleOptions& o) {
  return !o.sends.empty() || !o.receives.empty() || o.batched || !o.streams.empty();
}

MessageStreams streams_of(const std::string& name) {
  if (name == "compute") return MessageStreams::compute;
  if (name == "one") return MessageStreams::one;
  return name == "two" ? MessageStreams::two : MessageStreams::pairs;
}

MessageRules rules_of(const ScheduleOptions& o) {
  return {.sends = o.sends == "rendezvous" ? SendRule::rendezvous : SendRule::eager,
          .receives = o.receives == "early" ? ReceiveOrder::early : ReceiveOrder::at_use,
          .batched = o.batched,
          .streams = streams_of(o.streams)};
}

std::string in_words(const MessageRules& rules, bool from_file) {
  std::string text = rules.sends == SendRule::eager ? "eager sends" : "rendezvous sends";
  text += from_file                               ? ", order of the file"
          : rules.receives == ReceiveOrder::early ? ", early receives"
                                                  : ", receives at use";
  if (rules.batched) text += ", batched";
  constexpr const char* kStreams[] = {"on the compute stream", "on one stream", "on two streams",
                                      "on a stream per peer"};
  return text + ", " + kStreams[static_cast<std::size_t>(rules.streams)];
}

template <class Number>
RankTimes in_units(const std::vector<Number>& times, std::int64_t scale) {
  RankTimes result;
  for (Number time : times) result.push_back(static_cast<double>(time) / static_cast<double>(scale));
  return result;
}

/// The run of a schedule with the times of the command line. `program`: its communication, if a file specifies it.
Result<ScheduleView> view_of(const ScheduleOptions& options, const Schedule& schedule, const ExactTimes& exact,
                             const PipelineProgram* program) {
  const Result<PipelineTimes> times = pipeline_times(schedule, exact);
  if (!times) return tl::unexpected(times.error());
  const MessageRules rules = rules_of(options);
  const Result<ScheduleRun> run = run_schedule(schedule, *times, rules, program);
  if (!run) return tl::unexpected(run.error());
  ScheduleView view;
  view.schedule = schedule;
  view.run = *run;
  if (program != nullptr || has_rules(options)) view.rules = in_words(rules, program != nullptr);
  view.forward = in_units(exact.forward, exact.scale);
  view.backward_input = in_units(exact.backward_input, exact.scale);
  view.backward_weight = in_units(exact.backward_weight, exact.scale);
  view.latency = static_cast<double>(exact.latency) / static_cast<double>(exact.scale);
  if (exact.overlapped) view.overlapped = in_units(std::vector{*exact.overlapped}, exact.scale);
  return view;
}

/// The pipeline of a scenario's step, with the mean times of one micro-batch through the layers of each rank.
ScheduleView view_of(ScenarioRun of, const std::string& scenario) {
  ScheduleView view;
  const RankPassTimes times = mean_pass_times(of.schedule, of.run);
  const auto present = [&](const std::vector<double>& list) {
    const bool none = std::all_of(list.begin(), list.end(), [](double time) { return time == 0; });
    return none ? RankTimes{} : in_units(list, of.run.scale);
  };
  view.forward = present(times.forward);
  view.backward = present(times.backward);
  view.backward_input = present(times.backward_input);
  view.backward_weight = present(times.backward_weight);
  view.overlapped = present(times.overlapped);
  view.latency = static_cast<double>(of.longest_message.picoseconds) / static_cast<double>(of.run.scale);
  view.schedule = std::move(of.schedule);
  view.run = std::move(of.run);
  view.times_from = scenario;
  return view;
}

/// The scenario with another schedule, a matching number of chunks, and another number of micro-batches.
Scenario with_schedule(Scenario scenario, const ScheduleOptions& options, const std::string& name, int chunks) {
  scenario.parallel.pp_schedule = name;
  scenario.parallel.vpp = chunks;
  if (options.request.microbatches > 0) {
    const int dp = scenario.parallel.replicas_on(scenario.cluster.world_size);
    scenario.training.global_batch_size = options.request.microbatches * scenario.training.micro_batch_size * dp;
  }
  return scenario;
}

/// A schedule with a fixed number of chunks keeps it, whatever the request.
Result<ScheduleView> scenario_view(const ScheduleOptions& options, const Scenario& scenario, const std::string& name) {
  const ScheduleVariant* variant = find_schedule(name);
  const int own = variant ? variant->default_chunks : 1;
  const int asked = options.request.chunks > 0 ? options.request.chunks : own;
  Result<ScenarioRun> run = run_pipeline(with_schedule(scenario, options, name, asked));
  if (!run && asked != own && run.error().diagnostics.front().key == "parallel.vpp") {
    run = run_pipeline(with_schedule(scenario, options, name, own));
  }
  if (!run) return tl::unexpected(run.error());
  return view_of(std::move(*run), scenario.name);
}

Result<std::vector<ScheduleView>> scenario_views(const ScheduleOptions& options) {
  const Result<Scenario> scenario = named_scenario(options.times_from, options.overrides);
  if (!scenario) return tl::unexpected(scenario.error());
  ScheduleOptions of_scenario = options;
  if (of_scenario.request.chunks == 0 && scenario->parallel.vpp > 1)
    of_scenario.request.chunks = scenario->parallel.vpp;
  std::string first = options.schedule.empty() ? scenario->parallel.pp_schedule : options.schedule;
  if (first.empty()) first = default_schedule(scenario->parallel.vpp);
  std::vector<std::string> names = options.compare;
  names.insert(names.begin(), first);
  std::vector<ScheduleView> views;
  for (const std::string& name : names) {
    Result<ScheduleView> view = scenario_view(of_scenario, *scenario, name);
    if (!view) return tl::unexpected(view.error());
    views.push_back(std::move(*view));
  }
  return views;
}

/// By name. A schedule with a fixed number of chunks is compared with that number.
Result<ScheduleView> named_view(const ScheduleOptions& options, const std::string& name, bool compared) {
  const Result<ExactTimes> exact = parse_times(options.times, options.request.ranks);
  if (!exact) return tl::unexpected(exact.error());
  ScheduleRequest request = options.request;
  request.times = mean_times(*exact);
  Result<Schedule> schedule = make_schedule(name, request);
  if (!schedule && compared && schedule.error().diagnostics.front().key == "virtual") {
    request.chunks = 0;
    schedule = make_schedule(name, request);
  }
  if (!schedule) return tl::unexpected(schedule.error());
  if (schedule->flush) return view_of(options, *schedule, *exact, nullptr);
  request.microbatches = steady_state_microbatches(schedule->ranks, schedule->microbatches);
  return view_of(options, *make_schedule(name, request), *exact, nullptr).map([&](ScheduleView view) {
    view.schedule = *schedule;
    view.run = steady_state(view.run, schedule->microbatches);
    return view;
  });
}

Result<PytorchSchedule> file_of(const ScheduleOptions& options) {
  const ScheduleDialect dialect = options.dialect == "legacy"    ? ScheduleDialect::legacy
                                  : options.dialect == "current" ? ScheduleDialect::current
                                                                 : ScheduleDialect::detect;
  return of_this_project(read_pytorch_schedule(options.file, dialect), options.file, "a pipeline schedule");
}

Result<ScheduleView> file_view(ScheduleOptions& options) {
  const Result<PytorchSchedule> file = file_of(options);
  if (!file) return tl::unexpected(file.error());
  Result<Schedule> schedule = schedule_of(*file);
  if (!schedule) return tl::unexpected(schedule.error());
  options.request.ranks = schedule->ranks;
  options.request.microbatches = schedule->microbatches;
  const Result<ExactTimes> exact = parse_times(options.times, schedule->ranks);
  if (!exact) return tl::unexpected(exact.error());
  return view_of(options, *schedule, *exact, file->with_communication ? &file->rows : nullptr)
      .map_error([&](Error error) {
        error.diagnostics.front().file = options.file;
        return error;
      });
}

/// A schedule with the stage times of a scenario. `program`: its communication, if a file specifies it.
Result<ScheduleView> view_of(const Schedule& schedule, const Scenario& scenario, const PipelineProgram* program) {
  const Result<PipelineTimes> times = stage_times_in(scenario, schedule);
  if (!times) return tl::unexpected(times.error());
  const Result<ScheduleRun> run = run_schedule(schedule, *times, {}, program);
  if (!run) return tl::unexpected(run.error());
  ScheduleView view;
  view.schedule = schedule;
  view.run = *run;
  view.rules = fmt::format("{}; times of the stages of {}, in milliseconds",
                           program != nullptr ? in_words({}, true) : "latency only", scenario.name);
  for (const StageTime& sum : rank_times(schedule, *times)) {
    const auto scale = static_cast<double>(times->scale);
    view.forward.push_back(static_cast<double>(sum.forward) / scale);
    view.backward_input.push_back(static_cast<double>(sum.backward_input) / scale);
    view.backward_weight.push_back(static_cast<double>(sum.backward_weight) / scale);
  }
  view.latency = static_cast<double>(times->latency) / static_cast<double>(times->scale);
  return view;
}

/// The order that a configuration of torchtitan names, from there or from its own folder; "": none, or another schedule is asked for.
std::string file_of_scenario(const ScheduleOptions& options) {
  namespace fs = std::filesystem;
  const auto names_schedule = [](const std::string& each) { return each.starts_with("parallel.pp_schedule="); };
  if (!options.schedule.empty() || std::ranges::any_of(options.overrides, names_schedule)) return "";
  const fs::path configuration = options.times_from;
  if (!fs::is_regular_file(configuration)) return "";
  const Result<std::string> content = read_packed(configuration);
  const std::string csv = content ? schedule_file_of(*content, options.times_from) : "";
  return csv.empty() || fs::exists(csv) ? csv : (configuration.parent_path() / csv).string();
}

/// A schedule from a file, and others of as many ranks and micro-batches, with the stage times of a scenario.
Result<std::vector<ScheduleView>> timed_views(ScheduleOptions options) {
  const Result<PytorchSchedule> file = file_of(options);
  if (!file) return tl::unexpected(file.error());
  const Result<Schedule> schedule = schedule_of(*file);
  if (!schedule) return tl::unexpected(schedule.error());
  if (!file_of_scenario(options).empty()) {  // its importer wants a schedule by name, of which only the stages count
    options.overrides.insert(options.overrides.begin(),
                             {"parallel.pp_schedule=" + std::string(default_schedule(schedule->chunks)),
                              fmt::format("parallel.vpp={}", schedule->chunks)});
  }
  const Result<Scenario> scenario = named_scenario(options.times_from, options.overrides);
  if (!scenario) return tl::unexpected(scenario.error());
  std::vector<ScheduleView> views;
  Result<ScheduleView> first = view_of(*schedule, *scenario, file->with_communication ? &file->rows : nullptr);
  if (!first) return tl::unexpected(first.error());
  views.push_back(std::move(*first));
  for (const std::string& name : options.compare) {
    ScheduleRequest request = options.request;
    request.ranks = schedule->ranks;
    request.microbatches = schedule->microbatches;
    const Result<Schedule> other = make_schedule(name, request);
    if (!other) return tl::unexpected(other.error());
    Result<ScheduleView> view = view_of(*other, *scenario, nullptr);
    if (!view) return tl::unexpected(view.error());
    views.push_back(std::move(*view));
  }
  return views;
}

Result<std::vector<ScheduleView>> views_of(ScheduleOptions options) {
  if (!options.times_from.empty() && options.file.empty()) options.file = file_of_scenario(options);
  if (!options.times_from.empty()) return options.file.empty() ? scenario_views(options) : timed_views(options);
  if (options.schedule.empty()) options.schedule = kDefaultSchedule;
  if (options.request.microbatches == 0) options.request.microbatches = kUsualMicrobatches;
  std::vector<ScheduleView> views;
  Result<ScheduleView> first = options.file.empty() ? named_view(options, options.schedule, false) : file_view(options);
  if (!first) return tl::unexpected(first.error());
  views.push_back(std::move(*first));
  if (options.with_latency_only) {
    Result<ScheduleView> free = named_view(without_rules(options), options.schedule, false);
    if (!free) return tl::unexpected(free.error());
    free->rules = kLatencyOnly;
    views.push_back(std::move(*free));
  }
  for (const std::string& name : options.compare) {
    Result<ScheduleView> view = named_view(options, name, true);
    if (!view) return tl::unexpected(view.error());
    views.push_back(std::move(*view));
  }
  return views;
}

Result<std::string> csv_of(const ScheduleOptions& options, const Schedule& schedule) {
  if (options.csv_communication == "none" && !options.file.empty())  // keeps the idle slots of a file
    if (const Result<PytorchSchedule> file = file_of(options); file && !file->with_communication)
      return to_pytorch_csv(file->rows, options.csv_crlf);
  if (options.csv_communication == "none") return to_pytorch_csv(schedule, options.csv_crlf);
  if (Result<std::string> ok = to_pytorch_csv(schedule); !ok) return ok;
  PipelineProgram program = program_of(schedule);
  if (options.csv_communication == "fsdp") program = with_parameter_gathering(program);
  return to_pytorch_csv(with_early_receives(schedule, program), options.csv_crlf);
}

/// Pictures first: some schedules have no CSV.
Result<void> write_files(const ScheduleOptions& options, const std::vector<ScheduleView>& views,
                         const Context& context) {
  if (!options.svg.empty()) {
    if (Result<void> ok = write_file(options.svg, schedule_svg(views, options.width)); !ok) return ok;
  }
  if (!options.html.empty()) {
    if (Result<void> ok = write_file(options.html, schedule_page(views, {context.command, "tracecast " + version()}));
        !ok)
      return ok;
  }
  if (options.csv.empty()) return {};
  const Result<std::string> csv = csv_of(options, views.front().schedule);
  if (!csv) return tl::unexpected(csv.error());
  return write_file(options.csv, *csv);
}

Result<ExitCode> run_schedule(const ScheduleOptions& options, const Context& context) {
  const Result<std::vector<ScheduleView>> views = views_of(options);
  if (!views) return tl::unexpected(views.error());
  if (Result<void> ok = write_files(options, *views, context); !ok) return tl::unexpected(ok.error());
  const std::string text = options.json ? schedule_json(*views) : schedule_terminal(*views, context.style);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return ExitCode::done;
}

std::string schedule_list() {
  std::string text = "Schedules:\n";
  for (const ScheduleVariant& variant : schedule_variants()) {
    text += fmt::format("  {:<17} {}", variant.name, variant.summary);
    std::string aliases;
    for (std::string_view alias : variant.aliases) aliases += (aliases.empty() ? "" : ", ") + std::string(alias);
    text += aliases.empty() ? "\n" : fmt::format("\n  {:<17} also {}\n", "", aliases);
  }
  return text;
}

void add_what(CLI::App& app, ScheduleOptions& o) {
  CLI::Option* scenario =
      app.add_option(
             "--times-from", o.times_from,
             "draw the pipeline of a scenario's simulated step; with --file: the file's schedule with the times "
             "of its stages (the file that a configuration of torchtitan names is taken)")
          ->type_name("SCENARIO");
  app.add_option("--set", o.overrides, "replace a value of the scenario, e.g. parallel.pp=8; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false)
      ->needs(scenario);
  CLI::Option* file =
      app.add_option("--file", o.file, "a schedule as PyTorch's CSV, instead of a name")->type_name("FILE");
  app.add_option("--dialect", o.dialect, "of --file: legacy has B for input gradients")
      ->check(one_of({"detect", "current", "legacy"}));
  app.add_option("--schedule", o.schedule, "a name of the list below")
      ->type_name("NAME")
      ->default_str(kDefaultSchedule)
      ->excludes(file);
  app.add_option("--stages", o.request.ranks, "P, pipeline ranks")
      ->capture_default_str()
      ->excludes(file)
      ->excludes(scenario);
  app.add_option("--microbatches", o.request.microbatches, "M, micro-batches of a step")
      ->default_str(std::to_string(kUsualMicrobatches))
      ->check(above_zero())
      ->excludes(file);
  app.add_option("--virtual", o.request.chunks, "V, chunks per rank (2 x waves for hanayo); 0: the schedule's own")
      ->capture_default_str();
  app.add_option("--group-size", o.request.group_size, "interleaved: micro-batches per group; 0: the schedule's own")
      ->check(at_least_zero())
      ->excludes(scenario);
  app.add_option("--memory-limit", o.request.memory_limit,
                 "zb-auto: forwards a rank may keep; one that waits for W counts half; 0: no limit")
      ->check(at_least_zero())
      ->excludes(scenario);
  app.add_option("--compare", o.compare, "more schedules, on the same time axis: zb-h1,dualpipe")
      ->type_name("LIST")
      ->delimiter(',');

  app.option_defaults()->group("Times");
  const auto time = [&](const char* name, std::string& text, const char* meaning) {
    CLI::Option* option = app.add_option(name, text, meaning)->type_name("TIMES")->excludes(scenario);
    if (!text.empty()) option->capture_default_str();
  };
  time("--tf", o.times.forward, "forward of a micro-batch through a rank's layers; one number, or one per rank");
  time("--tb", o.times.backward_input, "its input gradient");
  time("--tw", o.times.backward_weight, "its weight gradient");
  time("--tc", o.times.latency, "latency of a message between ranks");
  time("--tfb", o.times.overlapped, "an overlapped forward and backward (default: one after the other)");
}

void add_rules(CLI::App& app, ScheduleOptions& o) {
  CLI::Option* const scenario = app.get_option("--times-from");  // its step has the rules of its framework
  app.option_defaults()->group("Messages");
  app.add_option("--sends", o.sends, "eager, or rendezvous: a send waits for its receive")
      ->check(one_of({"eager", "rendezvous"}))
      ->excludes(scenario);
  app.add_option("--receives", o.receives, "posted at-use, or early as PyTorch posts them")
      ->check(one_of({"at-use", "early"}))
      ->excludes(scenario);
  app.add_flag("--beside-latency-only", o.with_latency_only, "also draw the schedule without these rules of messages")
      ->excludes(app.get_option("--file"))
      ->excludes(scenario);
  app.add_flag("--batched", o.batched, "messages between two computations start and end together")->excludes(scenario);
  app.add_option("--comm-streams", o.streams,
                 "where messages run: compute (with computation), one, two (sends, receives), pairs (one per peer and "
                 "direction)")
      ->check(one_of({"compute", "one", "two", "pairs"}))
      ->excludes(scenario);
}

void add_output(CLI::App& app, ScheduleOptions& o) {
  app.option_defaults()->group("Output");
  app.add_flag("--json", o.json, "the numbers as JSON");
  app.add_option("--svg", o.svg, "also write the picture to this file")->type_name("FILE");
  app.add_option("--width", o.width, "with --svg: pixels; 0: as wide as the labels need, at most 1600")
      ->check(in_range(0, 20000))
      ->capture_default_str()
      ->needs(app.get_option("--svg"));
  app.add_option("--html", o.html, "also write a page for a browser there: one file, no network needed")
      ->type_name("FILE");
  app.add_option("--csv", o.csv, "also write the schedule of --schedule as PyTorch's CSV")->type_name("FILE");
  app.add_option("--csv-communication", o.csv_communication, "none, p2p (sends and receives), fsdp (and parameters)")
      ->check(one_of({"none", "p2p", "fsdp"}));
  app.add_flag("--csv-crlf", o.csv_crlf, "with CRLF line ends, as PyTorch writes them");
}

Run add_schedule_options(CLI::App& app) {
  auto options = std::make_shared<ScheduleOptions>();
  options->request.ranks = 4;
  options->request.microbatches = 0;  // not given
  add_what(app, *options);
  add_rules(app, *options);
  add_output(app, *options);
  app.footer(schedule_list());
  return [options](const Context& context) { return run_schedule(*options, context); };
}

}  // namespace

const Command kScheduleCommand{"schedule", "draw a pipeline schedule and show its cost",
                               "schedule --schedule 1f1b --stages 4 --microbatches 8 --compare zb-h1",
                               add_schedule_options};

}  // namespace tracecast::cli
