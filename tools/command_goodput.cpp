/// `tracecast goodput`: what failures, checkpoints and restarts leave of a run's throughput.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/base/parallel_for.hpp"
#include "sim/base/words.hpp"
#include "sim/io/output_files.hpp"
#include "sim/plan/training_checks.hpp"
#include "sim/report/goodput_report.hpp"
#include "sim/report/goodput_svg.hpp"
#include "sim/report/report_page.hpp"
#include "tools/build_info.hpp"
#include "tools/command_rows.hpp"
#include "tools/named_files.hpp"
#include "tools/option_checks.hpp"
#include "tools/progress.hpp"
#include "tools/short_options.hpp"
#include "tools/sweep_predict.hpp"

namespace tracecast::cli {
namespace {

struct GoodputCommandOptions {
  std::string scenario;
  std::string failures = "llama3-54-days";
  std::vector<std::string> overrides;
  double days = 54;
  std::string mtbf;
  std::string checkpoint;
  std::string step_time;
  int spares = -1;
  double tokens = 0;
  std::string until;
  std::string ramp;
  std::string spikes;
  double price = 0;
  std::string log;
  std::vector<int> resume_from;
  std::string sweep;
  GoodputOptions simulation;
  bool no_best = false;
  bool history = false;
  bool json = false;
  std::string out;
  std::string html;
};

bool concerns_failures(const std::string& key) {
  return key.starts_with("recovery.") || key.starts_with("checkpoint.") || key.starts_with("run.") ||
         key.starts_with("nodes_per_");
}

/// A time of the command line in seconds, 0 if it is not given. Limits keep the work of a history finite.
Result<double> time_option(const std::string& name, const std::string& text, double least_s, double most_s) {
  if (text.empty()) return 0.0;
  const Result<double> value = parse_long_time_s(text);
  if (!value) return fail_key(name, text, value.error().diagnostics.front().message);
  if (*value < least_s || *value > most_s)
    return fail_key(name, text, fmt::format("is out of range (allowed: {:g} s to {:g} s)", least_s, most_s));
  return *value;
}

/// A number, or a word that the reader of the file reports.
std::string number_json(std::string_view text) {
  return parse_number<double>(text) ? std::string(text) : fmt::format("\"{}\"", text);
}

std::string spikes_json(const std::string& text) {
  std::string list;
  for (const std::string_view point : split(text)) list += (list.empty() ? "" : ", ") + number_json(point);
  return "[" + list + "]";
}

/// "0=16,1e9=32" as the failure file's list.
std::string ramp_json(const std::string& text) {
  std::string list;
  for (const std::string_view step : split(text)) {
    const std::size_t equals = std::min(step.find('='), step.size());
    const std::string batch = equals < step.size() ? number_json(step.substr(equals + 1)) : "null";
    list += fmt::format(R"({}{{"from_tokens": {}, "global_batch": {}}})", list.empty() ? "" : ", ",
                        number_json(step.substr(0, equals)), batch);
  }
  return "[" + list + "]";
}

std::vector<ShortOption> short_options(const GoodputCommandOptions& options) {
  std::vector<ShortOption> all;
  if (options.checkpoint == "off")
    all.push_back({"--checkpoint", "off", "checkpoint.mode", "\"off\""});
  else if (!options.checkpoint.empty())
    all.push_back({"--checkpoint", options.checkpoint, "checkpoint.interval", "\"" + options.checkpoint + "\""});
  if (options.spares >= 0) {
    const std::string count = std::to_string(options.spares);
    all.push_back({"--spares", count, "recovery.spares", count});
  }
  if (!options.until.empty()) all.push_back({"--until", options.until, "run.target_tokens", options.until});
  if (!options.ramp.empty()) all.push_back({"--ramp", options.ramp, "run.batch_ramp", ramp_json(options.ramp)});
  if (!options.spikes.empty())
    all.push_back({"--spikes", options.spikes, "run.spikes_at_tokens", spikes_json(options.spikes)});
  return all;
}

/// An interval that is asked for, and no checkpoints at all: their keys differ, and the interval would be ignored.
Result<void> check_checkpoint(const GoodputCommandOptions& options, const FailureFile& failures) {
  if (failures.checkpoint.mode != CheckpointMode::off) return {};
  std::string mode, interval;  // with --set
  for (const std::string& each : options.overrides) {
    if (key_of(each) == "checkpoint.mode") mode = each;
    if (key_of(each) == "checkpoint.interval") interval = each;
  }
  const bool off = options.checkpoint == "off";
  if ((off || options.checkpoint.empty()) && interval.empty()) return {};
  const std::string& other = off ? interval : mode;
  const std::string what =
      other.empty() ? fmt::format("checkpoint.mode = off of --failures {}", options.failures) : "--set " + other;
  const std::string message = fmt::format("contradicts {} (allowed: one of them)", what);
  if (!options.checkpoint.empty()) return fail_key("--checkpoint", options.checkpoint, message);
  return fail({"--set", 0, key_of(interval), interval.substr(interval.find('=') + 1), message});
}

/// The failure file with what replaces its values.
Result<FailureFile> failure_file(const GoodputCommandOptions& options) {
  const std::vector<ShortOption> short_ones = short_options(options);
  if (Result<void> once = check_given_once(short_ones, options.overrides); !once) return tl::unexpected(once.error());
  std::vector<std::string> overrides;
  for (const ShortOption& each : short_ones) overrides.push_back(each.key + "=" + each.value);
  for (const std::string& each : options.overrides)
    if (concerns_failures(each)) overrides.push_back(each);
  Result<FailureFile> failures = named_failure_model(options.failures, overrides);
  if (!failures) return tl::unexpected(named_by_option(std::move(failures.error()), short_ones));
  if (Result<void> checked = check_checkpoint(options, *failures); !checked) return tl::unexpected(checked.error());
  return failures;
}

Result<GoodputRequest> load(const GoodputCommandOptions& options) {
  std::vector<std::string> overrides;
  for (const std::string& each : options.overrides)
    if (!concerns_failures(each)) overrides.push_back(each);
  const Result<Scenario> scenario = read_with_topology(options.scenario, overrides);
  if (!scenario) return tl::unexpected(scenario.error());
  if (options.failures == "none")
    return fail_key("--failures", "none",
                    "leaves nothing to simulate: without failures, `tracecast predict` is the forecast");
  const Result<FailureFile> failures = failure_file(options);
  if (!failures) return tl::unexpected(failures.error());
  const Result<double> mtbf = time_option("--mtbf", options.mtbf, 60, 1e12);
  if (!mtbf) return tl::unexpected(mtbf.error());
  const Result<double> step = time_option("--step-time", options.step_time, 1e-3, 1e6);
  if (!step) return tl::unexpected(step.error());

  GoodputRequest request;
  request.scenario = *scenario;
  request.failures = *failures;
  if (!options.log.empty()) {
    Result<IncidentLog> log = of_this_project(read_incident_log(options.log), options.log, "a log of incidents");
    if (!log) return tl::unexpected(log.error());
    if (std::ranges::all_of(log->fits, [](const FittedKind& fit) { return fit.failures == 0; }))
      return fail_key("--incidents", options.log, "has no failures, which leaves nothing to simulate");
    request.failures.model = std::move(log->model);
    request.fits = std::move(log->fits);
  }
  if (options.resume_from.size() == 3)
    request.resume_from = ShardLayout{options.resume_from[0], options.resume_from[1], options.resume_from[2]};
  request.days = options.days;
  request.mtbf_s = *mtbf;
  request.step_time_s = *step;
  request.goal_tokens = static_cast<std::int64_t>(options.tokens);
  if (const std::string less = less_than_a_step(scenario->training, request.goal_tokens); !less.empty())
    return fail_key("--tokens", fmt::to_string(request.goal_tokens), less);
  if (options.price > 0 && options.tokens <= 0 && tokens_to_train(scenario->training) == 0)
    return fail_key("--price", fmt::format("{:g}", options.price),
                    "needs the tokens to train (--tokens, or training.train_tokens)");
  request.price_per_gpu_hour = options.price;
  request.find_best_interval = !options.no_best && options.sweep.empty();
  request.options = options.simulation;
  return request;
}

/// `options`: from which the request is, for the names in errors.
Result<GoodputForecast> report_of(GoodputRequest request, const GoodputCommandOptions& options,
                                  const Context& context) {
  Progress progress("simulating histories", context.show_progress);
  request.options.progress = [&](int done, int of) { progress.update(done, of); };
  Result<GoodputForecast> report = forecast_goodput(request);
  if (!report) return tl::unexpected(named_by_option(std::move(report.error()), short_options(options)));
  return report;
}

Result<GoodputForecast> report_of(const GoodputCommandOptions& options, const Context& context) {
  Result<GoodputRequest> request = load(options);
  if (!request) return tl::unexpected(request.error());
  return report_of(std::move(*request), options, context);
}

struct Sweep {
  std::string key;
  std::vector<std::string> values;
};

Result<Sweep> parse_sweep(const std::string& text) {
  const std::size_t equals = std::min(text.find('='), text.size());
  Sweep sweep{text.substr(0, equals), {}};
  if (equals + 1 < text.size())
    for (const std::string_view value : split(std::string_view(text).substr(equals + 1)))
      sweep.values.emplace_back(value);
  if (sweep.key.empty() || sweep.values.empty())
    return fail_key("--sweep", text, "is not KEY=VALUE,VALUE,… (keys: mtbf checkpoint spares gpus, or any of --set)");
  return sweep;
}

/// A short name of --sweep.
struct SweepName {
  std::string_view name;
  std::string_view key;  ///< of --set; mtbf has none
  std::string_view in_errors;
};
constexpr SweepName kSweepNames[] = {{"mtbf", "mtbf", "--mtbf"},
                                     {"checkpoint", "checkpoint.interval", "--checkpoint"},
                                     {"spares", "recovery.spares", "recovery.spares"},
                                     {"gpus", "cluster.world_size", "cluster.world_size"}};

const SweepName* short_name(std::string_view name) {
  const auto* found = std::ranges::find(kSweepNames, name, &SweepName::name);
  return found == std::end(kSweepNames) ? nullptr : found;
}

GoodputCommandOptions at(GoodputCommandOptions options, const std::string& key, const std::string& value) {
  const SweepName* const name = short_name(key);
  if (key == "mtbf")
    options.mtbf = value;
  else if (key == "checkpoint")
    options.checkpoint = value;
  else if (name != nullptr)
    options.overrides.push_back(fmt::format("{}={}", name->key, value));
  else
    options.overrides.push_back(key + "=" + value);
  return options;
}

/// A value that is given once for all points would be ignored, and so would what is for one forecast.
Result<void> check_sweep(const GoodputCommandOptions& options, const Sweep& sweep) {
  const SweepName* const name = short_name(sweep.key);
  const std::string key = name == nullptr ? sweep.key : std::string(name->key);
  std::vector<std::pair<std::string, std::string>> given;  // key, how
  for (const ShortOption& each : short_options(options)) given.emplace_back(each.key, each.option);
  for (const std::string& each : options.overrides) given.emplace_back(key_of(each), "--set " + each);
  if (!options.mtbf.empty()) given.emplace_back("mtbf", "--mtbf");
  if (options.checkpoint == "off") given.emplace_back("checkpoint.interval", "--checkpoint");
  for (const auto& [its_key, how] : given)
    if (its_key == key)
      return fail_key("--sweep", options.sweep, fmt::format("contradicts {} (allowed: one of them)", how));
  for (const auto& [option, is_given] : {std::pair("--html", !options.html.empty()), {"--history", options.history}})
    if (is_given) return fail_key(option, "", "is for one forecast (allowed with --sweep: --out --json)");
  return {};
}

/// Errors of the swept key with its name as typed. A key that nothing has may be meant as one of the short names.
Error named_by_sweep(Error error, const std::string& key) {
  const SweepName* const name = short_name(key);
  const std::string written(name == nullptr ? key : name->in_errors);
  const std::string setting = "--set " + key + "=";  // as a message quotes it
  for (Diagnostic& each : error.diagnostics) {
    if (const std::size_t at = each.message.find(setting); at != std::string::npos)
      each.message.replace(at, setting.size(), "--sweep " + key + "=");
    const bool by_option = each.file.empty() && each.key.starts_with("--");
    const bool own = each.key == written && (by_option || each.file == "--set");
    const bool its_section = each.file == "--set" && written.starts_with(each.key + ".");  // unknown
    if (!own && !its_section) continue;
    each.file = "--sweep";
    if (own) each.key = key;
    if (each.message.starts_with("unknown key"))
      each.message += "; mtbf, checkpoint, spares and gpus are allowed as well";
  }
  return error;
}

Result<ExitCode> sweep(const GoodputCommandOptions& options, const Context& context) {
  const Result<Sweep> asked = parse_sweep(options.sweep);
  if (!asked) return tl::unexpected(asked.error());
  if (const Result<void> checked = check_sweep(options, *asked); !checked) return tl::unexpected(checked.error());
  std::vector<SweepPoint> points;
  for (const std::string& value : asked->values) {
    Result<GoodputForecast> report = report_of(at(options, asked->key, value), context);
    if (!report) return tl::unexpected(named_by_sweep(std::move(report.error()), asked->key));
    points.push_back({value, std::move(*report)});
  }
  if (!options.out.empty()) {
    OutputFolder folder(options.out);
    folder.write("sweep.json", sweep_json(asked->key, points));
    folder.write("sweep.svg", sweep_svg(asked->key, points));
    if (const Result<void> written = folder.commit(); !written) return tl::unexpected(written.error());
  }
  fmt::print("{}", options.json ? sweep_json(asked->key, points) : sweep_page(asked->key, points, context.style));
  const bool any = std::ranges::any_of(points, [](const SweepPoint& point) { return point.report.fits_memory(); });
  return any ? ExitCode::done : ExitCode::no;
}

/// The folder and the page, or none of them.
Result<void> write_files(const GoodputCommandOptions& options, const Context& context, const GoodputForecast& report,
                         const std::string& scenario) {
  OutputFiles files;
  if (!options.out.empty()) {
    OutputFolder& folder = files.folder(options.out);
    folder.write("goodput.json", goodput_json(report));
    folder.write("goodput.txt", goodput_page(report, {}, true));
    folder.write("waterfall.svg", waterfall_svg(report));
    folder.write("timeline.svg", timeline_svg(report));
    folder.write("distribution.svg", distribution_svg(report));
  }
  if (!options.html.empty())
    files.write(options.html, goodput_html(report, scenario, {context.command, "tracecast " + version()}));
  return files.commit();
}

Result<ExitCode> goodput(const GoodputCommandOptions& options, const Context& context) {
  if (!options.sweep.empty()) return sweep(options, context);
  Result<GoodputRequest> request = load(options);
  if (!request) return tl::unexpected(request.error());
  const std::string scenario = to_json(request->scenario);
  const Result<GoodputForecast> report = report_of(std::move(*request), options, context);
  if (!report) return tl::unexpected(report.error());
  if (const Result<void> written = write_files(options, context, *report, scenario); !written)
    return tl::unexpected(written.error());
  fmt::print("{}", options.json ? goodput_json(*report) : goodput_page(*report, context.style, options.history));
  return report->fits_memory() ? ExitCode::done : ExitCode::no;
}

void add_run(CLI::App& app, GoodputCommandOptions& options) {
  app.option_defaults()->group("The run");
  app.add_option("--days", options.days, "length of a history")->check(in_range(0.01, 3650.0))->capture_default_str();
  app.add_option("--tokens", options.tokens, "tokens to train, 15T or 15e12: time and cost to finish")
      ->type_name("TOKENS")
      ->transform(count_up_to(9e18));
  app.add_option("--until", options.until, "end a history after this many tokens, or after --days")
      ->type_name("TOKENS")
      ->check(count_up_to(9e15));
  app.add_option("--ramp", options.ramp, "global batch from each point of the data on: \"0=512,2e9=1024\"")
      ->type_name("TOKENS=BATCH,…");
  app.add_option("--step-time", options.step_time, "a measured step time instead of the forecast")->type_name("TIME");
  app.add_option("--resume-from", options.resume_from,
                 "layout of the checkpoint to start from: adds the time to read it")
      ->type_name("TP,PP,DP")
      ->delimiter(',')
      ->expected(3)
      ->check(in_range(1, 1'000'000));
  app.add_option("--price", options.price, "US dollars per GPU-hour")->type_name("PRICE")->check(above_zero());
}

void add_failures(CLI::App& app, GoodputCommandOptions& options) {
  app.option_defaults()->group("Failures and recovery");
  app.add_option("--failures", options.failures, "failure model: a file, or the name of one that is shipped")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--incidents", options.log,
                 "fit the failures to your own incident log (CSV); recovery as --failures says")
      ->type_name("FILE");
  app.add_option("--mtbf", options.mtbf, "mean time between failures of the whole job, e.g. \"3 h\"")
      ->type_name("TIME");
  app.add_option("--spikes", options.spikes,
                 "loss spikes at these points of the data; run.spike_notice_steps, run.spike_rollback_steps with --set")
      ->type_name("TOKENS,…");
  app.add_option("--checkpoint", options.checkpoint, "work between checkpoints: \"20 min\", best or off")
      ->type_name("TIME");
  app.add_flag("--no-best", options.no_best, "do not look for the best checkpoint interval");
  app.add_option("--spares", options.spares, "spare nodes")->check(in_range(0, 1'000'000));
}

void add_histories(CLI::App& app, GoodputCommandOptions& options) {
  app.option_defaults()->group("Simulation");
  app.add_option("--seed", options.simulation.seed, "seed of the random numbers")
      ->check(at_least_zero())
      ->capture_default_str();
  app.add_option("--histories", options.simulation.max_histories, "maximum number of histories")
      ->check(in_range(1, 10'000'000))
      ->capture_default_str();
  app.add_option("--half-width", options.simulation.half_width,
                 "stop when the 95 % interval of the mean goodput is +- this; 0: run all histories")
      ->check(in_range(0.0, 1.0))
      ->capture_default_str();
  add_threads(app, options.simulation.threads);
}

void add_goodput_output(CLI::App& app, GoodputCommandOptions& options) {
  app.option_defaults()->group("Output");
  app.add_flag("--history", options.history, "also print all kinds of failure, and one history day by day");
  app.add_flag("--json", options.json, "print one JSON object instead of a page");
  add_html(app, options.html);
  app.add_option("--out", options.out, "also write goodput.json, goodput.txt and pictures (SVG) there")
      ->type_name("DIR");
}

Run add_goodput_options(CLI::App& app) {
  auto options = std::make_shared<GoodputCommandOptions>();
  options->simulation.threads = thread_count(0);
  add_scenario(app, options->scenario);
  add_overrides(app, options->overrides,
                "replace a value of the scenario, of its machine (topology.*) or of the failure model (recovery.*, "
                "checkpoint.*, run.*); may be repeated");
  app.add_option("--sweep", options->sweep,
                 "KEY=VALUE,VALUE,… for mtbf, checkpoint, spares, gpus (the global batch stays) or a key of --set")
      ->type_name("SWEEP");
  add_run(app, *options);
  add_failures(app, *options);
  add_histories(app, *options);
  add_goodput_output(app, *options);
  return [options](const Context& context) { return goodput(*options, context); };
}

}  // namespace

const Command kGoodputCommand{"goodput", "simulate failures, checkpoints and restarts of a run over weeks",
                              "goodput llama3-405b-16k --days 54 --failures llama3-54-days", add_goodput_options};

}  // namespace tracecast::cli
