/// `tracecast predict`: forecasts one training step of a scenario.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/base/parallel_for.hpp"
#include "sim/forecast/change.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/forecast/schedule_runs.hpp"
#include "sim/io/economics_file.hpp"
#include "sim/io/files.hpp"
#include "sim/io/output_files.hpp"
#include "sim/io/step_record.hpp"
#include "sim/report/evidence_page.hpp"
#include "sim/report/json.hpp"
#include "sim/report/perfetto.hpp"
#include "sim/report/report_page.hpp"
#include "sim/report/terminal.hpp"
#include "sim/search/capacity.hpp"
#include "tools/build_info.hpp"
#include "tools/command_rows.hpp"
#include "tools/emit_launcher.hpp"
#include "tools/environment.hpp"
#include "tools/named_values.hpp"
#include "tools/option_checks.hpp"
#include "tools/progress.hpp"
#include "tools/renamed.hpp"
#include "tools/sweep_predict.hpp"

namespace tracecast::cli {
namespace {

struct PredictOptions {
  std::string scenario;
  std::vector<std::string> overrides;
  std::string flops_convention = "model_full_attn";
  std::string network = "fluid";
  std::string routing;               ///< empty: the scenario's
  std::optional<std::int64_t> seed;  ///< of its hash
  std::vector<std::string> co_located;
  std::string placement = "interleaved";  ///< of co-located jobs
  bool no_compute_contention = false;
  bool json = false;
  bool explain = false;
  bool evidence = false;
  bool unfold = false;
  int threads = thread_count(0);
  std::string out;
  std::string html;
  std::string emit;
  std::vector<int> trace_ranks;
  SweepOptions sweep;
};

ForecastOptions forecast_options(const PredictOptions& options) {
  return {.flops_convention = options.flops_convention == "model_causal" ? FlopsConvention::model_causal
                                                                         : FlopsConvention::model_full_attn,
          .unfold = options.unfold,
          .record_spans = !options.out.empty() || !options.html.empty(),
          .explain = options.explain,
          .perturbation_effects = options.network != "simgrid" && options.co_located.empty(),
          .threads = options.threads,
          .network = values_by_name<NetworkKind>().at(options.network),
          .transfers_slow_compute = !options.no_compute_contention};
}

Result<ForecastRun> run_forecast(const PredictOptions& options, const Scenario& scenario) {
  if (options.co_located.empty()) return forecast(scenario, forecast_options(options));
  std::vector<Scenario> others;
  for (const std::string& name : options.co_located) {
    Result<Scenario> other = read_with_topology(name, {});
    if (!other) return tl::unexpected(other.error());
    others.push_back(std::move(*other));
  }
  return forecast_colocated(scenario, std::move(others), forecast_options(options),
                            values_by_name<JobPlacement>().at(options.placement));
}

/// result.json, report.txt, scenario.json, trace.json and timeline.json.
Result<void> write_results(OutputFolder& folder, const PredictOptions& options, const Scenario& scenario,
                           const ForecastRun& run, const Unchanged* unchanged) {
  folder.write("result.json", result_json(scenario, run.forecast, unchanged));
  folder.write("report.txt", terminal_page(scenario, run.plan, run.forecast, {}, unchanged));
  folder.write("scenario.json", to_json(scenario));
  folder.write("timeline.json", to_json(record_of(run.graph, run.timeline, scenario.name, StepOrigin::simulated)));
  return write_trace_file(folder.file("trace.json"), run, options.trace_ranks);
}

/// The overrides of --set and of the options that are short for one.
std::vector<std::string> overrides_of(const PredictOptions& options, std::vector<std::string> set) {
  std::vector<std::string> all = std::move(set);
  if (!options.routing.empty()) all.push_back("cluster.routing=" + options.routing);
  if (options.seed) all.push_back(fmt::format("cluster.routing_seed={}", *options.seed));
  return all;
}

std::optional<Range3> price_of_tokens(const Economics& economics, const Scenario& scenario, const Forecast& f) {
  const auto price =
      economics.price_per_gpu_hour(gpus_text(scenario), network_hardware(scenario.cluster), scenario.power_limit);
  if (!price) return std::nullopt;
  const PaidGpus paid = paid_gpus(economics.term, scenario.cluster.node, f.ranks, 0);
  return for_million_tokens(*price * (static_cast<double>(paid.all()) / f.ranks), f);
}

std::optional<Range3> energy_of_tokens(const Economics& economics, const Scenario& scenario, const Forecast& f) {
  const auto kilowatts = economics.kilowatts_per_gpu(gpus_text(scenario), scenario.power_limit);
  return kilowatts ? std::optional(for_million_tokens(*kilowatts, f)) : std::nullopt;
}

/// Errors: those of the file of prices.
Result<void> add_cost(Unchanged& unchanged, const Scenario& before, const Scenario& changed, const Forecast& after) {
  const Result<Economics> economics = data_paths().and_then(read_usual_economics);
  if (!economics) return tl::unexpected(economics.error());
  unchanged.usd_per_million_tokens = price_of_tokens(*economics, before, unchanged.forecast);
  unchanged.usd_per_million_tokens_after = price_of_tokens(*economics, changed, after);
  if (before.power_limit == changed.power_limit && gpus_text(before) == gpus_text(changed)) return {};
  unchanged.kwh_per_million_tokens = energy_of_tokens(*economics, before, unchanged.forecast);
  unchanged.kwh_per_million_tokens_after = energy_of_tokens(*economics, changed, after);
  return {};
}

/// The forecast without --set; empty if there is none, if the file alone cannot be forecast, or if it would be slow.
/// Errors: as of add_cost().
Result<std::optional<Unchanged>> forecast_unchanged(const PredictOptions& options, const Scenario& changed,
                                                    const Forecast& after) {
  // Flow by flow, or with hashed paths that leave no ranks alike, the larger of the two runs may take minutes.
  const bool slow = options.network == "simgrid" || changed.cluster.routing == RoutingPolicy::ecmp;
  if (options.overrides.empty() || !options.emit.empty() || slow) return std::nullopt;
  Result<Scenario> scenario = read_with_topology(options.scenario, overrides_of(options, {}));
  if (!scenario) return std::nullopt;
  PredictOptions plain = options;
  plain.explain = plain.unfold = false;
  plain.out.clear();
  plain.html.clear();
  Result<ForecastRun> run = run_forecast(plain, *scenario);
  if (!run) return std::nullopt;
  Unchanged unchanged{
      .forecast = std::move(run->forecast), .measured = scenario->measured, .settings = options.overrides};
  if (const Result<void> priced = add_cost(unchanged, *scenario, changed, after); !priced)
    return tl::unexpected(priced.error());
  return unchanged;
}

/// The first option that is given of those that belong to one forecast; "": none is.
const char* option_of_one_forecast(const PredictOptions& options) {
  const std::pair<const char*, bool> all[] = {{"--html", !options.html.empty()},
                                              {"--out", !options.out.empty()},
                                              {"--explain", options.explain},
                                              {"--emit", !options.emit.empty()},
                                              {"--co-located", !options.co_located.empty()}};
  for (const auto& [name, given] : all)
    if (given) return name;
  return "";
}

/// --sweep writes tables; what belongs to one forecast is refused.
Result<void> check_sweep(const PredictOptions& options) {
  const std::string of_one = options.evidence ? "--evidence" : option_of_one_forecast(options);
  if (of_one.empty()) return {};
  return fail_key(of_one, "", "is for one forecast (allowed with --sweep: --csv --svg --json)");
}

/// --evidence and --emit write something else than the forecast.
Result<void> check_outputs(const PredictOptions& options) {
  if (options.evidence)
    if (const std::string other = option_of_one_forecast(options); !other.empty())
      return fail_key("--evidence", "",
                      fmt::format("lists published runs and forecasts nothing (allowed: without {})", other));
  if (options.json && !options.emit.empty())
    return fail_key("--json", "", "--emit writes the run in place of the forecast (allowed: one of them)");
  return {};
}

/// A scenario file names its machine: what --set changes in the machine has no place in it.
Result<void> check_emit(const PredictOptions& options) {
  const std::vector<std::string> changed = divided(options.overrides).of_topology;
  if (options.emit != "scenario" || changed.empty()) return {};
  return fail_key(
      "--emit", "scenario",
      fmt::format("does not take --set topology.{} (write it into a topology file, and set cluster.topology)",
                  changed.front()));
}

/// Options that exclude each other.
Result<void> check_options(const PredictOptions& options) {
  if (options.explain && options.network == "simgrid")
    return fail_key("--network", options.network, "--explain simulates once for each cause (allowed: fluid isolated)");
  if (const Result<void> good = check_outputs(options); !good) return good;
  if (options.explain && !options.co_located.empty())
    return fail_key("--explain", "", "explains one job (allowed: without --co-located)");
  if (!options.co_located.empty() && options.network == "isolated")
    return fail_key("--co-located", options.co_located.front(),
                    "co-located jobs share links, which the isolated network does not model (allowed: --network "
                    "fluid, --network simgrid)");
  return {};
}

/// The bubble of the schedule alone, which takes a second simulation: of many passes it takes as long as the step, so only
/// `explain` asks for it.
void add_schedule_bubble(ForecastRun& run, const Scenario& scenario, bool explain) {
  const Schedule& schedule = run.schedule;
  const bool few = std::int64_t{schedule.ranks} * schedule.microbatches * schedule.chunks <= 512;
  if (run.plan.parallel.pp == 1 || !schedule.flush || !(few || explain)) return;
  if (replicas_differ(scenario.perturbation, run.plan)) return;  // each has another bubble
  if (const Result<double> bubble = schedule_bubble(scenario, schedule); bubble) run.forecast.schedule_bubble = *bubble;
}

/// What --out and --html ask for.
Result<void> write_files(const PredictOptions& options, const Scenario& scenario, const ForecastRun& run,
                         const Unchanged* unchanged, const Context& context) {
  OutputFiles files;
  if (!options.out.empty())
    if (Result<void> written = write_results(files.folder(options.out), options, scenario, run, unchanged); !written)
      return written;
  const PageMetadata metadata{context.command, "tracecast " + version()};
  if (!options.html.empty()) files.write(options.html, predict_html(scenario, run, metadata, unchanged));
  return files.commit();
}

Result<ExitCode> predict(const PredictOptions& options, const Context& context) {
  for (const auto check : {check_emit, check_options})
    if (const Result<void> good = check(options); !good) return tl::unexpected(good.error());
  if (!options.sweep.axes.empty()) {
    if (const Result<void> good = check_sweep(options); !good) return tl::unexpected(good.error());
    ForecastOptions one = forecast_options(options);
    one.perturbation_effects = one.record_spans = one.explain = false;
    return sweep_predict(options.sweep, options.scenario, overrides_of(options, options.overrides), one, options.json,
                         context);
  }
  const auto begin = std::chrono::steady_clock::now();
  const Result<Scenario> scenario = read_with_topology(options.scenario, overrides_of(options, options.overrides));
  if (!scenario) return tl::unexpected(scenario.error());
  if (options.evidence) {
    fmt::print("{}", options.json ? evidence_json(*scenario) : evidence_page(*scenario));
    return ExitCode::done;
  }
  Result<ForecastRun> run = [&] {
    const Busy busy(fmt::format("simulating {} GPUs", scenario->cluster.world_size), context.show_progress);
    return run_forecast(options, *scenario);
  }();
  if (!run) return tl::unexpected(located(std::move(run.error()), *scenario));
  add_schedule_bubble(*run, *scenario, options.explain);
  run->forecast.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  run->forecast.peak_rss_mib = peak_rss_mib();
  const Result<std::optional<Unchanged>> without_set = forecast_unchanged(options, *scenario, run->forecast);
  if (!without_set) return tl::unexpected(without_set.error());
  const Unchanged* unchanged = *without_set ? &**without_set : nullptr;
  if (const Result<void> written = write_files(options, *scenario, *run, unchanged, context); !written)
    return tl::unexpected(written.error());
  if (!options.emit.empty()) {
    const bool obeys = print_for_launcher(options.emit, *scenario);
    return run->forecast.fits && obeys ? ExitCode::done : ExitCode::no;
  }
  fmt::print("{}", options.json ? result_json(*scenario, run->forecast, unchanged)
                                : terminal_page(*scenario, run->plan, run->forecast, context.style, unchanged));
  return run->forecast.fits ? ExitCode::done : ExitCode::no;
}

/// Old names of options, still accepted.
void add_renamed_options(CLI::App& app, const std::shared_ptr<PredictOptions>& options) {
  app.add_option_function<std::string>("--neighbour",
                                       [options](const std::string& scenario) {
                                         note_new_name("--neighbour", "--co-located");
                                         options->co_located.push_back(scenario);
                                       })
      ->group("");
  for (const char* now_default : {"--slow-compute", "--compute-contention"})
    app.add_flag_callback(now_default, [now_default] { note_now_default(now_default); })->group("");
}

void add_simulation(CLI::App& app, PredictOptions& options) {
  app.option_defaults()->group("Simulation");
  app.add_option(
         "--network", options.network,
         "fluid: transfers share links; isolated: no transfer slows another; simgrid: shared links, flow by flow, "
         "for small jobs")
      ->transform(new_network_name)
      ->check(one_of(names_of(values_by_name<NetworkKind>())))
      ->capture_default_str();
  app.add_option(
         "--routing", options.routing,
         "with fluid and simgrid, over equal-cost paths: even splits each flow over all of them; ecmp gives it one, "
         "minimal, by a static hash; default: the scenario's cluster.routing, or even")
      ->check(one_of({"even", "ecmp"}));
  app.add_option("--routing-seed", options.seed, "seed of the ecmp hash, as topology --ecmp; default 1")
      ->check(at_least_zero());
  app.add_flag("--no-compute-contention", options.no_compute_contention,
               "transfers take no SMs and no memory bandwidth from concurrent compute");
  app.add_flag("--unfold", options.unfold, "simulate every rank, also equivalent ones");
  app.add_option("--threads", options.threads, "threads for many simulated ranks; the result does not depend on it")
      ->check(in_range(1, 1024))
      ->default_str("those of this machine");
}

void add_predict_output(CLI::App& app, PredictOptions& options, CLI::Option* sweep) {
  app.option_defaults()->group("Output");
  app.add_flag("--explain", options.explain,
               "add the bottlenecks: the critical path, and the step time without each cause");
  app.add_flag("--evidence", options.evidence,
               "print the closest measured runs and the errors of their forecasts instead of a page");
  app.add_flag("--json", options.json, "print one JSON object instead of a page");
  app.add_option("--emit", options.emit,
                 "print the layout as settings of this launcher, or as a scenario file, instead of a page")
      ->check(one_of(emitted_formats()));
  CLI::Option* out =
      app.add_option("--out", options.out,
                     "also write result.json, report.txt, scenario.json, trace.json and timeline.json to this folder")
          ->type_name("DIR");
  app.add_option("--trace-ranks", options.trace_ranks, "with --out: ranks to add to the trace, e.g. 5,77")
      ->type_name("RANKS")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->needs(out);
  app.add_option("--csv", options.sweep.csv, "with --sweep: write one line per point to this file")
      ->type_name("FILE")
      ->needs(sweep);
  app.add_option(
         "--svg", options.sweep.svg,
         "with --sweep of one key (a curve, over names bars; of cluster.world_size strong and weak scaling) or two (a "
         "heat map)")
      ->type_name("FILE")
      ->needs(sweep);
  add_html(app, options.html);
}

Run add_predict_options(CLI::App& app) {
  auto options = std::make_shared<PredictOptions>();
  add_scenario(app, options->scenario);
  add_renamed_options(app, options);
  add_overrides(
      app, options->overrides,
      "replace a value of the scenario, e.g. parallel.tp=4, or of its machine: topology.KEY; may be repeated");
  CLI::Option* sweep = app.add_option("--sweep", options->sweep.axes,
                                      "forecast every combination of these values instead, e.g. parallel.tp=1,2,4; may "
                                      "be repeated; topology.KEY changes the machine")
                           ->type_name("KEY=LIST")
                           ->allow_extra_args(false);
  CLI::Option* co_located =
      app.add_option(
             "--co-located", options->co_located,
             "another scenario on other nodes of the machine; its transfers share the fabric's links; may be repeated")
          ->type_name("SCENARIO")
          ->allow_extra_args(false);
  app.add_option(
         "--placement", options->placement,
         "of co-located jobs: one job after the other; a node each in turn; each over all units of the lowest tier")
      ->check(one_of(names_of(values_by_name<JobPlacement>())))
      ->needs(co_located)
      ->capture_default_str();
  app.add_option("--flops-convention", options->flops_convention, "how the model's FLOPs are counted")
      ->check(one_of({"model_full_attn", "model_causal"}))
      ->capture_default_str();
  add_simulation(app, *options);
  add_predict_output(app, *options, sweep);
  return [options](const Context& context) { return predict(*options, context); };
}

}  // namespace

const Command kPredictCommand{"predict", "forecast one training step of a scenario", "predict llama3-405b-16k",
                              add_predict_options};

}  // namespace tracecast::cli
