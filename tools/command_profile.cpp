/// `tracecast profile`: times the operators and collectives of this machine and writes a profile.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"
#include "sim/base/quantity_text.hpp"
#include "sim/base/words.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/import/importers.hpp"
#include "sim/io/atomic_file.hpp"
#include "sim/io/files.hpp"
#include "sim/network/measured_network.hpp"
#include "tools/command_rows.hpp"
#include "tools/named_files.hpp"
#include "tools/option_checks.hpp"
#include "tools/worker_process.hpp"
#include "tracer/measured_profile.hpp"

namespace tracecast::cli {
namespace {

struct ProfileOptions {
  std::string suite = "quick";
  std::string device = "cpu";
  std::vector<std::string> scenarios;
  int ranks = 0;
  int passes = 20;
  std::vector<std::string> traces;
  std::vector<std::string> overrides;
  double least_matched = 50;  // percent
  std::string base;
  double seconds = 0;
  std::string out = "recorded.json";
  bool json = false;
};

using Json = nlohmann::ordered_json;

/// FLOP/s.
double fastest_multiplication(const Profile& profile) {
  double fastest = 0;
  for (const MeasuredOperator& each : profile.measured)
    if (std::holds_alternative<GemmShape>(each.op.shape))
      fastest = std::max(fastest, flops(each.op).count / each.seconds);
  return fastest;
}

/// Bytes per second.
double fastest_element_wise(const Profile& profile) {
  double fastest = 0;
  for (const MeasuredOperator& each : profile.measured)
    if (std::holds_alternative<ElementwiseShape>(each.op.shape))
      fastest = std::max(fastest, static_cast<double>(compulsory_traffic(each.op).count) / each.seconds);
  return fastest;
}

Json json_of(const Profile& profile, const std::string& path) {
  return {{"gpu", profile.gpu},
          {"source", profile.source},
          {"operators_timed", profile.measured.size()},
          {"collectives_timed", profile.measured_collectives.size()},
          {"fastest_multiplication_flops_per_s", fastest_multiplication(profile)},
          {"element_wise_bytes_per_s", fastest_element_wise(profile)},
          {"overlap", profile.overlap},
          {"profile", path}};
}

Json json_of(const MeasuredProfile& measured, const std::string& path) {
  Json unmatched = Json::array();
  for (const UnmatchedKernels& each : measured.unmatched)
    unmatched.push_back({{"name", each.name}, {"seconds", seconds(each.time)}, {"why", to_string(each.why)}});
  Json matched = Json::object();
  for (int i = 0; i < kMatches; ++i)
    if (is_matched(static_cast<Match>(i)))
      matched[to_string(static_cast<Match>(i))] = seconds(measured.time_by_match[static_cast<std::size_t>(i)]);
  Json left_out = Json::array();
  for (const OmittedOperator& each : measured.left_out) left_out.push_back({{"name", each.name}, {"why", each.why}});
  return {{"steps", measured.steps},
          {"kernels", measured.kernels},
          {"kernels_matched", measured.matched},
          {"kernel_seconds", seconds(measured.time)},
          {"kernel_seconds_matched", seconds(measured.matched_time)},
          {"kernel_seconds_matched_by", matched},
          {"share_of_the_step_found", measured.fullest_step},
          {"recorded_over_forecast", measured.of_forecast},
          {"operators_measured", measured.operators},
          {"collectives", measured.collectives},
          {"collectives_matched", measured.collectives_matched},
          {"collectives_across_hosts", measured.collectives_across_hosts},
          {"unmatched", unmatched},
          {"left_out", left_out},
          {"profile", path}};
}

std::string summary(const Profile& profile, const std::string& path) {
  std::string text = fmt::format(
      "{}\n  {} operators and {} collectives timed: {}\n  fastest multiplication {:.1f} GFLOP/s, element-wise work "
      "{:.1f} GB/s\n",
      profile.gpu, profile.measured.size(), profile.measured_collectives.size(), profile.source,
      fastest_multiplication(profile) * 1e-9, fastest_element_wise(profile) * 1e-9);
  if (!profile.overlap)  // of a GPU, other shapes have their models from the shipped profile
    text += fmt::format(
        "  leaving each measurement out in turn, it is forecast within {:.0f} % on average\n"
        "  no concurrent work was timed: this device runs one operation at a time\n",
        100 * profile.grouped_gemm.fit.residual);
  return text + fmt::format("  written to {}; use it with --set cluster.profile={}\n", path, path);
}

std::string summary(const MeasuredProfile& measured, const std::string& path) {
  constexpr std::size_t kMaxNames = 8;
  const double share = seconds(measured.matched_time) / seconds(measured.time);
  std::string text = fmt::format(
      "{} of {} kernels of {} step{} matched, {:.1f} % of their time: {} operators measured\n", measured.matched,
      measured.kernels, measured.steps, plural(measured.steps), 100 * share, measured.operators);
  for (int i = 0; i < kMatches; ++i) {
    const Duration time = measured.time_by_match[static_cast<std::size_t>(i)];
    if (is_matched(static_cast<Match>(i)) && time > Duration{})
      text += fmt::format("  {:>10}  {}\n", to_text(time), to_string(static_cast<Match>(i)));
  }
  text += fmt::format("  the fullest step has {:.1f} % of the scenario's operators, by forecast time\n",
                      100 * measured.fullest_step);
  if (measured.of_forecast > 0)
    text += fmt::format("  multiplications and attention took {:.2f} times their forecast\n", measured.of_forecast);
  if (measured.collectives > 0)
    text += fmt::format("{} of {} collectives matched, {} of them across hosts and left to the network model\n",
                        measured.collectives_matched, measured.collectives, measured.collectives_across_hosts);
  if (!measured.unmatched.empty()) text += "not matched, longest first:\n";
  for (std::size_t i = 0; i < std::min(kMaxNames, measured.unmatched.size()); ++i) {
    const UnmatchedKernels& each = measured.unmatched[i];
    text += fmt::format("  {:>10}  {}: {}\n", to_text(each.time), each.name, to_string(each.why));
  }
  if (!measured.left_out.empty()) text += "left out, since the kernels may be of something else:\n";
  for (const OmittedOperator& each : measured.left_out) text += fmt::format("  {}: {}\n", each.name, each.why);
  return text + fmt::format("written to {}; use it with --set cluster.profile={}\n", path, path);
}

Result<Scenario> recorded_scenario(const ProfileOptions& options) {
  if (options.scenarios.size() != 1)
    return fail_key("--for", "", "must be given once with --from: the recorded scenario");
  return named_scenario(options.scenarios[0], options.overrides);
}

/// What was recorded and on which hardware; never a host name.
std::string source_of(const std::vector<NamedTrace>& traces, const Scenario& scenario, const Profile& base) {
  const TraceHeader& header = traces.front().trace.header;
  return fmt::format("recorded: {} of scenario {}{}{}; what was not measured: {}",
                     traces.size() == 1 ? "a trace" : fmt::format("{} traces", traces.size()), scenario.name,
                     header.gpu.empty() ? "" : " on " + header.gpu, header.date.empty() ? "" : ", " + header.date,
                     base.source);
}

/// The scenario names the hardware; its profile supplies models for everything that was not measured.
Result<ExitCode> measure_recordings(const ProfileOptions& options) {
  const Result<Scenario> scenario = recorded_scenario(options);
  if (!scenario) return tl::unexpected(scenario.error());
  const Result<ForecastRun> run = forecast(*scenario, {.unfold = true});
  if (!run) return tl::unexpected(run.error());
  std::vector<NamedTrace> traces;
  for (const std::string& file : options.traces) {
    std::vector<std::string> notes;
    Result<Trace> trace = read_any_recording(file, &notes);
    if (!trace) return tl::unexpected(trace.error());
    for (const std::string& note : notes) fmt::print(stderr, "{}: {}\n", file, note);
    traces.push_back({file, std::move(*trace)});
  }
  Result<MeasuredProfile> measured =
      measured_profile(traces, run->graph, scenario->profile, {.least_matched = options.least_matched / 100},
                       link_of_gpu(scenario->cluster.node));
  if (!measured) return tl::unexpected(measured.error());
  Profile& profile = measured->profile;
  profile.name = std::filesystem::path(options.out).stem().string();
  profile.source = source_of(traces, *scenario, scenario->profile);
  if (const Result<void> written = write_file(options.out, to_json(profile)); !written)
    return tl::unexpected(written.error());
  fmt::print("{}", options.json ? json_file(json_of(*measured, options.out)) : summary(*measured, options.out));
  return ExitCode::done;
}

/// Errors: an option that would be ignored.
Result<void> check_use(const ProfileOptions& options) {
  const bool times = options.traces.empty();
  const bool gpus = times && options.device == "cuda";
  if (times && !options.overrides.empty())
    return fail_key("--set", options.overrides.front(),
                    "changes a recorded scenario and needs --from; --for takes a file with the changed value");
  if (!options.base.empty() && !gpus) return fail_key("--base", options.base, "is for --device cuda only");
  if (options.seconds > 0 && (!gpus || options.ranks > 1))
    return fail_key("--seconds", fmt::format("{}", options.seconds), "is for --device cuda with one rank only");
  return {};
}

/// Arguments common to both kinds of workers.
std::vector<std::string> arguments_of(const ProfileOptions& options, const Context& context) {
  std::vector<std::string> arguments{"profile", "--suite",  options.suite, "--passes", std::to_string(options.passes),
                                     "--out",   options.out};
  for (const std::string& name : options.scenarios) {
    arguments.emplace_back("--for");
    arguments.push_back(name);
  }
  if (context.show_progress) arguments.emplace_back("--progress");
  return arguments;
}

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

Result<ExitCode> show(const ProfileOptions& options) {
  const Result<Profile> profile = read_profile(options.out);
  if (!profile) return tl::unexpected(profile.error());
  fmt::print("{}", options.json ? json_file(json_of(*profile, options.out)) : summary(*profile, options.out));
  return ExitCode::done;
}

Result<ExitCode> record_on_gpus(const ProfileOptions& options, const Context& context) {
  const int ranks = std::max(1, options.ranks);
  if (const std::string sentence = missing_for_cuda_workers(ranks); !sentence.empty()) return missing(sentence);
  std::vector<std::string> arguments = arguments_of(options, context);
  if (!options.base.empty()) arguments.insert(arguments.end(), {"--base", options.base});
  if (options.seconds > 0) arguments.insert(arguments.end(), {"--seconds", fmt::format("{}", options.seconds)});
  const ExitCode code = run_cuda_worker(ranks, std::move(arguments));
  if (code == ExitCode::done) return show(options);
  if (exists(options.out + ".measured"))
    fmt::print(stderr, "not finished; what was measured is in {}.measured; run the same command again to continue{}\n",
               options.out, code == ExitCode::no ? fmt::format("; {} holds the results so far", options.out) : "");
  return code;
}

Result<ExitCode> record(const ProfileOptions& options, const Context& context) {
  if (const Result<void> fits = check_use(options); !fits) return tl::unexpected(fits.error());
  // Timing takes minutes: first see that the profile can be written.
  if (const Result<void> writable = AtomicFile(options.out).finish(); !writable)
    return tl::unexpected(writable.error());
  if (!options.traces.empty()) return measure_recordings(options);
  if (options.device == "cuda") return record_on_gpus(options, context);
  if (const std::string sentence = missing_for_workers(); !sentence.empty()) return missing(sentence);
  const int ranks = options.ranks > 0 ? options.ranks : usable_cores();
  if (run_worker(ranks, arguments_of(options, context)) != ExitCode::done) {
    if (exists(options.out + ".passes"))
      fmt::print(stderr,
                 "nothing was written; finished passes are in {}.passes; run the same command again to continue\n",
                 options.out);
    return ExitCode::bad_input;
  }
  return show(options);
}

Run add_profile_options(CLI::App& app) {
  auto options = std::make_shared<ProfileOptions>();
  app.add_option("--suite", options->suite, "which shapes: quick (a minute on a CPU), full, or none (with --for)")
      ->check(one_of({"quick", "full", "none"}))
      ->capture_default_str();
  app.add_option("--device", options->device, "device to time")->check(one_of({"cpu", "cuda"}))->capture_default_str();
  app.add_option("--for", options->scenarios, "also the operators of this scenario's step; may be repeated")
      ->type_name("SCENARIO")
      ->allow_extra_args(false);
  app.add_option("--from", options->traces,
                 "instead of timing: recordings of the scenario of --for (traces of record, PyTorch's profiler, "
                 "Nsight), one per "
                 "rank")
      ->type_name("TRACE");
  add_overrides(app, options->overrides, "with --from: replace a value of the recorded scenario; may be repeated");
  app.add_option(
         "--least-matched", options->least_matched,
         "with --from: refuse a recording if less of its kernels' time matches the scenario's operators, or less "
         "of the scenario's step was recorded")
      ->type_name("PERCENT")
      ->check(in_range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--ranks", options->ranks,
                 "processes that run at the same time, like the ranks of a step; 0: one per core, on GPUs one")
      ->check(in_range(0, 4096))
      ->capture_default_str();
  app.add_option("--passes", options->passes, "number of times that everything is timed")
      ->check(in_range(1, 100'000))
      ->capture_default_str();
  app.add_option("--base", options->base, "GPUs: shipped profile for what is not measured (default: by the GPU's name)")
      ->type_name("PROFILE");
  app.add_option("--seconds", options->seconds, "one GPU: time limit, to continue later (exit code 1); 0: no limit")
      ->check(at_least_zero())
      ->capture_default_str();
  app.add_option("--out", options->out, "the profile")->type_name("FILE")->capture_default_str();
  app.add_flag("--json", options->json, "print what was timed or matched as one JSON object instead of a page");
  return [options](const Context& context) { return record(*options, context); };
}

}  // namespace

const Command kProfileCommand{"profile", "time the operators and collectives of this machine, and write a profile",
                              "profile --suite quick --passes 2 --out recorded.json", add_profile_options};

}  // namespace tracecast::cli
