#include "sim/forecast/goodput_forecast.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <boost/math/distributions/normal.hpp>
#include <fmt/format.h>

#include "sim/base/quantile.hpp"
#include "sim/base/units.hpp"
#include "sim/economics/economics.hpp"
#include "sim/forecast/engine_step_times.hpp"
#include "sim/forecast/evidence.hpp"
#include "sim/plan/replica_nodes.hpp"
#include "sim/reliability/closed_forms.hpp"

namespace tracecast {
namespace {

/// Storage bandwidth per node if neither the failure model nor the topology states it: the sustained rate of the file
/// system of Llama 3: 2 TB/s for 2,048 nodes (docs/references.md#meta-24k).
constexpr std::int64_t kStoragePerNode = 1'000'000'000;

/// Checkpoint intervals of a history after which its unsaved work is at most a tenth of it.
constexpr double kIntervals = 10;

/// Ranks whose shards differ. Copies of a shard group write nothing of their own.
int writers_of(const Parallel& p, int ranks, int replicas) {
  if (p.zero_stage == 0) return std::max(1, ranks / replicas);
  if (p.shard_group == 0) return ranks;
  const std::int64_t distinct = std::int64_t{p.tp} * p.pp * p.shard_group;
  return static_cast<int>(std::clamp<std::int64_t>(distinct, 1, ranks));
}

CheckpointShape shape_of(const GoodputForecast& result, const Plan& plan, int replicas) {
  const int given = result.checkpoint.bytes_per_parameter;
  return {given > 0 ? Bytes{given * result.saved.parameters} : result.saved.total(), plan.world_size,
          writers_of(plan.parallel, plan.world_size, replicas), result.machine.nodes()};
}

/// The storage of the failure model, else that of the topology, else an assumed one.
void set_storage(GoodputForecast& result, const Cluster& cluster) {
  CheckpointSettings& settings = result.checkpoint;
  const bool stated = settings.storage_write.bytes_per_second > 0 || settings.storage_read.bytes_per_second > 0;
  const bool known = cluster.storage.write.bytes_per_second > 0;
  result.storage_from = stated ? StorageFrom::failures : (known ? StorageFrom::topology : StorageFrom::assumed);
  const StorageSpec storage =
      known ? cluster.storage
            : StorageSpec{{kStoragePerNode * result.machine.nodes()}, {kStoragePerNode * result.machine.nodes()}};
  if (settings.storage_write.bytes_per_second == 0) settings.storage_write = storage.write;
  if (settings.storage_read.bytes_per_second == 0) settings.storage_read = storage.read;
}

/// The job, without its checkpoints.
JobSpec spec_of(const GoodputRequest& request, const Plan& plan) {
  const Scenario& scenario = request.scenario;
  JobSpec spec;
  spec.machine = {scenario.cluster.world_size, scenario.cluster.node.gpus_per_host};
  spec.replicas = replicas_of(scenario);
  spec.replicas_per_node = replicas_per_node(plan.grid, spec.machine.gpus_per_node);
  spec.replicas_together = replicas_together(plan);
  spec.failures = request.fits.empty() ? without_unused_network(request.failures.model, spec.machine)
                                       : request.failures.model;  // a log has what did stop this job
  spec.recovery = request.failures.recovery;
  if (request.mtbf_s > 0) {
    const JobTime flap_budget = spec.recovery.flap_budget;
    const double rate = interruption_rate_s(spec.failures, spec.machine, flap_budget);
    if (rate > 0) spec.failures = scaled(spec.failures, 1 / (request.mtbf_s * rate), flap_budget);
  }
  if (!request.failures.spares_given) spec.recovery.spares = enough_spares(spec.failures, spec.machine, spec.recovery);
  spec.course = request.failures.course;
  spec.horizon = job_time(request.days * kSecondsPerDay);
  return spec;
}

/// Time of a crash with an idle spare, without the lost work.
double crash_to_work_s(const JobSpec& spec) {
  const RecoveryPolicy& r = spec.recovery;
  const JobTime load = spec.checkpoint.tiers.empty() ? JobTime{} : spec.checkpoint.tiers.back().load;
  return seconds(r.crash_detection + r.diagnosis + r.spare_swap + restart_time(r, spec.machine, r.spare_state) + load);
}

void add_closed_forms(GoodputForecast& result) {
  const double stall = mean_stall_s(result.spec.checkpoint.tiers);
  if (result.spec.checkpoint.tiers.empty() || stall <= 0 || !std::isfinite(result.mtbf_s)) return;
  result.young_s = young_interval_s(stall, result.mtbf_s);
  result.daly_s = daly_interval_s(stall, result.mtbf_s);
  result.optimal_s = optimal_interval_s(stall, result.mtbf_s);
}

std::int64_t whole_steps(double steps) {
  constexpr double kMost = 1e15;  // more than a history has
  return steps > 0 ? std::max<std::int64_t>(1, std::llround(std::min(steps, kMost))) : 0;
}

/// The given interval, or the optimum in closed form, but at least the time until a copy is safe.
std::int64_t interval_steps_of(const GoodputForecast& result) {
  const double step = seconds(result.healthy.time);
  if (result.spec.checkpoint.tiers.empty()) return 0;
  if (result.checkpoint.interval_s > 0) return whole_steps(result.checkpoint.interval_s / step);
  double persist = 0;
  for (const CheckpointTier& tier : result.spec.checkpoint.tiers)
    persist = std::max(persist, seconds(tier.persist) / tier.every);
  return std::max(whole_steps(result.optimal_s / step), whole_steps(std::ceil(persist / step)));
}

/// Do all histories end where the goal is reached?
bool ends_at_goal(const GoodputForecast& result, double tokens) {
  return result.goodput.at_target == result.goodput.histories &&
         std::abs(static_cast<double>(result.spec.course.target_tokens) - tokens) < 1;
}

/// Goodputs of jobs of so many days: those of the histories, which scatter more in a shorter job and less in a longer one.
/// None is more than 1, since no job is faster than the healthy machine.
std::vector<double> goodputs_over(const Goodput& goodput, double days) {
  constexpr double kLowest = 0.01;  // as in search/uncertainty.cpp
  const double mean = goodput.goodput.mean;
  const double scatter = std::sqrt(goodput.wall_s.mean / kSecondsPerDay / days);
  std::vector<double> values;
  for (const double each : goodput.goodputs)
    values.push_back(std::clamp(mean + scatter * (each - mean), std::min(kLowest, mean), 1.0));
  return values;
}

/// All products of the values and the log-normal distribution of the step around `middle`. A band of zeros: a measured step,
/// which has no distribution.
std::vector<double> times_step(const std::vector<double>& values, const Band& step, double middle) {
  constexpr int kPoints = 64;  // of the same probability
  const double sigma = deviation_of(step.p5_s, step.p95_s);
  std::vector<double> products;
  for (int i = 0; i < (sigma > 0 ? kPoints : 1); ++i) {
    const double factor =
        sigma > 0 ? middle * std::exp(sigma * quantile(boost::math::normal(), (i + 0.5) / kPoints)) : middle;
    for (const double value : values) products.push_back(factor * value);
  }
  return products;
}

/// Of the tokens that the histories trained on average; if none, of the first ones.
Result<void> add_effective_rate(GoodputForecast& result, const StepTimes& steps) {
  const double tokens = std::max(1.0, result.goodput.tokens.mean);
  const Result<double> healthy_s = healthy_time_s(result.spec.course, steps, tokens);
  if (!healthy_s) return tl::unexpected(healthy_s.error());
  result.effective_tokens_per_s = tokens / *healthy_s * result.goodput.goodput.mean;
  return {};
}

Result<void> add_goal(GoodputForecast& result, const GoodputRequest& request, const StepTimes& steps,
                      const Forecast& forecast) {
  const Band step = request.step_time_s > 0 ? Band{} : forecast.band;  // zeros: measured
  Training training = request.scenario.training;
  if (request.goal_tokens > 0) training.train_tokens = request.goal_tokens;
  result.goal_tokens = std::llround(tokens_to_train(training));
  const Estimate& g = result.goodput.goodput;
  if (result.goal_tokens == 0 || g.low <= 0) return {};
  const double with_padding = static_cast<double>(result.goal_tokens) / counted_share(forecast, training);
  const bool at_goal = ends_at_goal(result, with_padding);
  if (!at_goal && !result.goodput_holds_longer()) return {};
  const Result<double> healthy_s = healthy_time_s(result.spec.course, steps, with_padding);
  if (!healthy_s) return tl::unexpected(healthy_s.error());
  result.goal_days = (at_goal ? result.goodput.wall_s.mean : *healthy_s / g.mean) / kSecondsPerDay;
  std::vector<double> days = at_goal ? result.goodput.walls_s : goodputs_over(result.goodput, result.goal_days);
  for (double& each : days) each = (at_goal ? each : *healthy_s / each) / kSecondsPerDay;
  days = times_step(days, step, step.p50_s > 0 ? step.p50_s / seconds(result.healthy.time) : 1);
  result.goal_days_p10 = quantile(days, 0.1);
  result.goal_days_p90 = quantile(days, 0.9);
  result.goal_gpu_hours = PaidGpus{.used = result.machine.gpus}.hours(result.goal_days);
  const int spares = result.spec.recovery.spares * result.machine.gpus_per_node;
  const PaidGpus paid = paid_gpus(Term::on_demand, request.scenario.cluster.node, result.machine.gpus, spares);
  result.goal_usd = paid.hours(result.goal_days) * request.price_per_gpu_hour;
  return {};
}

void add_resume(GoodputForecast& result, const GoodputRequest& request) {
  if (!request.resume_from) return;
  const Parallel& p = request.scenario.parallel;
  Resume resume{*request.resume_from, {p.tp, p.pp, result.spec.replicas}, {}, 0, 0, 0};
  resume.read = reshard(request.scenario.model, resume.from, resume.to);
  CheckpointSettings settings = result.checkpoint;
  resume.same_layout_s = resume.slices_s = seconds(load_time(settings, result.shape));
  settings.read_amplification *= resume.read.amplification();
  resume.whole_shards_s = seconds(load_time(settings, result.shape));
  result.resume = resume;
}

/// With elastic continuation: how long does a replica take to leave or rejoin, and does the job roll back when a node is lost,
/// because it held states that no other node has?
void set_elastic(GoodputForecast& result, const GoodputRequest& request, const Plan& plan) {
  RecoveryPolicy& recovery = result.spec.recovery;
  if (recovery.elastic == Elastic::off) return;
  if (!result.reconfigure_given) recovery.reconfigure = restart_time(recovery, result.machine, SpareState::hot);
  result.states_survive =
      states_survive_node(plan, request.scenario.model.moe.has_value(), result.machine.gpus_per_node);
  if (!result.rollback_given) recovery.elastic_rollback = !result.states_survive;
}

/// The job and what it saves, before its step times are known.
void describe_job(GoodputForecast& result, const GoodputRequest& request, const Plan& plan) {
  result.scenario = request.scenario.name;
  result.failures = request.failures.model.name;
  result.checkpoint = request.failures.checkpoint;
  result.spares_given = request.failures.spares_given;
  result.rollback_given = request.failures.rollback_given;
  result.reconfigure_given = request.failures.reconfigure_given;
  result.spec = spec_of(request, plan);
  result.machine = result.spec.machine;
  set_elastic(result, request, plan);
  set_storage(result, request.scenario.cluster);
  result.saved = saved_state(request.scenario.model, request.scenario.training, request.scenario.parallel);
  result.shape = shape_of(result, plan, result.spec.replicas);
  result.spec.checkpoint.tiers = make_tiers(result.checkpoint, result.shape);
  result.fits = request.fits;
}

MemoryNeed memory_of(const Forecast& step) {
  const auto pp_rank = static_cast<std::size_t>(step.tightest_pp_rank);
  return {step.fits_gpus,       step.fits,      step.memory[pp_rank].total(),
          step.memory_capacity, step.host_used, step.host_capacity};
}

/// The interval between checkpoints, and the goodput that it has in closed form.   Requires the time of a step
void choose_interval(GoodputForecast& result) {
  const double rate = interruption_rate_s(result.spec.failures, result.machine, result.spec.recovery.flap_budget);
  result.mtbf_s = rate > 0 ? 1 / rate : std::numeric_limits<double>::infinity();
  result.restart_s = crash_to_work_s(result.spec);
  add_closed_forms(result);
  result.spec.checkpoint.interval_steps = interval_steps_of(result);
  result.interval_s = static_cast<double>(result.spec.checkpoint.interval_steps) * seconds(result.healthy.time);
  if (result.interval_s > 0 && rate > 0 && result.spec.recovery.elastic == Elastic::off)
    result.closed_goodput = segment_goodput(
        result.interval_s, {result.mtbf_s, mean_stall_s(result.spec.checkpoint.tiers), result.restart_s});
}

/// Makes histories so long that their goodput holds for a job of another length, if an interval is not too long for that.
void lengthen_histories(GoodputForecast& result) {
  constexpr double kLongest_s = 3650 * kSecondsPerDay;                               // chosen: as --days
  const double needed_s = std::min(kLongest_s, kIntervals * result.interval_s + 1);  // a second more: rounding
  result.spec.horizon = std::max(result.spec.horizon, job_time(needed_s));
}

/// All histories, one of them event by event, and the best interval if it is asked for.
Result<void> simulate_job(GoodputForecast& result, const GoodputRequest& request, const CachedStepTimes& steps) {
  Result<Goodput> goodput = simulate_goodput(result.spec, steps, request.options);
  if (!goodput) return tl::unexpected(goodput.error());
  result.goodput = std::move(*goodput);
  Result<History> sample = simulate_history(result.spec, steps, request.options.seed, 0, true);
  if (!sample) return tl::unexpected(sample.error());
  result.sample = std::move(*sample);
  if (!request.find_best_interval || result.spec.checkpoint.interval_steps == 0 || !std::isfinite(result.mtbf_s))
    return {};
  const std::int64_t around =
      whole_steps((result.optimal_s > 0 ? result.optimal_s : result.interval_s) / seconds(result.healthy.time));
  Result<BestInterval> best = best_interval(result.spec, steps, around, request.options);
  if (!best) return tl::unexpected(best.error());
  result.best = std::move(*best);
  return {};
}

/// Step times name the ramp alone: which file it is from is known here.
Error located_ramp(Error error, const FailureFile& failures) {
  for (Diagnostic& each : error.diagnostics) {
    if (each.key != "run.batch_ramp" || !each.file.empty()) continue;
    each.file = failures.ramp_file;
    each.line = failures.ramp_line;
  }
  return error;
}

}  // namespace

bool GoodputForecast::goodput_holds_longer() const {
  if (!std::isfinite(mtbf_s)) return true;
  return interval_s > 0 && goodput.wall_s.mean >= kIntervals * interval_s;
}

std::string GoodputForecast::why_no_goal() const {
  if (goodput_holds_longer()) return "the goodput may be 0 %";
  if (interval_s == 0) return "without checkpoints the goodput depends on the length of a history";
  return "a history has fewer than ten checkpoint intervals";
}

double GoodputForecast::tokens_per_s() const { return static_cast<double>(healthy.tokens) / seconds(healthy.time); }

Result<GoodputForecast> forecast_goodput(const GoodputRequest& request) {
  std::optional<ForecastRun> own;
  if (request.step == nullptr) {
    Result<ForecastRun> run = forecast(request.scenario);
    if (!run) return tl::unexpected(located(run.error(), request.scenario));
    own = std::move(*run);
  }
  const ForecastRun& step = own ? *own : *request.step;
  GoodputForecast result;
  describe_job(result, request, step.plan);
  if (request.step_time_s == 0) result.memory = memory_of(step.forecast);
  const bool keep_batch = result.spec.recovery.elastic == Elastic::keep_batch;
  const EngineStepTimes engine(request.scenario, keep_batch, request.step_time_s, &step);
  const CachedStepTimes steps(engine);
  const Result<StepTime> healthy = steps.of({});
  if (!healthy) return tl::unexpected(healthy.error());
  result.healthy = *healthy;
  choose_interval(result);
  if (request.lengthen_histories) lengthen_histories(result);
  Result<void> done = simulate_job(result, request, steps);
  if (done) done = add_effective_rate(result, steps);
  if (done) done = add_goal(result, request, steps, step.forecast);
  if (!done) return tl::unexpected(located_ramp(std::move(done.error()), request.failures));
  add_resume(result, request);
  result.states = steps.known();
  return result;
}

}  // namespace tracecast
