/// `tracecast execute`: runs the step of a scenario for real.
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "kernels/cuda/operand_bytes.hpp"
#include "kernels/operands.hpp"
#include "sim/base/words.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/io/files.hpp"
#include "sim/io/output_folder.hpp"
#include "sim/io/step_record.hpp"
#include "tools/command_rows.hpp"
#include "tools/named_files.hpp"
#include "tools/option_checks.hpp"
#include "tools/progress.hpp"
#include "tools/rank_times.hpp"
#include "tools/temporary_folder.hpp"
#include "tools/worker_process.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;

struct ExecuteOptions {
  std::string scenario;
  std::vector<std::string> overrides;
  std::string device = "cpu";
  int steps = 20;
  std::string out;
  bool json = false;
};

std::vector<std::string> scenario_arguments(const std::string& command, const ExecuteOptions& options) {
  std::vector<std::string> arguments{command, options.scenario};
  for (const std::string& each : options.overrides) {
    arguments.emplace_back("--set");
    arguments.push_back(each);
  }
  return arguments;
}

/// The operators whose kernels here differ from those of the scenario, a line each.
Result<std::string> other_kernels(const Scenario& scenario, bool gpus) {
  constexpr std::int64_t kCpuElement = 4;  // bytes: everything is in fp32
  const Result<ForecastRun> run = forecast(scenario, {.unfold = true});
  if (!run) return tl::unexpected(run.error());
  std::set<std::string> lines;
  for (const CostedOperator& costed : run->graph.operators) {
    std::string why = gpus ? cuda::not_as_in_training(costed.op) : other_traffic(costed.op, kCpuElement);
    if (!gpus && !why.empty()) why = "the kernel here " + why;
    if (!why.empty()) lines.insert(fmt::format("  {} {}: {}\n", costed.op.name, to_string(costed.op.pass), why));
  }
  if (lines.empty()) return "";
  return fmt::format("\nExecuted by kernels that say nothing about a framework's:\n{}", fmt::join(lines, ""));
}

/// Errors: the files of --out cannot be written.
Result<void> check_folder(const std::string& folder) {
  OutputFolder probe(folder);
  return probe.file("timeline.json").finish();
}

std::string page(const StepRecord& record, const TextStyle& style) {
  const StepRepeats& repeats = *record.repeats;
  std::string text = fmt::format("{}: {} step{} executed by {} rank{}\n", record.scenario, repeats.count,
                                 plural(repeats.count), record.ranks.size(), plural(record.ranks.size()));
  text += fmt::format("  lower quartile {}, median {}, spread {}\n\n", time_text(repeats.lower_quartile_s),
                      time_text(repeats.median_s), percent(repeats.spread));
  return text + rank_times(record, "Where the time went, in the step nearest to the lower quartile", style);
}

Result<ExitCode> execute(const ExecuteOptions& options, const Context& context) {
  const bool gpus = options.device == "cuda";
  const Result<Scenario> scenario = named_scenario(options.scenario, options.overrides);
  if (!scenario) return tl::unexpected(scenario.error());
  if (!options.out.empty())
    if (const Result<void> writable = check_folder(options.out); !writable) return tl::unexpected(writable.error());
  const int ranks = scenario->cluster.world_size;
  const std::string sentence = gpus ? missing_for_cuda_workers(ranks) : missing_for_workers();
  if (!sentence.empty()) return missing(sentence);
  const std::vector<std::string> check = scenario_arguments("check", options);
  if (const ExitCode fits = gpus ? run_cuda_worker(1, check) : run_worker(0, check); fits != ExitCode::done)
    return fits;
  const Result<std::string> others = other_kernels(*scenario, gpus);
  if (!others) return tl::unexpected(others.error());
  std::optional<TemporaryFolder> temporary;
  if (options.out.empty() && !temporary.emplace().good())
    return fail({temporary->path(), 0, "", "", "cannot be made, and --out names no folder"});
  const fs::path folder = options.out.empty() ? fs::path(temporary->path()) / "step" : fs::path(options.out);
  std::vector<std::string> arguments = scenario_arguments("execute", options);
  arguments.insert(arguments.end(), {"--steps", std::to_string(options.steps), "--out", folder.string()});
  {
    const Busy busy(fmt::format("executing {} steps", options.steps), context.show_progress);
    const ExitCode done = gpus ? run_cuda_worker(ranks, arguments) : run_worker(ranks, arguments);
    if (done != ExitCode::done) return done;
  }
  const Result<StepRecord> record = read_step_record(folder);
  if (!record) return tl::unexpected(record.error());
  fmt::print("{}", options.json ? to_json(*record) : page(*record, context.style));
  fmt::print(options.json ? stderr : stdout, "{}", *others);
  return ExitCode::done;
}

Run add_execute_options(CLI::App& app) {
  auto options = std::make_shared<ExecuteOptions>();
  add_scenario(app, options->scenario);
  add_overrides(app, options->overrides, "replace a value of the scenario, e.g. parallel.tp=2; may be repeated");
  app.add_option("--device", options->device, "device that runs the operators")
      ->check(one_of({"cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--steps", options->steps, "steps to time, after three warm-up steps")
      ->check(in_range(1, 100'000))
      ->capture_default_str();
  app.add_option("--out", options->out, "also write timeline.json (for compare) and trace.json (for Perfetto) there")
      ->type_name("DIR");
  app.add_flag("--json", options->json, "print the timeline as JSON instead of a page");
  return [options](const Context& context) { return execute(*options, context); };
}

}  // namespace

const Command kExecuteCommand{"execute", "run the step of a scenario on this machine and show its time",
                              "execute cpu-pp2-1f1b --steps 3", add_execute_options};

}  // namespace tracecast::cli
