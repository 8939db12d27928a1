#include "sim/forecast/goodput_forecast.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/forecast/engine_step_times.hpp"
#include "sim/plan/plan.hpp"
#include "sim/reliability/closed_forms.hpp"

namespace tracecast {
namespace {

constexpr double kDay = 86400;
/// Where neither the failure model nor the topology states the storage: what Llama 3's file system sustains for each of
/// its nodes (2 TB/s for 2,048 of them, arXiv 2407.21783).
constexpr std::int64_t kStoragePerNode = 1'000'000'000;

CheckpointShape shape_of(const Scenario& scenario, int replicas) {
  const int ranks = scenario.cluster.world_size;
  return {parameter_count(scenario.model).total(), ranks,
          scenario.parallel.zero_stage >= 1 ? ranks : std::max(1, ranks / replicas)};
}

/// The failure model's storage, the topology's where that states none, or an assumed one.
void set_storage(GoodputForecast& report, const Cluster& cluster) {
  CheckpointSettings& settings = report.checkpoint;
  const bool stated = settings.storage_write.bytes_per_second > 0 || settings.storage_read.bytes_per_second > 0;
  const bool known = cluster.storage.write.bytes_per_second > 0;
  report.storage_from = stated ? StorageFrom::failures : (known ? StorageFrom::topology : StorageFrom::assumed);
  const StorageSpec storage =
      known ? cluster.storage
            : StorageSpec{{kStoragePerNode * report.machine.nodes()}, {kStoragePerNode * report.machine.nodes()}};
  if (settings.storage_write.bytes_per_second == 0) settings.storage_write = storage.write;
  if (settings.storage_read.bytes_per_second == 0) settings.storage_read = storage.read;
}

JobSpec spec_of(const GoodputRequest& request, const CheckpointSettings& checkpoint, const CheckpointShape& shape) {
  const Scenario& scenario = request.scenario;
  const Parallel& p = scenario.parallel;
  JobSpec spec;
  spec.machine = {scenario.cluster.world_size, scenario.cluster.node.gpus_per_host};
  spec.replicas = p.dp > 0 ? p.dp : std::max(1, scenario.cluster.world_size / (p.tp * p.pp * p.cp));
  spec.replicas_per_node = std::clamp(spec.machine.gpus_per_node / std::max(1, p.tp * p.cp), 1, spec.replicas);
  spec.failures = request.failures.model;
  if (request.mtbf_s > 0) {
    const double rate = interruption_rate_s(spec.failures, spec.machine);
    if (rate > 0) spec.failures = scaled(spec.failures, 1 / (request.mtbf_s * rate));
  }
  spec.recovery = request.failures.recovery;
  spec.checkpoint.tiers = make_tiers(checkpoint, shape);
  spec.course = request.failures.course;
  spec.horizon = job_time(request.days * kDay);
  return spec;
}

/// A crash with a spare at hand, without the work it loses.
double crash_to_work_s(const JobSpec& spec) {
  const RecoveryPolicy& r = spec.recovery;
  const JobTime bootstrap{r.communicators_per_1k_ranks.nanoseconds * spec.machine.gpus / 1000};
  const JobTime load = spec.checkpoint.tiers.empty() ? JobTime{} : spec.checkpoint.tiers.back().load;
  return seconds(r.crash_detection + r.diagnosis + r.spare_swap + r.scheduler + r.container + r.communicators +
                 bootstrap + r.warm_up + load);
}

void add_closed_forms(GoodputForecast& report) {
  const double stall = mean_stall_s(report.spec.checkpoint.tiers);
  if (report.spec.checkpoint.tiers.empty() || stall <= 0 || !std::isfinite(report.mtbf_s)) return;
  report.young_s = young_interval_s(stall, report.mtbf_s);
  report.daly_s = daly_interval_s(stall, report.mtbf_s);
  report.optimal_s = optimal_interval_s(stall, report.mtbf_s);
}

/// The interval asked for, or the best one in closed form (but not shorter than a copy needs to become safe).
double interval_of(const GoodputForecast& report) {
  const CheckpointSettings& settings = report.checkpoint;
  if (report.spec.checkpoint.tiers.empty()) return 0;
  if (settings.interval_s > 0) return settings.interval_s;
  double persist = 0;
  for (const CheckpointTier& tier : report.spec.checkpoint.tiers)
    persist = std::max(persist, seconds(tier.persist) / tier.every);
  return std::max(report.optimal_s, persist);
}

std::int64_t whole_steps(double interval_s, const StepTime& step) {
  return interval_s > 0 ? std::max<std::int64_t>(1, std::llround(interval_s / seconds(step.time))) : 0;
}

void add_goal(GoodputForecast& report, const GoodputRequest& request) {
  Training training = request.scenario.training;
  if (request.goal_tokens > 0) training.train_tokens = request.goal_tokens;
  report.goal_tokens = std::llround(tokens_to_train(training));
  if (report.goal_tokens == 0) return;
  const double healthy_days = static_cast<double>(report.goal_tokens) / report.tokens_per_s() / kDay;
  const Estimate& g = report.goodput.goodput;
  if (g.low <= 0) return;
  report.goal_days = {healthy_days / g.mean, healthy_days / g.high, healthy_days / g.low, 0};
  report.goal_gpu_hours = report.goal_days.mean * 24 * report.machine.gpus;
  report.goal_price = report.goal_gpu_hours * request.price_per_gpu_hour;
}

void add_resume(GoodputForecast& report, const GoodputRequest& request) {
  if (!request.resume_from) return;
  const Parallel& p = request.scenario.parallel;
  Resume resume{*request.resume_from, {p.tp, p.pp, report.spec.replicas}, {}, 0, 0, 0};
  resume.read = reshard(request.scenario.model, resume.from, resume.to);
  CheckpointSettings settings = report.checkpoint;
  resume.same_layout_s = resume.slices_s = seconds(load_time(settings, report.shape));
  settings.read_amplification *= resume.read.amplification();
  resume.whole_shards_s = seconds(load_time(settings, report.shape));
  report.resume = resume;
}

}  // namespace

const char* to_string(StorageFrom from) {
  switch (from) {
    case StorageFrom::failures:
      return "failures";
    case StorageFrom::topology:
      return "topology";
    case StorageFrom::assumed:
      return "assumed";
  }
  return "";
}

double GoodputForecast::tokens_per_s() const { return static_cast<double>(healthy.tokens) / seconds(healthy.time); }

Result<GoodputForecast> forecast_goodput(const GoodputRequest& request) {
  GoodputForecast report;
  report.scenario = request.scenario.name;
  report.failures = request.failures.model.name;
  report.checkpoint = request.failures.checkpoint;
  const JobSpec bare = spec_of(request, {.mode = CheckpointMode::off}, {});
  report.machine = bare.machine;
  set_storage(report, request.scenario.cluster);
  report.shape = shape_of(request.scenario, bare.replicas);
  report.spec = spec_of(request, report.checkpoint, report.shape);

  const bool keep_batch = report.spec.recovery.elastic == Elastic::keep_batch;
  const EngineStepTimes engine(request.scenario, keep_batch, request.step_time_s);
  const CachedStepTimes steps(engine);
  const Result<StepTime> healthy = steps.of({});
  if (!healthy) return tl::unexpected(healthy.error());
  report.healthy = *healthy;

  const double rate = interruption_rate_s(report.spec.failures, report.machine);
  report.mtbf_s = rate > 0 ? 1 / rate : std::numeric_limits<double>::infinity();
  report.restart_s = crash_to_work_s(report.spec);
  add_closed_forms(report);
  report.spec.checkpoint.interval_steps = whole_steps(interval_of(report), *healthy);
  report.interval_s = static_cast<double>(report.spec.checkpoint.interval_steps) * seconds(healthy->time);
  if (report.interval_s > 0 && rate > 0)
    report.closed_goodput = segment_goodput(
        report.interval_s, {report.mtbf_s, mean_stall_s(report.spec.checkpoint.tiers), report.restart_s});

  Result<Goodput> goodput = simulate_goodput(report.spec, steps, request.options);
  if (!goodput) return tl::unexpected(goodput.error());
  report.goodput = std::move(*goodput);
  Result<History> sample = simulate_history(report.spec, steps, request.options.seed, 0, true);
  if (!sample) return tl::unexpected(sample.error());
  report.sample = std::move(*sample);
  if (request.find_best_interval && report.spec.checkpoint.interval_steps > 0 && rate > 0) {
    const std::int64_t around = whole_steps(report.optimal_s > 0 ? report.optimal_s : report.interval_s, *healthy);
    Result<BestInterval> best = best_interval(report.spec, steps, around, request.options);
    if (!best) return tl::unexpected(best.error());
    report.best = std::move(*best);
  }
  add_goal(report, request);
  add_resume(report, request);
  report.fits = request.fits;
  report.states = steps.known();
  return report;
}

}  // namespace tracecast
