/// `tracecast plan`: the best layouts, numbers of GPUs and machines for a job.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/words.hpp"
#include "sim/forecast/goodput_forecast.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/launchers/launcher_rules.hpp"
#include "sim/io/economics_file.hpp"
#include "sim/io/files.hpp"
#include "sim/io/read_file.hpp"
#include "sim/network/rack_use.hpp"
#include "sim/plan/plan.hpp"
#include "sim/report/plan_report.hpp"
#include "sim/report/report_page.hpp"
#include "sim/schedule/schedule.hpp"
#include "sim/search/search_store.hpp"
#include "tools/build_info.hpp"
#include "tools/command_rows.hpp"
#include "tools/emit_launcher.hpp"
#include "tools/environment.hpp"
#include "tools/named_files.hpp"
#include "tools/option_checks.hpp"
#include "tools/option_error.hpp"
#include "tools/process_group.hpp"
#include "tools/progress.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string scenario;
  std::vector<std::string> overrides;
  std::string gpus;
  std::vector<std::string> topologies;
  std::vector<int> tp, cp, ep, pp, vpp, zero;
  std::vector<std::int64_t> micro_batch;
  std::vector<std::string> recompute;
  std::vector<std::string> schedules;
  std::vector<std::string> sequence_parallel;
  std::vector<std::string> offload;
  std::string global_batch;
  std::string objective = "time";
  std::string tokens;
  double days = 0;
  double budget = 0;
  std::string economics = "rental-2026";
  double price = 0;
  std::string failures = "llama3-54-days";
  SearchOptions search{.memory_headroom = 0.05};
  bool no_upgrades = false;
  bool recipe = false;
  std::string csv;
  std::string html;
  std::string out;
  std::string emit;
  std::string launcher;
  int pick = 1;
  bool json = false;
};

/// "256..16384" doubles from the first to the last; "1024..2048:128" goes in steps; "256,384" is a list; "1024" is a single
/// number. Other text is an error.
std::optional<std::vector<int>> parse_counts(const std::string& text) {
  const auto number = [](std::string_view part, int& value) {
    const auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), value);
    return code == std::errc{} && end == part.data() + part.size() && value >= 1 && value <= (1 << 22);
  };
  std::vector<int> values;
  if (const std::size_t dots = text.find(".."); dots != std::string::npos) {
    int first = 0;
    int last = 0;
    const std::string_view all = text;
    const std::size_t colon = std::min(text.find(':', dots), text.size());
    int step = 0;
    if (colon < text.size() && !number(all.substr(colon + 1), step)) return std::nullopt;
    if (!number(all.substr(0, dots), first) || !number(all.substr(dots + 2, colon - dots - 2), last) || first > last)
      return std::nullopt;
    constexpr int kMostSizes = 1000;
    if (step > 0 && (last - first) / step >= kMostSizes) return std::nullopt;
    for (std::int64_t count = first; count <= last; count = step > 0 ? count + step : 2 * count)
      values.push_back(static_cast<int>(count));
    return values;
  }
  for (const std::string_view part : split(text))
    if (!number(part, values.emplace_back())) return std::nullopt;
  return values;
}

/// A single 0 (the scenario's value) if nothing is given.
Result<std::vector<int>> counts_of(const char* option, const std::string& text, const char* what) {
  if (text.empty()) return std::vector<int>{0};
  if (const auto counts = parse_counts(text)) return *counts;
  return fail_key(
      option, text,
      fmt::format("is not a {} (allowed: 1024, 256,384,512, 256..16384, which doubles, or 1024..2048:128)", what));
}

/// "2T", "15.6T", "300B", "1e12".
Result<double> parse_tokens(const std::string& text) {
  if (text.empty()) return 0.0;
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  const double factor = unit.empty()  ? 1
                        : unit == "K" ? 1e3
                        : unit == "M" ? 1e6
                        : unit == "B" ? 1e9
                        : unit == "T" ? 1e12
                                      : 0;
  if (code == std::errc{} && factor > 0 && value * factor >= 1 && value * factor <= 9e18) return value * factor;
  return fail_key("--tokens", text, "is not a number of tokens (allowed: 2T, 300B, 15.6e12)");
}

Result<Objective> parse_objective(const std::string& text) {
  if (const std::optional<Objective> objective = parse_enum<Objective>(text)) return *objective;
  return fail_key("--objective", text, "unknown objective (allowed: time throughput cost energy gpus)");
}

Result<void> restrict_memory(SearchSpace& space, const Options& options) {
  if (!options.sequence_parallel.empty()) space.sequence_parallel.clear();
  for (const std::string& text : options.sequence_parallel) {
    if (text != "on" && text != "off") return fail_key("--sequence-parallel", text, "must be on, off, or on,off");
    space.sequence_parallel.push_back(static_cast<char>(text == "on"));
  }
  if (!options.offload.empty()) space.offload.clear();
  for (const std::string& text : options.offload) {
    const std::optional<Offload> offload = parse_offload(text);
    if (!offload)
      return fail_key("--offload", text,
                      "cannot be offloaded to the host (allowed: none, or of optimizer parameters activations, in "
                      "this order, joined by +)");
    space.offload.push_back(*offload);
  }
  return {};
}

/// The choices that the user gave in place of the defaults.
Result<void> restrict(SearchSpace& space, const Options& options) {
  const auto take = [](auto& values, const auto& given) {
    if (!given.empty()) values.assign(given.begin(), given.end());
  };
  take(space.tp, options.tp);
  take(space.cp, options.cp);
  take(space.ep, options.ep);
  take(space.pp, options.pp);
  take(space.vpp, options.vpp);
  take(space.zero_stage, options.zero);
  take(space.micro_batch_size, options.micro_batch);
  for (const std::string& name : options.schedules)
    if (find_schedule(name) == nullptr)
      return fail_key("--schedule", name, "unknown schedule (see tracecast schedule --help)");
  take(space.pp_schedule, options.schedules);
  if (Result<void> done = restrict_memory(space, options); !done || options.recompute.empty()) return done;
  space.recompute.clear();
  for (const std::string& name : options.recompute) {
    const std::optional<Recompute> found = parse_enum<Recompute>(name);
    if (!found) return fail_key("--recompute", name, fmt::format("is unknown (allowed: {})", all_names<Recompute>()));
    space.recompute.push_back(*found);
  }
  return {};
}

/// The machines to compare, and a sentence for each that has too few GPUs.
struct Machines {
  std::vector<MachineChoice> choices;
  std::vector<std::string> left_out;
};

bool is_too_large(const Error& error) {
  return std::all_of(error.diagnostics.begin(), error.diagnostics.end(),
                     [](const Diagnostic& each) { return each.key == "cluster.world_size"; });
}

/// The scenario's machine. Of racks, the two largest parts that divide the job, unless the scenario gives the part.
void add_choices(Scenario scenario, const std::vector<std::string>& overrides, std::vector<MachineChoice>& choices) {
  std::vector<int> parts =
      scenario.gpus_per_rack > 0
          ? std::vector<int>{}
          : rack_choices(whole_racks(scenario.cluster.node), scenario.cluster.max_nodes, scenario.cluster.world_size);
  if (parts.empty()) parts.push_back(scenario.gpus_per_rack);  // 0: not a rack, or a whole one
  parts.resize(std::min<std::size_t>(parts.size(), 2));
  for (const int part : parts) {
    MachineChoice choice{scenario.topology, scenario.cluster.world_size, scenario};
    choice.overrides = overrides;
    if (part != scenario.gpus_per_rack) choice.overrides.push_back(fmt::format("cluster.gpus_per_rack={}", part));
    choice.scenario.gpus_per_rack = part;
    use_racks(choice.scenario.cluster, choice.scenario.parallel, part);
    choices.push_back(std::move(choice));
  }
}

/// Errors: those of the files; every machine is too small.
Result<Machines> find_machines(const Options& options, const DataPaths& data) {
  const Result<fs::path> path = find_file(options.scenario, data.scenarios, "scenario");
  if (!path) return tl::unexpected(path.error());
  const Result<std::vector<int>> sizes = counts_of("--gpus", options.gpus, "number of GPUs");
  if (!sizes) return tl::unexpected(sizes.error());
  const Result<std::vector<int>> batches = counts_of("--global-batch", options.global_batch, "global batch");
  if (!batches) return tl::unexpected(batches.error());
  const std::vector<std::string> as_it_is{""};
  Machines result;
  std::optional<Error> too_large;  // the first
  for (const std::string& topology : options.topologies.empty() ? as_it_is : options.topologies)
    for (const int gpus : *sizes)
      for (const int batch : *batches) {
        std::vector<std::string> overrides = options.overrides;
        if (!topology.empty()) overrides.push_back("cluster.topology=" + topology);
        if (gpus > 0) overrides.push_back(fmt::format("cluster.world_size={}", gpus));
        if (batch > 0) overrides.push_back(fmt::format("training.global_batch_size={}", batch));
        Result<Scenario> scenario = read_any_scenario(*path, data, overrides);
        if (!scenario && sizes->size() > 1 && is_too_large(scenario.error())) {
          if (!too_large) too_large = scenario.error();
          result.left_out.push_back(scenario.error().diagnostics.front().value +
                                    " GPUs: " + scenario.error().diagnostics.front().message);
          continue;
        }
        if (!scenario) return tl::unexpected(scenario.error());
        add_choices(std::move(*scenario), overrides, result.choices);
      }
  if (result.choices.empty() && too_large) return tl::unexpected(*too_large);
  return result;
}

/// Goodput of a layout (productive share of the wall time), from simulated histories of 30 days, and the band of its step.
Result<LayoutFacts> facts_of(const MachineChoice& machine, const Evaluation& evaluation, const FailureFile* failures,
                             int threads) {
  LayoutFacts facts;
  GoodputRequest request;
  request.scenario = with_layout(machine.scenario, evaluation.layout);
  const Result<ForecastRun> run = forecast(request.scenario);
  if (!run) return tl::unexpected(run.error());
  facts.step_p5_s = run->forecast.band.p5_s;
  facts.step_p95_s = run->forecast.band.p95_s;
  if (failures == nullptr) return facts;
  request.failures = *failures;
  request.days = 30;
  request.find_best_interval = false;
  request.options.threads = threads;
  request.options.max_histories = 256;
  request.options.half_width = 0.005;
  request.step_time_s = 0;  // the engine's, which also gives those of degraded machines
  const Result<GoodputForecast> report = forecast_goodput(request);
  if (!report) return tl::unexpected(report.error());
  facts.goodput = report->goodput.goodput.mean;
  facts.history_days = request.days;
  double squares = 0;
  for (const double each : report->goodput.goodputs) squares += (each - facts.goodput) * (each - facts.goodput);
  const auto histories = static_cast<double>(report->goodput.goodputs.size());
  facts.goodput_sd = histories > 1 ? std::sqrt(squares / (histories - 1)) : 0;
  return facts;
}

/// All inputs that a stored evaluation depends on: the topology by its content, what changes it, and this program.
std::string problem_key(const MachineChoice& machine, const Options& options) {
  const Result<std::string> topology = read_file(machine.scenario.topology_file);
  return fmt::format("{}\n{}\n{}\n{}\n{} GPUs\nheadroom {}\nprogram {}", to_json(machine.scenario),
                     to_json(machine.scenario.profile), topology.value_or(""), fmt::join(options.overrides, "\n"),
                     machine.gpus, options.search.memory_headroom, program_fingerprint());
}

struct Request {
  Options options;
  Objective objective = Objective::time;
  JobTarget target;
  std::vector<MachineChoice> machines;
  std::vector<std::string> left_out;
  std::vector<SearchSpace> spaces;
  Economics economics;
  std::optional<FailureFile> failures;
};

Result<Economics> load_economics(const Options& options, const DataPaths& data, const std::vector<MachineChoice>& all) {
  const Result<fs::path> path = find_file(options.economics, data.scenarios / "economics", "economics file");
  if (!path) return tl::unexpected(path.error());
  Result<Economics> economics = read_economics(*path);
  if (economics && options.price > 0)
    for (const MachineChoice& machine : all)
      economics->gpus[machine.scenario.profile.name].price = Range3{options.price, options.price, options.price};
  return economics;
}

Result<Request> load(const Options& options) {
  Request request;
  request.options = options;
  const Result<DataPaths> data = data_paths();
  if (!data) return tl::unexpected(data.error());
  const Result<Objective> objective = parse_objective(options.objective);
  if (!objective) return tl::unexpected(objective.error());
  request.objective = *objective;
  const Result<double> tokens = parse_tokens(options.tokens);
  if (!tokens) return tl::unexpected(tokens.error());
  request.target = {*tokens, options.days, options.budget};
  Result<Machines> machines = find_machines(options, *data);
  if (!machines) return tl::unexpected(machines.error());
  request.machines = std::move(machines->choices);
  request.left_out = std::move(machines->left_out);
  if (request.target.tokens <= 0)
    request.target.tokens = static_cast<double>(request.machines.front().scenario.training.train_tokens);
  if ((options.days > 0 || options.budget > 0) && request.target.tokens <= 0)
    return fail_key("--tokens", "",
                    "is needed for --days and --budget, since the scenario has no training.train_tokens");
  for (const MachineChoice& machine : request.machines) {
    SearchSpace space = default_space(machine.scenario, machine.gpus);
    if (const Result<void> done = restrict(space, options); !done) return tl::unexpected(done.error());
    // Their tensor parallelism has no sequence parallelism.
    if (options.sequence_parallel.empty() && (options.launcher == "deepspeed" || options.launcher == "accelerate"))
      space.sequence_parallel = {0};
    request.spaces.push_back(std::move(space));
  }
  Result<Economics> economics = load_economics(options, *data, request.machines);
  if (!economics) return tl::unexpected(economics.error());
  request.economics = std::move(*economics);
  if (options.failures == "none") return request;
  Result<FailureFile> failures = named_failure_model(options.failures);
  if (!failures) return tl::unexpected(failures.error());
  request.failures = std::move(*failures);
  return request;
}

/// Evaluates rounds for one problem after another: on threads, shared with other processes, cached in a store.
class Evaluators {
 public:
  /// `group`: processes that share the work and all get the same results; null: only this process.
  static Result<Evaluators> make(const Options& options, ProcessGroup* group) {
    Evaluators result(options, group);
    if (options.out.empty() || (group != nullptr && group->rank() != 0)) return result;
    Result<SearchStore> opened = SearchStore::open(options.out);
    if (!opened) return tl::unexpected(opened.error());
    result.store_ = std::move(*opened);
    return result;
  }

  EvaluateRound of(const Scenario& scenario, const std::string& problem) {
    const EvaluateRound here = evaluate_on_threads(scenario, search_);
    EvaluateRound shared = group_ == nullptr ? here : share_work(*group_, here);
    if (store_ && !problem.empty()) shared = store_->remembering(problem, std::move(shared));
    return group_ == nullptr ? shared : same_rounds(*group_, std::move(shared), here);
  }
  std::string failure() const { return store_ ? store_->failure() : ""; }

 private:
  Evaluators(const Options& options, ProcessGroup* group) : search_(options.search), group_(group) {}

  SearchOptions search_;
  ProcessGroup* group_;
  std::optional<SearchStore> store_;
};

/// Set by the first Ctrl-C; the second one ends the program.
volatile std::sig_atomic_t interrupted = 0;

class StopOnInterrupt {
 public:
  StopOnInterrupt() : before_(std::signal(SIGINT, handle)) {}
  ~StopOnInterrupt() { std::signal(SIGINT, before_); }
  StopOnInterrupt(const StopOnInterrupt&) = delete;
  StopOnInterrupt& operator=(const StopOnInterrupt&) = delete;

 private:
  static void handle(int) {
    interrupted = 1;
    std::signal(SIGINT, SIG_DFL);
  }
  void (*before_)(int);
};

/// Puts the scenario's own layout among the best if it is possible, fits, suits the launcher and is not there yet.
/// `others`: the layouts that were found without it, whose number stays the same or grows by one.
void add_own_layout(const MachineChoice& machine, const SearchOptions& search, std::vector<Evaluation>& others) {
  const Evaluation own = evaluate(machine.scenario, layout_of(machine.scenario), {}, 0);
  if (!own.valid || !own.fits || (search.allowed && !search.allowed(machine.scenario))) return;
  if (std::ranges::any_of(others, [&](const Evaluation& other) { return is_same_run(own, other); })) return;
  others.insert(std::ranges::upper_bound(others, own.step_time_s, {}, &Evaluation::step_time_s), own);
}

/// The machine's best layouts. If none fits the GPUs and --offload is not given, tries offloading to the host.
SearchResult search_machine(const MachineChoice& machine, SearchSpace& space, const Options& options,
                            Evaluators& evaluators) {
  const EvaluateRound evaluate_round =
      evaluators.of(machine.scenario, options.out.empty() ? "" : problem_key(machine, options));
  SearchResult result = search(machine.scenario, space, options.search, evaluate_round);
  if (result.best.empty() && result.complete && options.offload.empty()) {
    space.offload = usual_offloads();
    result = search(machine.scenario, space, options.search, evaluate_round);
  }
  add_own_layout(machine, options.search, result.best);
  return result;
}

/// Why a machine has no layout.
std::string refusal_of(const MachineChoice& machine, const SearchSpace& space, const SearchResult& result,
                       const Options& options) {
  if (const std::string reason = why_impossible(machine.scenario, space); !reason.empty())
    return fmt::format("No layout is possible on {} {}: {}.", machine.gpus, machine.topology, reason);
  const double usable =
      static_cast<double>(machine.scenario.profile.memory.count) * (1 - options.search.memory_headroom);
  if (result.counts.refused > 0 && static_cast<double>(result.least_memory.count) <= usable)
    return fmt::format("No layout that fits suits {} ({} were refused).", options.launcher, result.counts.refused);
  if (result.least_memory.count > 0)
    return fmt::format("No layout fits: the smallest needs at least {:.1f} GiB of {:.1f} GiB that may be used.",
                       static_cast<double>(result.least_memory.count) / (1 << 30), usable / (1 << 30));
  return "No layout is possible.";
}

Result<PlanReport> make_report(Request request, ProcessGroup* group, const Context& context) {
  Options& options = request.options;
  const int best = options.search.best;
  const bool job = request.target.tokens > 0;
  // Days depend on the goodput of each layout, which the step time does not know: a few more layouts take part.
  if (request.failures && job) options.search.best += 5;
  Progress progress("searching", context.show_progress);
  std::atomic<std::int64_t> evaluated{0};
  std::atomic<std::int64_t> expected{1};
  std::atomic<double> best_so_far{0};
  std::size_t current = 0;
  const auto draw = [&] {
    if (current >= request.machines.size()) return;
    const double of_machine = std::min(1.0, static_cast<double>(evaluated) / static_cast<double>(expected));
    const double step = best_so_far;
    progress.update(static_cast<double>(current) + of_machine, static_cast<double>(request.machines.size()),
                    fmt::format("{}{}", request.machines[current].topology,
                                step > 0 ? fmt::format(", best step so far {:.4g} s", step) : ""));
  };
  options.search.progress = [&](std::int64_t done, std::int64_t of, double step) {
    evaluated = done;
    expected = std::max<std::int64_t>(of, 1);
    best_so_far = step;
    draw();
  };
  options.search.evaluated = [&] {
    ++evaluated;
    draw();
  };
  if (group == nullptr) options.search.stop = [] { return interrupted != 0; };
  Result<Evaluators> evaluators = Evaluators::make(options, group);
  if (!evaluators) return tl::unexpected(evaluators.error());
  PlanReport report;
  std::vector<MachineOutcome> outcomes;
  for (; current < request.machines.size() && (interrupted == 0 || group != nullptr); ++current) {
    MachineChoice& machine = request.machines[current];
    evaluated = 0;
    expected = 1;
    draw();
    MachineOutcome outcome;
    outcome.result = search_machine(machine, request.spaces[current], options, *evaluators);
    report.complete = report.complete && outcome.result.complete;
    if (outcome.result.best.empty() && outcome.result.complete && report.refusal.empty())
      report.refusal = refusal_of(machine, request.spaces[current], outcome.result, options);
    for (const Evaluation& each : outcome.result.best) {
      const Result<LayoutFacts> facts =
          facts_of(machine, each, request.failures && job ? &*request.failures : nullptr, options.search.threads);
      if (!facts) return tl::unexpected(facts.error());
      outcome.facts.push_back(*facts);
    }
    if (!outcome.facts.empty()) machine.goodput = outcome.facts.front().goodput;
    outcome.choice = machine;
    outcomes.push_back(std::move(outcome));
    if (const std::string hint = factor_hint(machine.gpus, machine.scenario.training.global_batch_size);
        !hint.empty() && std::ranges::find(report.hints, hint) == report.hints.end())
      report.hints.push_back(hint);
  }
  report.complete = report.complete && outcomes.size() == request.machines.size();
  if (const std::string failure = evaluators->failure(); !failure.empty())
    return fail_key("--out", options.out, failure);
  report.scenario = request.machines.front().scenario.name;
  report.file = options.scenario;
  report.launcher = options.launcher;
  report.economics = request.economics.name;
  report.left_out = std::move(request.left_out);
  report.plan = rank_candidates(std::move(outcomes), request.objective, request.target, &request.economics, best);
  if (request.failures && job) report.failures = request.failures->model.name;
  if (report.plan.candidates.empty()) return report;
  report.refusal.clear();
  const Candidate& first = report.plan.candidates.front();
  const auto m = static_cast<std::size_t>(first.machine);
  const Evaluation own = evaluate_as_it_is(request.machines[m].scenario);
  if (own.valid) report.own = own;
  options.search.best = best;
  options.search.progress = {};
  options.search.evaluated = {};
  if (options.recipe) report.recipe = follow_recipe(request.machines[m].scenario, request.spaces[m], options.search);
  if (options.no_upgrades || interrupted != 0) return report;
  const Busy busy("trying upgrades", context.show_progress);
  report.upgrades = try_upgrades(request.machines[m], request.spaces[m], first.evaluation, options.search,
                                 [&](const Scenario& scenario) { return evaluators->of(scenario, ""); });
  return report;
}

Result<ExitCode> plan(Options options, const Context& context) {
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
  Result<Request> request = load(options);
  if (!request) return tl::unexpected(request.error());
  const StopOnInterrupt stop;
  const std::string scenario = options.html.empty() ? "" : to_json(request->machines.front().scenario);
  const Result<PlanReport> report = make_report(std::move(*request), group->get(), context);
  if (!report) return tl::unexpected(report.error());
  const bool met = !report->plan.candidates.empty() && report->plan.candidates.front().misses.empty();
  const ExitCode answer = met ? ExitCode::done : ExitCode::no;
  if (*group && (*group)->rank() != 0) return answer;
  if (!options.csv.empty())
    if (const Result<void> written = write_file(options.csv, plan_csv(report->plan)); !written)
      return tl::unexpected(written.error());
  if (!options.html.empty()) {
    const std::string page = plan_html(*report, scenario, {context.command, "tracecast " + version()});
    if (const Result<void> written = write_file(options.html, page); !written) return tl::unexpected(written.error());
  }
  if (!options.emit.empty() && !report->plan.candidates.empty()) {
    const std::vector<Candidate>& found = report->plan.candidates;
    if (options.pick > static_cast<int>(found.size()))
      return fail_key("--pick", std::to_string(options.pick), fmt::format("{} layouts were found", found.size()));
    const Candidate& picked = found[static_cast<std::size_t>(options.pick - 1)];
    const MachineChoice& machine = report->plan.machines[static_cast<std::size_t>(picked.machine)].choice;
    return print_for_launcher(options.emit, with_layout(machine.scenario, picked.evaluation.layout)) ? answer
                                                                                                     : ExitCode::no;
  }
  fmt::print("{}", options.json ? plan_json(*report) : plan_page(*report, context.style));
  return answer;
}

Run add_options(CLI::App& app) {
  auto options = std::make_shared<Options>();
  const auto list = [&app](const std::string& name, auto& values, const std::string& text) {
    return app.add_option(name, values, text)->delimiter(',')->type_name("LIST");
  };
  app.add_option("SCENARIO", options->scenario, "a scenario file, or the name of one that is shipped")->required();
  app.add_option("--gpus", options->gpus,
                 "numbers of GPUs: 1024, a list 256,384, 256..16384 (doubling), or 1024..2048:128 (steps)")
      ->type_name("GPUS");
  app.add_option("--global-batch", options->global_batch,
                 "samples of a step, as --gpus (default: the scenario's); the smallest and largest that are allowed")
      ->type_name("SAMPLES");
  list("--topology", options->topologies, "machines to compare: files or shipped names");
  const CLI::Validator degree = in_range(1, 1e6);
  list("--tp", options->tp, "tensor-parallel degrees to try (default: all that divide)")->check(degree);
  list("--pp", options->pp, "pipeline degrees")->check(degree);
  list("--vpp", options->vpp, "model chunks per pipeline rank")->check(degree);
  list("--cp", options->cp, "context-parallel degrees")->check(degree);
  list("--ep", options->ep, "expert-parallel degrees")->check(degree);
  list("--micro-batch", options->micro_batch, "micro-batch sizes")->check(degree);
  list("--recompute", options->recompute, "none, selective, selective_op, full");
  list("--zero", options->zero, "ZeRO stages, 0 to 3")->check(in_range(0, 3));
  list("--sequence-parallel", options->sequence_parallel, "on, off, or on,off (default: on)");
  list("--offload", options->offload,
       "states to offload to the host: none, optimizer, optimizer+parameters, activations … (default: none, and these "
       "where "
       "nothing fits)");
  list("--schedule", options->schedules, "pipeline schedules (default: 1f1b, interleaved with chunks)");
  app.add_option("--objective", options->objective, "time, throughput, cost, energy or gpus")->capture_default_str();
  app.add_option("--tokens", options->tokens, "tokens to train: 2T, 300B (default: the scenario's train_tokens)")
      ->type_name("TOKENS");
  app.add_option("--days", options->days, "time limit of the training")->check(above_zero());
  app.add_option("--budget", options->budget, "maximum cost in US dollars")->check(above_zero());
  app.add_option("--economics", options->economics, "prices and power: a file, or the name of one that is shipped")
      ->capture_default_str();
  app.add_option("--price", options->price, "US dollars per GPU-hour, in place of the file's")->check(above_zero());
  app.add_option("--failures", options->failures, "failure model for the goodput, or none")->capture_default_str();
  app.add_option("--headroom", options->search.memory_headroom, "share of the GPU memory to leave free")
      ->check(in_range(0.0, 0.9))
      ->capture_default_str();
  app.add_option("--best", options->search.best, "layouts to find on every machine")
      ->check(in_range(1, 10'000))
      ->capture_default_str();
  app.add_option("--threads", options->search.threads, "same result for any number")->check(in_range(1, 1024));
  app.add_flag("--exhaustive", options->search.exhaustive, "simulate everything that fits");
  app.add_flag("--recipe", options->recipe,
               "also follow the manual recipe: most data parallelism that fits, then one change at a time; shows the "
               "gap to the best");
  app.add_flag("--no-upgrades", options->no_upgrades, "do not try better machines");
  app.add_option("--out", options->out, "keep results in this SQLite file; an interrupted search resumes from it")
      ->type_name("FILE");
  app.add_option("--csv", options->csv, "write every simulated layout to this file")->type_name("FILE");
  app.add_option("--html", options->html, "write a page for a browser to this file; it needs no network")
      ->type_name("FILE");
  app.add_option("--set", options->overrides, "replace a value of the scenario; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--emit", options->emit,
                 "print the best layout as settings of this launcher, or as a scenario file, instead of a page; of a "
                 "launcher it implies --launcher")
      ->check(one_of(emitted_formats()));
  app.add_option("--launcher", options->launcher, "only layouts that this launcher can express and does not refuse")
      ->check(one_of(emitted_launchers()));
  app.add_option("--pick", options->pick, "the layout for --emit, by its number on the page")
      ->check(in_range(1, 10'000))
      ->capture_default_str();
  app.add_flag("--json", options->json, "print one JSON object instead of a page");
  return [options](const Context& context) { return plan(*options, context); };
}

}  // namespace

const Command kPlanCommand{"plan", "find the best layouts, GPU counts and machines for a job",
                           "plan llama3-405b-1024 --best 3 --no-upgrades", add_options};

}  // namespace tracecast::cli
