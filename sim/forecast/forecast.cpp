#include "sim/forecast/forecast.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/base/units.hpp"
#include "sim/cost/costs.hpp"
#include "sim/forecast/averaging.hpp"
#include "sim/forecast/causes.hpp"
#include "sim/forecast/colocated.hpp"
#include "sim/forecast/layout_forecasts.hpp"
#include "sim/forecast/other_speeds.hpp"
#include "sim/forecast/packed_steps.hpp"
#include "sim/forecast/perturbation_effects.hpp"
#include "sim/forecast/summary.hpp"
#include "sim/forecast/timed_schedule.hpp"
#include "sim/graph/build_context.hpp"
#include "sim/graph/builder.hpp"
#include "sim/graph/folded_step.hpp"
#include "sim/graph/perturbation.hpp"
#include "sim/graph/slow_groups.hpp"
#include "sim/graph/stage_loads.hpp"
#include "sim/graph/without_overlap.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/network/measured_network.hpp"
#include "sim/plan/sharding.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {
namespace {

constexpr int kMostOwnSpeeds = 262'144;  ///< ranks that are simulated one by one: 8 GB

/// Errors of settings that only some networks and machines support.
Result<void> check(const Scenario& scenario, const ForecastOptions& options) {
  if (scenario.cluster.routing == RoutingPolicy::ecmp && options.network == NetworkKind::isolated)
    return fail_key("cluster.routing", "ecmp",
                    "needs single cables, which the isolated network does not model (allowed: --network fluid, "
                    "--network simgrid; or routing even)");
  if (Result<void> routed = check_routing(scenario.cluster); !routed) return routed;
  if (scenario.perturbation.speed_spread > 0 && scenario.cluster.world_size > kMostOwnSpeeds)
    return fail_key("perturb.speed_spread", fmt::format("{:g}", scenario.perturbation.speed_spread),
                    fmt::format("leaves no two of {} ranks alike, and each takes 32 KB (allowed: on at most {} ranks)",
                                scenario.cluster.world_size, kMostOwnSpeeds));
  for (const auto& [key, offloads] : {std::pair{"training.offload_optimizer", scenario.training.offload_optimizer},
                                      std::pair{"training.offload_activations", scenario.training.offload_activations}})
    if (offloads && scenario.cluster.node.pcie.bytes_per_second == 0)
      return fail_key(key, "true", "needs a topology with node.pcie");
  return {};
}

/// Builds the step graphs of a scenario.
class GraphMaker {
 public:
  /// `known`: loads of earlier steps on the machine; null: none.
  GraphMaker(const Scenario& scenario, const Costs& costs, const NetworkModel& network, const ForecastRun& run,
             KnownLoads* known)
      : scenario_(scenario), costs_(costs), network_(network), run_(run), known_(known) {
    if (groups_slow_ranks(scenario.perturbation, scenario.parallel))
      grouped_ = with_slow_groups(scenario.perturbation, run.plan);
  }

  /// The graph of all ranks, or with one rank for each class that the plan's coordinates give. `step`: of packed batches.
  StepGraph build(SimulatedRanks ranks, int step = 0) const {
    StepGraph graph = build_step_graph({scenario_.model, run_.plan, run_.schedule, scenario_.cluster, costs_, network_},
                                       {ranks, &perturbation(), step});
    if (!scenario_.profile.overlap) graph = without_overlap(std::move(graph));
    return graph;
  }

  /// Folded over shared links: by the plan's coordinates if they determine the classes, else by refinement.
  StepGraph build_folded(const ClusterLinks& links) const {
    if (!stages_are_alike()) return fold(build(SimulatedRanks::all), links);
    StepGraph graph = build(SimulatedRanks::stages_or_all);
    const Groups groups = groups_of(scenario_.model, run_.plan, run_.schedule);
    std::optional<StageParts> parts = known_ != nullptr ? known_->fold_stages(graph, run_.plan, groups, links)
                                                        : fold_stages(graph, run_.plan, groups, links);
    if (!parts) {
      const bool has_all = graph.ranks.size() == static_cast<std::size_t>(run_.plan.world_size);
      return has_all ? fold(graph, links) : fold(build(SimulatedRanks::all), links);
    }
    apply(std::move(*parts), graph);
    return graph;
  }

 private:
  /// True if the ranks of each pipeline rank are perturbed alike, with equal batches: only then can they be of one class.
  bool stages_are_alike() const {
    if (run_.plan.batches_vary()) return false;
    if (perturbation().none()) return true;
    const auto state_of = [&](int rank) {
      return std::pair(slowdown_of(perturbation(), rank), gpu_of(perturbation(), rank));
    };
    for (int rank = 0; rank < run_.plan.world_size; ++rank) {
      Coordinates first{};
      first[Axis::pp] = run_.plan.grid.coordinates(rank)[Axis::pp];
      if (state_of(rank) != state_of(run_.plan.grid.rank(first))) return false;
    }
    return true;
  }

  const Perturbation& perturbation() const { return grouped_ ? *grouped_ : scenario_.perturbation; }

  const Scenario& scenario_;
  const Costs& costs_;
  const NetworkModel& network_;
  const ForecastRun& run_;
  KnownLoads* const known_;
  std::optional<Perturbation> grouped_;  ///< of many slow ranks
};

/// Time of each op of a template alone, and of the host for it, summed. A message takes the time of its sender.
double seconds_alone(const Template& each) {
  double sum = 0;
  for (const Op& op : each.ops) sum += seconds(op.host) + (op.type == OpType::receive ? 0 : seconds(op.duration));
  return sum;
}

/// [pipeline rank] seconds of work of its busiest rank.
std::vector<double> work_of_stages(const StepGraph& graph) {
  std::vector<double> templates;
  for (const Template& each : graph.templates) templates.push_back(seconds_alone(each));
  std::vector<double> programs;
  for (const std::vector<ProgramItem>& program : graph.programs) {
    double sum = 0;
    for (const ProgramItem& item : program) sum += templates[static_cast<std::size_t>(item.template_index)];
    programs.push_back(sum);
  }
  std::vector<double> stages;
  for (const Rank& rank : graph.ranks) {
    const auto stage = static_cast<std::size_t>(rank.pp_rank);
    if (stages.size() <= stage) stages.resize(stage + 1);
    const double own = programs[static_cast<std::size_t>(rank.program)] * rank.slowdown / kNoSlowdown;
    stages[stage] = std::max(stages[stage], own);
  }
  return stages;
}

/// Refuses steps for which the engine's picoseconds might not suffice (engine.hpp). Ranks of one pipeline rank work at the same
/// time; pipeline ranks may wait for each other.
Result<void> check_length(const StepGraph& graph) {
  constexpr double kMostDays = 20;
  const std::vector<double> stages = work_of_stages(graph);
  const double longest = std::ranges::max(stages) / kSecondsPerDay;
  if (longest > 1) return fail(fmt::format("a step has {:.3g} days of work for one rank (allowed: 1 day)", longest));
  const double sum = std::accumulate(stages.begin(), stages.end(), 0.0) / kSecondsPerDay;
  if (sum <= kMostDays) return {};
  return fail(fmt::format(
      "a step has {:.3g} days of work for {} pipeline ranks, which may wait for each other (allowed: {} days)", sum,
      stages.size(), kMostDays));
}

/// Blocking sends of an interleaved schedule wait for each other where some micro-batches are left over after whole rounds of pp:
/// Megatron-LM refuses these numbers. Other errors stay as they are.
Error told_by_key(Error error, const Plan& plan) {
  const Parallel& p = plan.parallel;
  const int rest = plan.num_microbatches % p.pp;
  if (p.overlap_p2p || rest == 0 || p.vpp == 1 || p.pp_schedule != default_schedule(p.vpp)) return error;
  const std::int64_t unit = plan.training.micro_batch_size * p.dp;
  const std::int64_t batch = unit * plan.num_microbatches;
  const std::int64_t below = batch - unit * rest;
  return {
      {{"", 0, "training.global_batch_size", std::to_string(batch),
        fmt::format("is not a multiple of micro_batch_size {} x dp {} x pp {} = {}: with parallel.overlap_p2p = "
                    "false, {} waits forever for a message (nearest: {})",
                    plan.training.micro_batch_size, p.dp, p.pp, unit * p.pp, p.pp_schedule,
                    below > 0 ? fmt::format("{} or {}", below, below + unit * p.pp) : std::to_string(unit * p.pp))}}};
}

/// Simulates a graph on the network of the run. Sets the timeline.
Result<void> simulate_graph(ForecastRun& run, const StepGraph& graph, const Scenario& job,
                            const ForecastOptions& options) {
  if (Result<void> checked = check_length(graph); !checked) return checked;
  Result<Timeline> timeline = simulate(graph, run.network, engine_of(job, options));
  if (!timeline) return tl::unexpected(told_by_key(std::move(timeline.error()), run.plan));
  run.timeline = std::move(*timeline);
  return {};
}

/// True if one pipeline takes longer, without other ranks and with each transfer as fast as alone: then the step of all does, too.
/// No time inside a step is made earlier by a later one, and links that are shared make none of them earlier.
bool takes_longer(const GraphMaker& maker, Duration longest) {
  const StepGraph graph = maker.build(SimulatedRanks::one_pipeline);
  if (!check_length(graph)) return false;
  const Result<Timeline> timeline = simulate(graph);
  return timeline && timeline->step_time > longest;
}

/// Simulates all steps of a run whose batches vary. `make_graph`: of a step.
Result<void> simulate_batches(ForecastRun& run, const std::function<StepGraph(int)>& make_graph, const Scenario& job,
                              const ForecastOptions& options, PackedTimes& packed) {
  if (Result<void> checked = check_length(run.graph); !checked) return checked;
  EngineOptions engine = engine_of(job, options);
  const bool records = std::exchange(engine.record_spans, false);
  const Duration longest = std::exchange(engine.longest, {});  // a limit of the mean
  const auto step = [&](const StepGraph& graph) { return simulate(graph, run.network, engine); };
  const auto select_step = [&](int number) {
    if (run.plan.context_varies() && run.graph.varying.step != number) run.graph = make_graph(number);
    run.graph.varying.step = number;
  };
  // Without shared links no step is longer, and it is simulated sooner.
  if (longest > Duration{}) {
    const Result<PackedTimes> least = simulate_packed_steps(
        run, select_step, [](const StepGraph& graph) { return simulate(graph); }, longest);
    if (least && run.timeline.given_up) return {};
  }
  Result<PackedTimes> times = simulate_packed_steps(run, select_step, step, longest);
  if (times && run.timeline.given_up) return {};
  if (!times) return tl::unexpected(told_by_key(std::move(times.error()), run.plan));
  packed = std::move(*times);
  engine.record_spans = records;
  return step(run.graph).map([&](Timeline timeline) { packed.nearest = std::move(timeline); });
}

/// Simulates the step of the job, with those of the other jobs on the same machine. Sets the graph and the timeline; with batches
/// that vary also `packed`.
Result<void> simulate_jobs(ForecastRun& run, const GraphMaker& maker, const Scenario& job,
                           std::span<const Scenario> others, const ForecastOptions& options, PackedTimes& packed) {
  const bool folds = !options.unfold && options.network != NetworkKind::simgrid;
  const ClusterLinks* const links = run.network.links();
  if (others.empty()) {
    // Steps of different graphs may fold differently: then their ranks have no means.
    const bool one_by_one = run.plan.context_varies();
    const bool unfolded = !folds || one_by_one;
    run.graph = links && !unfolded ? maker.build_folded(*links)
                                   : maker.build(unfolded ? SimulatedRanks::all : SimulatedRanks::classes);
    const auto graph_of = [&](int step) { return maker.build(SimulatedRanks::all, step); };
    if (run.plan.batches_vary()) return simulate_batches(run, graph_of, job, options, packed);
    return simulate_graph(run, run.graph, job, options);
  }
  run.graph = maker.build(SimulatedRanks::all);
  Result<StepGraph> all = all_graphs(run.graph, job, others);
  if (!all) return tl::unexpected(std::move(all.error()));
  if (folds) all = fold(*all, *links);
  return simulate_graph(run, *all, job, options).map([&] {
    if (folds) run.graph = part_of(std::move(*all), run.graph, job.cluster);
    run.timeline = part_of(std::move(run.timeline), run.graph.ranks.size());
  });
}

using Summarise = void (*)(ForecastRun&, const Scenario&, const ForecastOptions&);

/// Sets the forecast of a run that was simulated. Errors: a step that no GPU could do in its time.
Result<ForecastRun> summarised(ForecastRun run, const Scenario& scenario, const ForecastOptions& options,
                               Summarise summarise) {
  summarise(run, scenario, options);
  constexpr double kMostHfu = 2;  // 1, and attention counted without its causal mask is at most twice its work
  if (run.forecast.hfu > kMostHfu && scenario.profile.overlap)
    return fail_key("cluster.profile", scenario.profile.name,
                    fmt::format("makes a step of {:.4g} s, which is an HFU of {:.0f} % (allowed: what a GPU can "
                                "compute; check the measurements in the profile)",
                                run.forecast.step_time_s, 100 * run.forecast.hfu));
  return run;
}

/// `known`: of a search, which needs times only; null: none.
Result<ForecastRun> forecast_jobs(const Scenario& scenario, std::span<const Scenario> others,
                                  const ForecastOptions& options, KnownLoads* known = nullptr) {
  if (Result<void> checked = check(scenario, options); !checked) return tl::unexpected(std::move(checked.error()));
  ForecastRun run;
  Result<Plan> plan = make_plan(scenario.model, scenario.parallel, scenario.training, scenario.cluster.world_size);
  if (!plan) return tl::unexpected(std::move(plan.error()));
  run.plan = std::move(*plan);
  const Costs costs(scenario.profile, scenario.training.attention_kernel);
  const std::unique_ptr<NetworkModel> network = make_network(scenario.cluster, scenario.profile);
  Result<Schedule> schedule = schedule_of_plan(scenario, run.plan, costs, *network);
  if (!schedule) return tl::unexpected(std::move(schedule.error()));
  run.schedule = std::move(*schedule);
  run.network = StepNetwork(options.network, others.empty() ? scenario.cluster : machine_of(scenario, others),
                            scenario.profile.architecture);
  PackedTimes packed;
  const auto simulate_run = [&](ForecastRun& each, const ForecastOptions& how) {
    return simulate_jobs(each, {scenario, costs, *network, each, known}, scenario, others, how, packed);
  };
  if (options.longest > Duration{} && others.empty() && !run.plan.batches_vary())
    run.timeline.given_up = takes_longer({scenario, costs, *network, run, known}, options.longest);
  if (run.timeline.given_up) return run;
  Result<void> simulated = simulate_run(run, options);
  if (!simulated) return tl::unexpected(std::move(simulated.error()));
  if (run.timeline.given_up) return run;
  Result<ForecastRun> done =
      summarised(std::move(run), scenario, options, known != nullptr ? summarise_times : summarise);
  if (!done) return done;
  if (done->plan.batches_vary()) done->timeline = std::move(packed.nearest);
  if (done->plan.batches_vary() && !done->plan.context_varies()) {
    ForecastRun even{balanced(done->plan), done->schedule, done->network, {}, {}, {}};
    ForecastOptions times_only = options;
    times_only.record_spans = times_only.explain = false;
    Result<void> timed = simulate_run(even, times_only);
    if (!timed) return tl::unexpected(std::move(timed.error()));
    packed.balanced_s = seconds(even.timeline.step_time);
  }
  if (done->plan.packed) add_packed(done->plan, packed, done->forecast);
  if (options.explain && others.empty()) done->forecast.causes = find_causes(*done, engine_of(scenario, options));
  return done;
}

/// How long the steps that are `share` of a period may take if its mean is to be `longest` and the others take `others_s` of it;
/// 0: no limit.
Duration longest_share(Duration longest, double share, double others_s) {
  constexpr double kRounding = 1e-9;
  constexpr double kMost_s = 1e6;
  if (longest == Duration{} || share <= 0) return {};
  const double rest_s = (1 + kRounding) * seconds(longest) - others_s;
  return std::max(Duration{1}, from_seconds(std::min(rest_s / share, kMost_s)));
}

/// The same, or the mean of a period of steps where replicas average their parameters now and then. Local steps come first: they are
/// nearly all of the mean.
Result<ForecastRun> forecast_steps(const Scenario& scenario, std::span<const Scenario> others,
                                   const ForecastOptions& options, KnownLoads* known = nullptr) {
  const int period = scenario.parallel.averaging_period;
  const std::int64_t averaging = averaging_steps(scenario.parallel);
  if (!averages_parameters(scenario.parallel) || period < 1 || averaging < 1 || averaging > period)
    return forecast_jobs(scenario, others, options, known);  // which refuses parts that do not fit into the period
  const double share = static_cast<double>(averaging) / period;
  Scenario each = scenario;
  ForecastOptions part = options;
  each.parallel.averaging_period = 0;
  part.longest = longest_share(options.longest, 1 - share, 0);
  Result<ForecastRun> local = forecast_jobs(each, others, part, known);
  if (local && local->timeline.given_up) return local;
  each.parallel.averaging_period = static_cast<int>(averaging);
  part.longest = local ? longest_share(options.longest, share, (1 - share) * local->forecast.step_time_s) : Duration{};
  Result<ForecastRun> run = forecast_jobs(each, others, part, known);
  if (!run || run->timeline.given_up) return run;
  if (!local) return local;
  mean_of_period(*run, local->forecast, period);
  return run;
}

}  // namespace

EngineOptions engine_of(const Scenario& scenario, const ForecastOptions& options) {
  return {.record_spans = options.record_spans || options.explain,
          .threads = options.threads,
          .longest = options.longest,
          .slowing_gpu = options.transfers_slow_compute ? &scenario.profile : nullptr};
}

Result<ForecastRun> forecast(const Scenario& scenario, const ForecastOptions& options) {
  Result<ForecastRun> run = forecast_steps(scenario, {}, options);
  if (!run) return tl::unexpected(located(std::move(run.error()), scenario));
  if (run->timeline.given_up) return run;
  if (options.perturbation_effects)
    if (Result<void> added = add_perturbation_effects(scenario, options, run->forecast); !added)
      return tl::unexpected(std::move(added.error()));
  return run;
}

Result<ForecastRun> forecast_like(const Scenario& scenario, const ForecastRun& alike) {
  ForecastRun run{alike.plan, alike.schedule, alike.network, alike.graph, {}, {}};
  for (Rank& rank : run.graph.ranks) rank.slowdown = slowdown_of(scenario.perturbation, rank.representative);
  Result<void> simulated = simulate_graph(run, run.graph, scenario, {});
  if (!simulated) return tl::unexpected(located(std::move(simulated.error()), scenario));
  return summarised(std::move(run), scenario, {}, summarise);
}

namespace {

/// Memory without simulation. Schedules that depend on stage times assume equal times here.
Result<std::vector<MemoryByKind>> memory_of_layout(const Scenario& scenario, const Plan& plan) {
  const Result<Schedule> schedule =
      make_schedule(plan.parallel.pp_schedule,
                    {.ranks = plan.parallel.pp, .microbatches = plan.num_microbatches, .chunks = plan.parallel.vpp});
  if (!schedule) return tl::unexpected(schedule.error());
  if (schedule->stages() != static_cast<int>(plan.stages.size()))
    return fail("the schedule has other stages than the plan");
  return peak_memory(scenario.model, plan, *schedule);
}

void check_memory(LayoutForecast& result, const Scenario& scenario, const Plan& plan, double headroom) {
  const std::vector<Bytes> capacity = memory_of_gpus(scenario, plan);
  const std::size_t tightest = tightest_rank(result.memory, capacity);
  result.peak = result.memory[tightest].total();
  result.capacity = capacity[tightest];
  result.host_used = most_on_host(result.memory, plan, scenario.cluster);
  result.fits_gpus = true;
  for (std::size_t rank = 0; rank < capacity.size(); ++rank)
    if (result.memory[rank].total() > usable_memory(capacity[rank], headroom)) result.fits_gpus = false;
  result.fits = result.fits_gpus && fits_on_host(result.host_used, scenario.cluster);
}

}  // namespace

Result<LayoutForecast> LayoutForecasts::forecast(const Scenario& scenario, double headroom, Duration longest) {
  const Result<Plan> plan =
      make_plan(scenario.model, scenario.parallel, scenario.training, scenario.cluster.world_size);
  if (!plan) return tl::unexpected(plan.error());
  Result<std::vector<MemoryByKind>> memory = memory_of_layout(scenario, *plan);
  if (!memory) return tl::unexpected(std::move(memory.error()));
  LayoutForecast result{std::move(*memory)};
  check_memory(result, scenario, *plan, headroom);
  if (!result.fits) return result;
  Result<ForecastRun> run = forecast_steps(scenario, {}, {.longest = longest}, &known_);
  if (!run) return tl::unexpected(located(std::move(run.error()), scenario));
  result.given_up = run->timeline.given_up;
  if (result.given_up) return result;
  if (find_schedule(run->plan.parallel.pp_schedule)->uses_times) {
    result.memory = peak_memory(scenario.model, run->plan, run->schedule);
    check_memory(result, scenario, run->plan, headroom);
  }
  result.step = std::move(run->forecast);
  return result;
}

namespace {

ForecastOptions alone_options(const ForecastOptions& options) {
  return {.network = options.network, .transfers_slow_compute = options.transfers_slow_compute};
}

/// Job `own` of several on one machine, whose nodes are assigned, together with the others and alone.
Result<ForecastRun> forecast_among(const std::vector<Scenario>& jobs, std::size_t own, const ForecastOptions& options) {
  const Scenario& job = jobs[own];
  std::vector<Scenario> others = jobs;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(own));
  const Result<ForecastRun> alone = forecast(job, alone_options(options));
  if (!alone) return tl::unexpected(alone.error());
  Result<ForecastRun> run = forecast_steps(job, others, options);
  if (!run) return tl::unexpected(located(std::move(run.error()), job));
  run->forecast.undisturbed_step_s = alone->forecast.step_time_s;
  return run;
}

}  // namespace

Result<ForecastRun> forecast_colocated(Scenario job, std::vector<Scenario> others, const ForecastOptions& options,
                                       JobPlacement placement) {
  TRACECAST_ASSERT(options.network != NetworkKind::isolated && !others.empty(), "co-located jobs share links");
  Scenario perturbed = job;  // by what the page lists: its own nodes, and the machine
  std::vector<Scenario> jobs = std::move(others);
  jobs.insert(jobs.begin(), std::move(job));
  if (Result<void> divided = assign_nodes(jobs, placement); !divided) return tl::unexpected(divided.error());
  Result<ForecastRun> run = forecast_among(jobs, 0, options);
  if (!run) return run;
  Forecast& own = run->forecast;
  ForecastOptions times_only = options;
  times_only.record_spans = times_only.explain = false;
  for (std::size_t i = 1; i < jobs.size(); ++i) {
    const Result<ForecastRun> other = forecast_among(jobs, i, times_only);
    if (!other) return tl::unexpected(other.error());
    own.co_located.push_back({jobs[i].name, other->forecast.step_time_s, other->forecast.undisturbed_step_s});
  }
  own.perturbations.push_back({neighbours_text(jobs, placement), own.undisturbed_step_s});
  perturbed.cluster.faults.lost_rails = jobs.front().cluster.faults.lost_rails;
  perturbed.cluster.faults.lost_uplinks = jobs.front().cluster.faults.lost_uplinks;
  const std::vector<std::string> texts = perturbation_texts(perturbed);
  if (texts.empty()) return run;
  for (const std::string& each : texts) own.perturbations.push_back({each});
  Scenario undisturbed = without_perturbations(jobs.front());
  undisturbed.cluster.faults.missing_gpus = jobs.front().cluster.faults.missing_gpus;
  const Result<ForecastRun> healthy = forecast(undisturbed, alone_options(options));
  if (!healthy) return tl::unexpected(healthy.error());
  own.undisturbed_step_s = healthy->forecast.step_time_s;
  return run;
}

}  // namespace tracecast
