#include "sim/forecast/summary.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/cost/costs.hpp"
#include "sim/cost/rated_precision.hpp"
#include "sim/forecast/evidence.hpp"
#include "sim/forecast/sensitivities.hpp"
#include "sim/plan/fine_tuning.hpp"

namespace tracecast {
namespace {

/// A sum over all ranks in whole units, so that it is the same whether the ranks are folded or not.
class SumOverRanks {
 public:
  __extension__ using Integer = __int128;
  /// `count` ranks with this value.
  void add(std::int64_t value, Integer count) { sum_ += value * count; }
  double mean(std::int64_t ranks) const { return static_cast<double>(sum_) / static_cast<double>(ranks); }
  double mean_seconds(std::int64_t ranks) const { return mean(ranks) * 1e-12; }  ///< of a sum of picoseconds

 private:
  Integer sum_ = 0;
};

/// Compute time of one template by operator kind and by provenance, and its recomputed FLOPs.
struct TemplateWork {
  std::array<std::int64_t, kOperatorKinds> by_kind{};  // ps
  std::array<std::int64_t, 3> by_provenance{};         // ps
  std::array<std::int64_t, kOperatorKinds> spread{};   // ps x relative standard deviation
  std::int64_t recomputed_flops = 0;
};

/// FLOPs that the convention counts over those that were executed. In full, every query of a causal mask counts w keys, w the window or
/// the sequence, of which a kernel multiplies w - w^2 / 2s; of a ring's blocks as much.
double convention_factor(const Operator& op, FlopsConvention convention) {
  const bool full = convention == FlopsConvention::model_full_attn;
  if (op.kind == OperatorKind::scores) return full ? 1.0 : 0.5;
  const auto* shape = std::get_if<AttentionShape>(&op.shape);
  if (shape == nullptr || !full || (!shape->causal && shape->ring_ranks == 1)) return 1.0;
  const auto sequence = static_cast<double>(shape->ring_ranks > 1 ? shape->ring_ranks * shape->q_len : shape->kv_len);
  const double window = shape->window > 0 ? std::min(static_cast<double>(shape->window), sequence) : sequence;
  return 1 / (1 - window / (2 * sequence));
}

TemplateWork sum_up(const StepGraph& graph, const Template& each, FlopsConvention convention) {
  TemplateWork work;
  // By the phase, as the engine counts: Muon's multiplications and late copies of gradients, too.
  const bool update = each.phase == Phase::optimizer;
  for (const Op& op : each.ops) {
    if (op.type != OpType::compute || op.payload < 0) continue;
    const CostedOperator& costed = graph.operators[static_cast<std::size_t>(op.payload)];
    const auto kind = static_cast<std::size_t>(update ? OperatorKind::optimizer : costed.op.kind);
    work.by_kind[kind] += op.duration.picoseconds;
    work.by_provenance[static_cast<std::size_t>(costed.cost.provenance)] += op.duration.picoseconds;
    work.spread[kind] += std::llround(costed.cost.spread * static_cast<double>(op.duration.picoseconds));
    if (costed.recomputed)
      work.recomputed_flops += std::llround(flops(costed.op).count * convention_factor(costed.op, convention));
  }
  return work;
}

/// Means over all ranks of the job.
struct MeanWork {
  std::array<double, kOperatorKinds> by_kind_s{};
  std::array<double, kOperatorKinds> spread_s{};
  std::array<double, 3> by_provenance_s{};
  double recomputed_flops = 0;  ///< of one rank
};

MeanWork mean_work(const StepGraph& graph, FlopsConvention convention) {
  struct Runs {
    SumOverRanks::Integer ranks = 0;
    SumOverRanks::Integer weight = 0;  ///< ranks times their slowdown
  };
  std::vector<Runs> programs(graph.programs.size());
  for (const Rank& rank : graph.ranks) {
    Runs& own = programs[static_cast<std::size_t>(rank.program)];
    own.ranks += rank.multiplicity;
    own.weight += std::int64_t{rank.multiplicity} * rank.slowdown;
  }
  std::vector<Runs> templates(graph.templates.size());
  for (std::size_t p = 0; p < graph.programs.size(); ++p)
    for (const ProgramItem& item : graph.programs[p]) {
      Runs& runs = templates[static_cast<std::size_t>(item.template_index)];
      runs.ranks += programs[p].ranks;
      runs.weight += programs[p].weight;
    }
  std::array<SumOverRanks, kOperatorKinds> by_kind;
  std::array<SumOverRanks, kOperatorKinds> spread;
  std::array<SumOverRanks, 3> by_provenance;
  SumOverRanks recomputed_flops;
  for (std::size_t i = 0; i < templates.size(); ++i) {
    const TemplateWork work = sum_up(graph, graph.templates[i], convention);
    for (std::size_t k = 0; k < work.by_kind.size(); ++k) {
      by_kind[k].add(work.by_kind[k], templates[i].weight);
      spread[k].add(work.spread[k], templates[i].weight);
    }
    for (std::size_t k = 0; k < work.by_provenance.size(); ++k)
      by_provenance[k].add(work.by_provenance[k], templates[i].weight);
    recomputed_flops.add(work.recomputed_flops, templates[i].ranks);
  }
  const std::int64_t total = graph.total_ranks() * kNoSlowdown;
  MeanWork mean;
  for (std::size_t k = 0; k < by_kind.size(); ++k) {
    mean.by_kind_s[k] = by_kind[k].mean_seconds(total);
    mean.spread_s[k] = spread[k].mean_seconds(total);
  }
  for (std::size_t k = 0; k < by_provenance.size(); ++k) mean.by_provenance_s[k] = by_provenance[k].mean_seconds(total);
  mean.recomputed_flops = recomputed_flops.mean(graph.total_ranks());
  return mean;
}

/// Largest spread among the collectives of one kind of traffic.
double traffic_spread(const StepGraph& graph, Traffic traffic) {
  double spread = 0;
  for (const CostedCollective& each : graph.collectives)
    if (each.traffic == traffic) spread = std::max(spread, each.cost.spread);
  if (traffic == Traffic::pipeline)
    for (const Message& each : graph.messages) spread = std::max(spread, each.cost.spread);
  return spread;
}

/// The 90 % band. Errors within one kind of operator or traffic are correlated, those of different kinds are
/// independent. Each error is weighted with its share of the time of the mean rank. The errors of kernels partly cancel.
/// How far the run is from measured ones is common to all (evidence.hpp).
Band band_of(const Scenario& scenario, const Forecast& forecast, const StepGraph& graph, const MeanWork& mean) {
  double variance = 0;
  for (std::size_t kind = 0; kind < mean.spread_s.size(); ++kind) {
    const auto of = static_cast<OperatorKind>(kind);
    const bool never_measured =
        of == OperatorKind::scan || of == OperatorKind::indexer || of == OperatorKind::sparse_attention;
    const double own = (never_measured ? 1 : kKernelsTogether) * mean.spread_s[kind];
    variance += own * own;
  }
  for (int traffic = 0; traffic < kTrafficKinds; ++traffic) {
    const double own =
        traffic_spread(graph, static_cast<Traffic>(traffic)) * forecast.exposed_s[static_cast<std::size_t>(traffic)];
    variance += own * own;
  }
  variance += kHostSpread * kHostSpread * forecast.host_s * forecast.host_s;
  const double busy = std::max(1e-12, forecast.step_time_s * (1 - forecast.bubble_fraction));
  return band_around(forecast.step_time_s, kRunBand.half_width(novelty_of(scenario), std::sqrt(variance) / busy));
}

void add_times(Forecast& forecast, const StepGraph& graph, const Timeline& timeline) {
  std::array<SumOverRanks, kTrafficKinds> exposed;
  SumOverRanks bubble, host, optimizer;
  for (std::size_t r = 0; r < graph.ranks.size(); ++r) {
    const std::int64_t count = graph.ranks[r].multiplicity;
    const RankTime& time = timeline.ranks[r];
    for (std::size_t k = 0; k < exposed.size(); ++k) exposed[k].add(time.exposed[k].picoseconds, count);
    bubble.add(time.bubble.picoseconds, count);
    host.add(time.host.picoseconds, count);
    optimizer.add(time.optimizer.picoseconds, count);
  }
  const std::int64_t ranks = graph.total_ranks();
  for (std::size_t k = 0; k < exposed.size(); ++k) forecast.exposed_s[k] = exposed[k].mean_seconds(ranks);
  forecast.host_s = host.mean_seconds(ranks);
  forecast.optimizer_s = optimizer.mean_seconds(ranks);
  const double bubble_s = bubble.mean_seconds(ranks);
  forecast.bubble_fraction = forecast.step_time_s > 0 ? bubble_s / forecast.step_time_s : 0;
}

/// Kernels slowed by transfers: the compute time of the mean rank beyond that of its kernels alone. Durations of slow ranks
/// are rounded one by one; below a millionth of the step nothing was slowed.
void add_contention(Forecast& forecast, const StepGraph& graph, const Timeline& timeline) {
  constexpr double kRounding = 1e-6;
  SumOverRanks compute;
  for (std::size_t r = 0; r < graph.ranks.size(); ++r)
    compute.add(timeline.ranks[r].compute.picoseconds, graph.ranks[r].multiplicity);
  double extra = compute.mean_seconds(graph.total_ranks());
  for (const auto& [kind, alone] : forecast.compute_s) extra -= alone;
  if (extra > kRounding * forecast.step_time_s) forecast.compute_s["contention"] = extra;
}

/// The time available for transfers: the step without exposed communication.
double time_for_transfers(const Forecast& forecast) {
  double time_s = forecast.step_time_s;
  for (const double exposed : forecast.exposed_s) time_s -= exposed;
  return time_s > 0 ? time_s : forecast.step_time_s;
}

void add_work(Forecast& forecast, const MeanWork& mean) {
  double total = 0;
  for (double s : mean.by_provenance_s) total += s;
  for (std::size_t k = 0; k < mean.by_kind_s.size(); ++k)
    if (mean.by_kind_s[k] > 0 && static_cast<OperatorKind>(k) != OperatorKind::optimizer)
      forecast.compute_s[to_string(static_cast<OperatorKind>(k))] = mean.by_kind_s[k];
  for (std::size_t k = 0; k < mean.by_provenance_s.size(); ++k)
    forecast.provenance[to_string(static_cast<Provenance>(k))] = total > 0 ? mean.by_provenance_s[k] / total : 0;
}

double peak_flops(const Profile& profile, Precision precision) {
  return profile.peak_flops.empty() ? 0 : profile.peak_flops.at(rated_as(profile, precision));
}

/// Mean over the ranks.
double mean_peak_flops(const Scenario& scenario) {
  const Precision precision = scenario.training.dtype;
  const Perturbation& perturbation = scenario.perturbation;
  if (perturbation.gpus.empty()) return peak_flops(scenario.profile, precision);
  double sum = 0;
  for (int rank = 0; rank < scenario.cluster.world_size; ++rank) {
    const int gpu = gpu_of(perturbation, rank);
    sum += peak_flops(gpu == 0 ? scenario.profile : perturbation.gpus[static_cast<std::size_t>(gpu - 1)].profile,
                      precision);
  }
  return sum / scenario.cluster.world_size;
}

void add_throughput(Forecast& forecast, const Scenario& scenario, const Plan& plan, const MeanWork& mean) {
  const Training& training = scenario.training;
  forecast.tokens_per_step = static_cast<double>(training.global_batch_size) * static_cast<double>(training.seq_length);
  forecast.tokens_per_s = forecast.tokens_per_step / forecast.step_time_s;
  const bool masks = plan.packed && training.documents->mask;
  const double flops_per_token =
      masks ? packed_flops_per_token(scenario.model, training, *plan.packed, forecast.flops_convention)
            : training_flops_per_token(scenario.model, training, forecast.flops_convention);
  const double model_flops = forecast.tokens_per_step * flops_per_token;
  const double rank_seconds = forecast.step_time_s * static_cast<double>(forecast.ranks);
  const double peak = mean_peak_flops(scenario);
  forecast.model_tflops_per_gpu = model_flops / rank_seconds * 1e-12;
  if (peak <= 0) return;
  forecast.mfu = model_flops / rank_seconds / peak;
  const double dropped =
      plan.expert_load.dropped * forecast.tokens_per_step * expert_flops_per_token(scenario.model, training);
  forecast.hfu = forecast.mfu - dropped / rank_seconds / peak + mean.recomputed_flops / forecast.step_time_s / peak;
}

void add_memory(Forecast& forecast, const Scenario& scenario, const Plan& plan, const Schedule& schedule) {
  forecast.memory = peak_memory(scenario.model, plan, schedule);
  const std::vector<Bytes> capacity = memory_of_gpus(scenario, plan);
  const std::size_t tightest = tightest_rank(forecast.memory, capacity);
  forecast.tightest_pp_rank = static_cast<int>(tightest);
  forecast.memory_capacity = capacity[tightest];
  for (const MemoryByKind& rank : forecast.memory) forecast.host_peak = std::max(forecast.host_peak, rank.host);
  forecast.host_used = most_on_host(forecast.memory, plan, scenario.cluster);
  forecast.host_capacity = scenario.cluster.node.host_memory;
  forecast.fits_gpus = forecast.memory[tightest].total() <= forecast.memory_capacity;
  forecast.fits = forecast.fits_gpus && fits_on_host(forecast.host_used, scenario.cluster);
  Coordinates at{};
  at[Axis::pp] = forecast.tightest_pp_rank;
  forecast.peak_rank = plan.grid.rank(at);
}

}  // namespace

/// Ranks fill one host after the other.
Bytes most_on_host(std::span<const MemoryByKind> ranks, const Plan& plan, const Cluster& cluster) {
  if (std::ranges::all_of(ranks, [](const MemoryByKind& each) { return each.host == Bytes{}; })) return {};
  std::pair<int, int> host;
  Bytes used;
  Bytes most;
  for (int rank = 0; rank < plan.world_size; ++rank) {
    const GpuCoord at = cluster.coord_of(rank);
    if (const std::pair own(at.node, at.gpu / cluster.node.gpus_per_host); own != host) {
      host = own;
      used = {};
    }
    used += ranks[static_cast<std::size_t>(plan.grid.coordinates(rank)[Axis::pp])].host;
    most = std::max(most, used);
  }
  return most;
}

std::size_t tightest_rank(std::span<const MemoryByKind> ranks, std::span<const Bytes> capacity) {
  std::size_t tightest = 0;
  for (std::size_t rank = 1; rank < ranks.size(); ++rank)
    if (ranks[rank].total() + capacity[tightest] > ranks[tightest].total() + capacity[rank]) tightest = rank;
  return tightest;
}

std::vector<Bytes> memory_of_gpus(const Scenario& scenario, const Plan& plan) {
  std::vector<Bytes> memory(static_cast<std::size_t>(plan.parallel.pp), scenario.profile.memory);
  if (scenario.perturbation.gpus.empty()) return memory;
  std::ranges::fill(memory, Bytes{std::numeric_limits<std::int64_t>::max()});
  for (int rank = 0; rank < plan.world_size; ++rank) {
    const int gpu = gpu_of(scenario.perturbation, rank);
    const Profile& profile =
        gpu == 0 ? scenario.profile : scenario.perturbation.gpus[static_cast<std::size_t>(gpu - 1)].profile;
    Bytes& least = memory[static_cast<std::size_t>(plan.grid.coordinates(rank)[Axis::pp])];
    least = std::min(least, profile.memory);
  }
  return memory;
}

namespace {

MeanWork add_times_and_work(ForecastRun& run, const Scenario& scenario, const ForecastOptions& options) {
  Forecast& result = run.forecast;
  result.scenario = scenario.name;
  result.ranks = scenario.cluster.world_size;
  result.step_time_s = seconds(run.timeline.step_time);
  result.flops_convention = options.flops_convention;
  result.flushes = run.schedule.flush;
  result.classes = static_cast<int>(run.graph.ranks.size());
  result.events = run.timeline.events;
  const MeanWork mean = mean_work(run.graph, options.flops_convention);
  add_times(result, run.graph, run.timeline);
  add_work(result, mean);
  if (options.transfers_slow_compute) add_contention(result, run.graph, run.timeline);
  add_throughput(result, scenario, run.plan, mean);
  return mean;
}

}  // namespace

void summarise_times(ForecastRun& run, const Scenario& scenario, const ForecastOptions& options) {
  add_times_and_work(run, scenario, options);
}

void summarise(ForecastRun& run, const Scenario& scenario, const ForecastOptions& options) {
  const MeanWork mean = add_times_and_work(run, scenario, options);
  Forecast& result = run.forecast;
  add_memory(result, scenario, run.plan, run.schedule);
  if (result.step_time_s > 0)
    result.bandwidth = required_bandwidth(run.graph, run.plan, scenario.cluster, time_for_transfers(result));
  result.band = band_of(scenario, result, run.graph, mean);
}

}  // namespace tracecast
