/// `tracecast schedule`: makes, checks, simulates and draws pipeline schedules.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/io/output_files.hpp"
#include "sim/schedule/program.hpp"
#include "tools/build_info.hpp"
#include "tools/command_rows.hpp"
#include "tools/option_checks.hpp"
#include "tools/schedule_views.hpp"

namespace tracecast::cli {
namespace {

struct CommandOptions {
  ScheduleOptions shown;
  bool json = false;
  std::string svg, html, csv, csv_communication = "none";
  int width = 0;  ///< of the SVG
  bool csv_crlf = false;
};

Result<std::string> csv_of(const CommandOptions& options, const Schedule& schedule) {
  if (options.csv_communication == "none" && !options.shown.file.empty())  // keeps the idle slots of a file
    if (const Result<PytorchSchedule> file = file_of(options.shown); file && !file->with_communication)
      return to_pytorch_csv(file->rows, options.csv_crlf);
  if (options.csv_communication == "none") return to_pytorch_csv(schedule, options.csv_crlf);
  if (Result<std::string> ok = to_pytorch_csv(schedule); !ok) return ok;
  PipelineProgram program = program_of(schedule);
  if (options.csv_communication == "fsdp") program = with_parameter_gathering(program);
  return to_pytorch_csv(with_early_receives(schedule, program), options.csv_crlf);
}

/// Errors: as of OutputFiles; a schedule that has no CSV.
Result<void> write_files(const CommandOptions& options, const std::vector<ScheduleView>& views,
                         const Context& context) {
  OutputFiles files;
  if (!options.svg.empty()) files.write(options.svg, schedule_svg(views, options.width));
  if (!options.html.empty())
    files.write(options.html, schedule_page(views, {context.command, "tracecast " + version()}));
  if (!options.csv.empty()) {
    const Result<std::string> csv = csv_of(options, views.front().schedule);
    if (!csv) return tl::unexpected(csv.error());
    files.write(options.csv, *csv);
  }
  return files.commit();
}

Result<ExitCode> run_schedule(const CommandOptions& options, const Context& context) {
  const Result<std::vector<ScheduleView>> views = views_of(options.shown);
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
  add_overrides(app, o.overrides, "replace a value of the scenario, e.g. parallel.pp=8; may be repeated")
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

void add_output(CLI::App& app, CommandOptions& o) {
  app.option_defaults()->group("Output");
  app.add_flag("--json", o.json, "the numbers as JSON");
  app.add_option("--svg", o.svg, "also write the picture to this file")->type_name("FILE");
  app.add_option("--width", o.width, "with --svg: pixels; 0: as wide as the labels need, at most 1600")
      ->check(in_range(0, 20000))
      ->capture_default_str()
      ->needs(app.get_option("--svg"));
  add_html(app, o.html);
  CLI::Option* const csv =
      app.add_option("--csv", o.csv, "also write the schedule of --schedule as PyTorch's CSV")->type_name("FILE");
  app.add_option("--csv-communication", o.csv_communication, "none, p2p (sends and receives), fsdp (and parameters)")
      ->check(one_of({"none", "p2p", "fsdp"}))
      ->needs(csv);
  app.add_flag("--csv-crlf", o.csv_crlf, "with CRLF line ends, as PyTorch writes them")->needs(csv);
}

Run add_schedule_options(CLI::App& app) {
  auto options = std::make_shared<CommandOptions>();
  options->shown.request.ranks = 4;
  options->shown.request.microbatches = 0;  // not given
  add_what(app, options->shown);
  add_rules(app, options->shown);
  add_output(app, *options);
  app.footer(schedule_list());
  return [options](const Context& context) { return run_schedule(*options, context); };
}

}  // namespace

const Command kScheduleCommand{"schedule", "draw a pipeline schedule and show its cost",
                               "schedule --schedule 1f1b --stages 4 --microbatches 8 --compare zb-h1",
                               add_schedule_options};

}  // namespace tracecast::cli
