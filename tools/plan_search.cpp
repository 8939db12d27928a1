#include "tools/plan_search.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/quantile.hpp"
#include "sim/base/units.hpp"
#include "sim/forecast/goodput_forecast.hpp"
#include "sim/io/files.hpp"
#include "sim/io/read_file.hpp"
#include "sim/reliability/spares.hpp"
#include "sim/search/factor_hint.hpp"
#include "sim/search/ruled_out.hpp"
#include "sim/search/search_store.hpp"
#include "sim/search/space.hpp"
#include "sim/search/upgrades.hpp"
#include "tools/environment.hpp"
#include "tools/progress.hpp"
#include "tools/sweep_predict.hpp"

namespace tracecast::cli {
namespace {

/// The spares of the job, unless the failure file or --spares gives them: those that cost least per token if that decides, else so
/// many that the job hardly ever waits for one. Hosts that are paid for and unused are spares in any case.
void set_spares(GoodputRequest& job, const PlanRequest& request) {
  FailureFile& file = job.failures;
  if (file.spares_given) return;
  const Cluster& cluster = job.scenario.cluster;
  const auto paid = [&](int spares) {
    return paid_gpus(request.economics.term, cluster.node, cluster.world_size, spares * cluster.node.gpus_per_host)
        .all();
  };
  int unused = 0;
  while (paid(unused + 1) == paid(0)) ++unused;
  const Machine machine{cluster.world_size, cluster.node.gpus_per_host};
  const FailureModel failures = without_unused_network(file.model, machine);
  const int enough = enough_spares(failures, machine, file.recovery);
  const Objective by = request.objectives.front();
  const bool by_time = by == Objective::time || by == Objective::throughput;
  const int chosen = by_time ? enough : cheapest_spares(failures, machine, file.recovery, enough, paid);
  file.recovery.spares = std::max(chosen, unused);
  file.spares_given = true;
}

/// Failures that the ranking counts: days depend on them, a step does not. nullptr: none.
const FailureFile* ranked_failures(const PlanRequest& request) {
  return request.failures && request.target.tokens > 0 ? &*request.failures : nullptr;
}

/// Goodput of a layout (productive share of the wall time), from simulated histories of 30 days or of ten checkpoint intervals,
/// whichever is longer, and the band of its step.
Result<LayoutFacts> facts_of(const PlanRequest& request, const MachineChoice& machine, const Evaluation& evaluation) {
  LayoutFacts facts;
  GoodputRequest job;
  job.scenario = with_layout(machine.scenario, evaluation.layout);
  const Result<ForecastRun> run = forecast(job.scenario);
  if (!run) return tl::unexpected(run.error());
  facts.step_p5_s = run->forecast.band.p5_s;
  facts.step_p95_s = run->forecast.band.p95_s;
  facts.counted_share = counted_share(run->forecast, job.scenario.training);
  const FailureFile* failures = ranked_failures(request);
  if (failures == nullptr) {  // they are paid for, whether anything fails or not
    facts.spare_gpus = std::max(0, request.options.spares) * job.scenario.cluster.node.gpus_per_host;
    return facts;
  }
  job.step = &*run;
  job.failures = *failures;
  set_spares(job, request);
  job.days = 30;
  job.lengthen_histories = true;
  job.goal_tokens = std::llround(request.target.tokens);
  job.find_best_interval = false;
  job.options.threads = request.options.search.threads;
  job.options.max_histories = 256;
  job.options.half_width = 0.005;
  job.step_time_s = 0;  // the engine's, which also gives those of degraded machines
  const Result<GoodputForecast> report = forecast_goodput(job);
  if (!report) return tl::unexpected(report.error());
  facts.goodput = report->goodput.goodput.mean;
  if (report->goal_days == 0) facts.why_no_days = report->why_no_goal();
  facts.spare_gpus = report->spec.recovery.spares * report->machine.gpus_per_node;
  facts.history_days = report->goodput.wall_s.mean / kSecondsPerDay;
  facts.goodput_sd = standard_deviation(report->goodput.goodputs);
  return facts;
}

/// All inputs that a stored evaluation depends on: the topology by its content, what changes it, and this program.
std::string problem_key(const MachineChoice& machine, const PlanOptions& options) {
  const Result<std::string> topology = read_file(machine.scenario.topology_file);
  return fmt::format("{}\n{}\n{}\n{}\n{} GPUs\nheadroom {}\nprogram {}", to_json(machine.scenario),
                     to_json(machine.scenario.profile), topology.value_or(""), fmt::join(machine.overrides, "\n"),
                     machine.gpus, options.search.memory_headroom, program_fingerprint());
}

/// Evaluates rounds for one problem after another: on threads, shared with other processes, cached in a store.
class Evaluators {
 public:
  /// `group`: processes that share the work and all get the same results; null: only this process.
  static Result<Evaluators> make(const PlanOptions& options, ProcessGroup* group) {
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
  Evaluators(const PlanOptions& options, ProcessGroup* group) : search_(options.search), group_(group) {}

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
SearchResult search_machine(const MachineChoice& machine, SearchSpace& space, const PlanOptions& options,
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

/// Why a machine has no layout: a sentence that names it.
std::string refusal_of(const MachineChoice& machine, SearchSpace space, const SearchResult& result,
                       const PlanOptions& options) {
  const std::string name = fmt::format("{} GPUs of {}", number(machine.gpus, 1), machine_text(machine));
  if (options.offload.empty()) space.offload.resize(1);  // offloads that were tried as well are not the reason
  if (const std::string reason = why_impossible(machine.scenario, space); !reason.empty()) {
    const bool batch = reason.starts_with("training.global_batch_size");
    const std::string hint = batch ? factor_hint(machine.gpus, machine.scenario.training.global_batch_size) : "";
    return fmt::format("No layout is possible on {}: {}.", name, hint.empty() ? reason : hint);
  }
  const double usable =
      static_cast<double>(machine.scenario.profile.memory.count) * (1 - options.search.memory_headroom);
  if (result.counts.refused > 0 && static_cast<double>(result.least_memory.count) <= usable)
    return fmt::format("No layout that fits {} is accepted by {} ({} were refused).", name, options.launcher,
                       result.counts.refused);
  if (result.least_host > Bytes{})
    return fmt::format(
        "No layout fits {}: of those that fit the GPUs, the one that offloads least needs {:.1f} GiB of host memory "
        "per host, which has {:.1f} GiB.",
        name, gib(result.least_host), gib(machine.scenario.cluster.node.host_memory));
  if (result.least_memory.count > 0)
    return fmt::format("No layout fits {}: the smallest needs at least {:.1f} GiB of {:.1f} GiB that may be used.",
                       name, gib(result.least_memory), usable / (1 << 30));
  return fmt::format("No layout is possible on {}.", name);
}

/// The bar of the search: machines done, the share of the layouts of this one, its best step so far.
class SearchBar {
 public:
  SearchBar(const std::vector<MachineChoice>& machines, bool shown) : machines_(machines), bar_("searching", shown) {}

  void start(std::size_t machine) {
    machine_ = machine;
    evaluated_ = 0;
    expected_ = 1;
    draw();
  }
  /// Later evaluations, those of upgrades, are not drawn.
  void finish() { machine_ = machines_.size(); }
  /// Makes a search report to this bar, which must outlive it.
  void follow(SearchOptions& search) {
    search.progress = [this](std::int64_t done, std::int64_t of, double step) {
      evaluated_ = done;
      expected_ = std::max<std::int64_t>(of, 1);
      best_step_s_ = step;
      draw();
    };
    search.evaluated = [this] {
      ++evaluated_;
      draw();
    };
  }

 private:
  void draw() {
    if (machine_ >= machines_.size()) return;
    const double of_machine = std::min(1.0, static_cast<double>(evaluated_) / static_cast<double>(expected_));
    const double step = best_step_s_;
    bar_.update(static_cast<double>(machine_) + of_machine, static_cast<double>(machines_.size()),
                fmt::format("{}{}", machines_[machine_].topology,
                            step > 0 ? fmt::format(", best step so far {:.4g} s", step) : ""));
  }

  const std::vector<MachineChoice>& machines_;
  Progress bar_;
  std::size_t machine_ = 0;
  std::atomic<std::int64_t> evaluated_{0};  // threads of the search count here
  std::atomic<std::int64_t> expected_{1};
  std::atomic<double> best_step_s_{0};
};

void add_once(std::vector<std::string>& sentences, std::string sentence) {
  if (std::ranges::find(sentences, sentence) == sentences.end()) sentences.push_back(std::move(sentence));
}

/// On sizes and settings that leave few layouts: where there is none, refusal_of() says whether the batch is the reason. A sentence
/// that holds for several machines is said once.
void add_hints(PlanReport& report, const MachineChoice& machine, const SearchSpace& space, bool any) {
  std::vector<std::string> hints = ruled_out(machine.scenario, space);
  if (std::string hint = factor_hint(machine.gpus, machine.scenario.training.global_batch_size); any && !hint.empty())
    hints.insert(hints.begin(), std::move(hint));
  for (std::string& hint : hints) add_once(report.hints, std::move(hint));
}

/// One machine: its best layouts with their goodput, and in `report` why it has none, and hints on its size.
Result<MachineOutcome> outcome_of(PlanRequest& request, std::size_t index, Evaluators& evaluators, PlanReport& report) {
  MachineChoice& machine = request.machines[index];
  MachineOutcome outcome;
  outcome.result = search_machine(machine, request.spaces[index], request.options, evaluators);
  if (outcome.result.best.empty() && outcome.result.complete)
    add_once(report.refusals, refusal_of(machine, request.spaces[index], outcome.result, request.options));
  for (const Evaluation& each : outcome.result.best) {
    const Result<LayoutFacts> facts = facts_of(request, machine, each);
    if (!facts) return tl::unexpected(facts.error());
    outcome.facts.push_back(*facts);
  }
  if (!outcome.facts.empty()) machine.goodput = outcome.facts.front().goodput;
  outcome.choice = machine;
  outcome.searched = searched_keys(machine.scenario, request.spaces[index]);
  add_hints(report, machine, request.spaces[index], !outcome.result.best.empty());
  return outcome;
}

/// Searches the machines one after another, until Ctrl-C. Processes of a group all go to the end.
Result<std::vector<MachineOutcome>> search_machines(PlanRequest& request, bool in_group, SearchBar& bar,
                                                    Evaluators& evaluators, PlanReport& report) {
  std::vector<MachineOutcome> outcomes;
  for (std::size_t i = 0; i < request.machines.size() && (interrupted == 0 || in_group); ++i) {
    bar.start(i);
    Result<MachineOutcome> outcome = outcome_of(request, i, evaluators, report);
    if (!outcome) return tl::unexpected(outcome.error());
    report.complete = report.complete && outcome->result.complete;
    outcomes.push_back(std::move(*outcome));
  }
  bar.finish();
  report.complete = report.complete && outcomes.size() == request.machines.size();
  return outcomes;
}

/// The machine and size that the scenario has by itself, if it is among those searched; else the best candidate's.
std::size_t own_machine(const PlanRequest& request, std::size_t best) {
  const Result<Scenario> own = read_with_topology(request.options.scenario, request.options.overrides);
  const auto is_own = [&](const MachineChoice& each) {
    return own && each.topology == own->topology && each.gpus == own->cluster.world_size && each.variant.empty() &&
           each.scenario.training.global_batch_size == own->training.global_batch_size;
  };
  if (is_own(request.machines[best])) return best;
  const auto found = std::ranges::find_if(request.machines, is_own);
  return found == request.machines.end() ? best : static_cast<std::size_t>(found - request.machines.begin());
}

/// The scenario's own layout, and what is said of the first candidate's machine: the manual recipe, upgrades.
void explore_best_machine(PlanReport& report, PlanRequest& request, const Context& context, Evaluators& evaluators) {
  const Candidate& first = report.plan.candidates.front();
  const auto m = static_cast<std::size_t>(first.machine);
  const MachineChoice& machine = request.machines[m];
  const PlanOptions& options = request.options;
  if (const std::size_t own = own_machine(request, m); own < report.plan.machines.size()) report.own_machine = own;
  const Evaluation own = evaluate_as_it_is(report.plan.machines[report.own_machine].choice.scenario);
  if (own.valid) report.own = own;
  if (options.recipe) report.recipe = follow_recipe(machine.scenario, request.spaces[m], options.search);
  if (options.no_upgrades || interrupted != 0) return;
  const Busy busy("trying upgrades", context.show_progress);
  report.upgrades = try_upgrades(machine, request.spaces[m], first.evaluation, options.search,
                                 [&](const Scenario& scenario) { return evaluators.of(scenario, ""); });
}

}  // namespace

Result<PlanReport> plan_search(PlanRequest request, ProcessGroup* group, const Context& context,
                               std::string& store_failure) {
  const StopOnInterrupt stop;
  SearchOptions& search = request.options.search;
  const FailureFile* failures = ranked_failures(request);
  const int best = search.best;
  // Days depend on the goodput of each layout, which the step time does not know: a few more layouts take part.
  if (failures != nullptr) search.best += 5;
  SearchBar bar(request.machines, context.show_progress);
  bar.follow(search);
  if (group == nullptr) search.stop = [] { return interrupted != 0; };
  Result<Evaluators> evaluators = Evaluators::make(request.options, group);
  if (!evaluators) return tl::unexpected(evaluators.error());
  PlanReport report;
  Result<std::vector<MachineOutcome>> outcomes = search_machines(request, group != nullptr, bar, *evaluators, report);
  if (!outcomes) return tl::unexpected(outcomes.error());
  store_failure = evaluators->failure();
  search.best = best;
  search.progress = {};
  search.evaluated = {};
  report.scenario = request.machines.front().scenario.name;
  report.file = request.options.scenario;
  report.launcher = request.options.launcher;
  report.stack_of_launcher = request.stack_of_launcher;
  report.economics = request.economics;
  report.left_out = std::move(request.left_out);
  report.plan = rank_candidates(std::move(*outcomes), request.objectives.front(), request.target, &request.economics,
                                {.best = best, .trade_offs = request.objectives});
  report.sensitivity = sensitivity(report.plan, &request.economics);
  if (failures != nullptr) report.failures = failures->model.name;
  if (report.plan.candidates.empty()) return report;
  explore_best_machine(report, request, context, *evaluators);
  return report;
}

}  // namespace tracecast::cli
