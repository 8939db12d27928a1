/// `tracecast plan`: the best layouts, numbers of GPUs and machines for a job.
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/import/launchers/launcher_rules.hpp"
#include "sim/io/output_files.hpp"
#include "sim/plan/plan.hpp"
#include "sim/report/decision_page.hpp"
#include "sim/report/plan_report.hpp"
#include "sim/report/report_page.hpp"
#include "tools/build_info.hpp"
#include "tools/command_rows.hpp"
#include "tools/emit_launcher.hpp"
#include "tools/named_values.hpp"
#include "tools/option_checks.hpp"
#include "tools/plan_search.hpp"
#include "tools/process_group.hpp"

namespace tracecast::cli {
namespace {

/// The table and the pages that --csv, --html and --page ask for.   scenario: for --html
Result<void> write_files(const PlanOptions& options, const PlanReport& report, const std::string& scenario,
                         const Context& context) {
  const PageMetadata metadata{context.command, "tracecast " + version()};
  OutputFiles files;
  if (!options.csv.empty()) files.write(options.csv, plan_csv(report.plan));
  if (!options.html.empty()) files.write(options.html, plan_html(report, scenario, metadata));
  if (!options.page.empty()) files.write(options.page, decision_page(report, metadata));
  return files.commit();
}

Result<ExitCode> plan(PlanOptions options, const Context& context) {
  if (options.launcher.empty() && options.emit != "scenario") options.launcher = options.emit;
  if (!options.launcher.empty())
    options.search.allowed = [format = options.launcher](const Scenario& scenario) {
      const Result<Plan> possible =
          make_plan(scenario.model, scenario.parallel, scenario.training, scenario.cluster.world_size);
      return !possible || launcher_refusals(format, scenario).empty();  // the search counts impossible ones
    };
  const Result<std::unique_ptr<ProcessGroup>> group = launched_processes();
  if (!group) return tl::unexpected(group.error());
  if (*group && options.search.threads == 0) options.search.threads = 1;
  Result<PlanRequest> request = plan_request(options);
  if (!request) return tl::unexpected(request.error());
  const std::string scenario = options.html.empty() ? "" : to_json(request->machines.front().scenario);
  std::string store_failure;
  const Result<PlanReport> report = plan_search(std::move(*request), group->get(), context, store_failure);
  if (!report) return tl::unexpected(report.error());
  const bool met = !report->plan.candidates.empty() && report->plan.candidates.front().misses.empty();
  const ExitCode answer = met ? ExitCode::done : ExitCode::no;
  if (*group && (*group)->rank() != 0) return answer;
  const auto kept = [&](ExitCode code) -> Result<ExitCode> {
    if (store_failure.empty()) return code;
    return fail_key("--out", options.out,
                    fmt::format("does not keep all results ({}); the answer does not depend on it", store_failure));
  };
  if (const Result<void> written = write_files(options, *report, scenario, context); !written)
    return tl::unexpected(written.error());
  if (!options.emit.empty() && !report->plan.candidates.empty()) {
    const std::vector<Candidate>& found = report->plan.candidates;
    if (options.pick > static_cast<int>(found.size()))
      return fail_key("--pick", std::to_string(options.pick), fmt::format("{} layouts were found", found.size()));
    const Candidate& picked = found[static_cast<std::size_t>(options.pick - 1)];
    const MachineChoice& machine = choice_of(report->plan, picked);
    if (!report->stack_of_launcher.empty())
      fmt::print(stderr, "planned with stack={}, which an import of these settings sets (--set stack=NAME: another)\n",
                 report->stack_of_launcher);
    return kept(print_for_launcher(options.emit, with_layout(machine.scenario, picked.evaluation.layout))
                    ? answer
                    : ExitCode::no);
  }
  fmt::print("{}", options.json ? plan_json(*report) : plan_page(*report, context.style));
  return kept(answer);
}

void add_space(CLI::App& app, PlanOptions& options) {
  const auto list = [&app](const std::string& name, auto& values, const std::string& text) {
    return app.add_option(name, values, text)->delimiter(',')->type_name("LIST");
  };
  const CLI::Validator degree = in_range(1, kMaxDegree);
  app.option_defaults()->group("What is searched");
  app.add_option("--gpus", options.gpus,
                 fmt::format("numbers of GPUs, 1 to {}: 1024, a list 256,384, 256..16384 (doubling), or 1024..2048:128 "
                             "(steps)",
                             kMostPlannedGpus))
      ->type_name("GPUS");
  app.add_option("--global-batch", options.global_batch,
                 "samples of a step, as --gpus (default: the scenario's); the smallest and largest that are allowed")
      ->type_name("SAMPLES");
  list("--topology", options.topologies,
       "machines to compare: files or shipped names; NAME:GPUS, as in dgx-h100:512,dgx-h200:384, gives one a size of "
       "its own");
  list("--tp", options.tp,
       "tensor-parallel degrees (default: powers of two up to 16 inside a scale-up domain that divide the heads; of "
       "every choice also the scenario's value)")
      ->check(degree);
  list("--pp", options.pp, "pipeline degrees (default: all up to 128 that divide the GPUs)")->check(degree);
  list("--vpp", options.vpp, "model chunks per pipeline rank (default: 1 to 8)")->check(degree);
  list("--cp", options.cp,
       "context-parallel degrees (default: 1; from 32 Ki tokens per sequence on, powers of two up to 16)")
      ->check(degree);
  list("--ep", options.ep,
       "expert-parallel degrees (default: 1; of models with experts, powers of two up to 64 that divide them)")
      ->check(degree);
  list("--micro-batch", options.micro_batch,
       "micro-batch sizes (default: those of 1, 2, 4, 8 that divide the global batch)")
      ->check(in_range(1, 1e6));
  list("--recompute", options.recompute, "of none, selective, selective_op, full (default: none, selective, full)");
  list("--zero", options.zero, "ZeRO stages, 0 to 3 (default: 0, 1, 3)")->check(in_range(0, 3));
  list("--sequence-parallel", options.sequence_parallel, "on, off, or on,off (default: on)");
  list("--offload", options.offload,
       "states to offload to the host: none, optimizer, optimizer+parameters, activations … (default: none, and these "
       "where nothing fits)");
  list("--schedule", options.schedules,
       "pipeline schedules (default: 1f1b, interleaved with chunks, and the scenario's)");
  app.add_option("--sweep", options.sweep,
                 "also search these values of any other key, e.g. parallel.etp=1,2 or topology.node.nics=4,8; may be "
                 "repeated, for all combinations")
      ->type_name("KEY=LIST")
      ->allow_extra_args(false);
  app.add_option("--launcher", options.launcher, "only layouts that this launcher can express and does not refuse")
      ->check(one_of(emitted_launchers()));
}

void add_objective(CLI::App& app, PlanOptions& options) {
  app.option_defaults()->group("Objective and costs");
  app.add_option("--objective", options.objective,
                 "time, throughput, cost, energy or gpus; several (time,energy): ranked by the first, and the best "
                 "trade-offs of all")
      ->type_name("LIST")
      ->capture_default_str();
  app.add_option("--tokens", options.tokens, "tokens to train: 2T, 300B (default: the scenario's train_tokens)")
      ->type_name("TOKENS");
  app.add_option("--days", options.days, "time limit of the training")->check(above_zero());
  app.add_option("--budget", options.budget, "maximum cost in US dollars: 2000000, 2M")
      ->transform(count_or_above_zero());
  app.add_option("--economics", options.economics, "prices and power: a file, or the name of one that is shipped")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--term", options.term, "how GPUs are paid: on-demand, reserved-1y, reserved-3y or owned")
      ->check(one_of(names_of(values_by_name<Term>())));
  app.add_option("--region", options.region,
                 "a grid of the economics file: its quotes, electricity and CO2 (default: all, world)")
      ->type_name("NAME");
  app.add_option("--price", options.price,
                 "US dollars per GPU-hour, in place of the file's: 2.1 for all GPUs, or h100=2.1,gb200=5.5")
      ->type_name("PRICE");
  app.add_option("--spares", options.spares,
                 "spare nodes, which are paid for (default: the cheapest number per token for --objective cost, energy "
                 "and gpus, else enough for 99.9 % of the time)")
      ->check(in_range(0, 1'000'000));
  app.add_option("--failures", options.failures, "failure model for the goodput, or none")
      ->type_name("NAME")
      ->capture_default_str();
}

void add_search(CLI::App& app, PlanOptions& options) {
  app.option_defaults()->group("How it is searched");
  app.add_option("--headroom", options.search.memory_headroom, "share of the GPU memory to leave free")
      ->check(in_range(0.0, 0.9))
      ->capture_default_str();
  app.add_option("--best", options.search.best, "layouts to find on every machine")
      ->check(in_range(1, 10'000))
      ->capture_default_str();
  app.add_flag("--exhaustive", options.search.exhaustive, "simulate everything that fits");
  app.add_flag("--recipe", options.recipe,
               "also follow the manual recipe: most data parallelism that fits, then one change at a time; shows the "
               "gap to the best");
  app.add_flag("--no-upgrades", options.no_upgrades, "do not try better machines");
  add_threads(app, options.search.threads);
  app.add_option("--out", options.out, "keep results in this SQLite file; an interrupted search resumes from it")
      ->type_name("FILE");
}

void add_plan_output(CLI::App& app, PlanOptions& options) {
  app.option_defaults()->group("Output");
  app.add_option("--csv", options.csv, "write every simulated layout to this file")->type_name("FILE");
  app.add_option(
         "--page", options.page,
         "write a summary for decision makers to this file: question, answer, trade-offs, money, what would change it")
      ->type_name("FILE");
  app.add_option("--html", options.html, "write a page for a browser to this file; it needs no network")
      ->type_name("FILE");
  CLI::Option* const json = app.add_flag("--json", options.json, "print one JSON object instead of a page");
  CLI::Option* const emit =
      app.add_option(
             "--emit", options.emit,
             "print the best layout as settings of this launcher, or as a scenario file, instead of a page; of a "
             "launcher it implies --launcher")
          ->check(one_of(emitted_formats()))
          ->excludes(json);
  app.add_option("--pick", options.pick, "the layout for --emit, by its number on the page")
      ->check(in_range(1, 10'000))
      ->needs(emit)
      ->capture_default_str();
}

Run add_plan_options(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  add_scenario(app, options->scenario);
  add_overrides(app, options->overrides,
                "replace a value of the scenario, or of all machines: topology.KEY; may be repeated");
  add_space(app, *options);
  add_objective(app, *options);
  add_search(app, *options);
  add_plan_output(app, *options);
  return [options](const Context& context) { return plan(*options, context); };
}

}  // namespace

const Command kPlanCommand{"plan", "find the best layouts, GPU counts and machines for a job",
                           "plan llama3-405b-1024 --best 3 --no-upgrades", add_plan_options};

}  // namespace tracecast::cli
