#include "sim/forecast/diagnosis.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "sim/cost/attention.hpp"
#include "sim/forecast/compare.hpp"
#include "sim/forecast/evidence.hpp"
#include "sim/network/sites.hpp"
#include "sim/plan/expert_routing.hpp"

namespace tracecast {
namespace {

// ---- Causes --------------------------------------------------------------------------------------------------------------------

/// A cause: how a scenario changes with its size. `rank`: the one that computed longest relative to its forecast.
struct CauseRow {
  const char* name;
  const char* check;
  double largest;  ///< plausible size; 0: the cause is there or not
  double scale;    ///< a usual logarithm of 1 + size; of a cause without size, what its presence counts as
  bool (*applies)(const Scenario&);
  void (*apply)(Scenario&, double size, int rank);
  std::string (*text)(double size, const std::string& rank);  ///< rank: "rank 37", or which one is not known
};

bool always(const Scenario&) { return true; }
bool overlaps(const Scenario& s) { return s.profile.overlap; }
bool crosses_nodes(const Scenario& s) { return s.cluster.world_size > s.cluster.node.gpus_per_host; }
bool has_rails(const Scenario& s) { return crosses_nodes(s) && s.cluster.node.nics > 1; }

void slow_down(Scenario& s, double size, int rank) { s.perturbation.slow_ranks.push_back({{rank, rank}, 1 + size}); }

void lower_clock(Scenario& s, double size, int) { s.profile.clock /= 1 + size; }

void slow_network(Scenario& s, double size, int) {
  std::int64_t& rate = s.cluster.node.nic_rate.bytes_per_second;
  rate = std::llround(static_cast<double>(rate) / (1 + size));
  renew_sites(s.cluster);
}

void slow_host(Scenario& s, double size, int) {
  s.profile.host.scale_eager(1 + size);
  s.profile.host.graph_launch *= 1 + size;
}

/// On top of what the scenario's own routing gives.
void uneven_routing(Scenario& s, double size, int) {
  Training& t = s.training;
  t.expert_imbalance = expert_load(*s.model.moe, s.parallel, t).fullest * (1 + size);
  t.expert_routing = ExpertRouting::even;
  t.expert_tokens.clear();
  t.expert_drift_steps = 0;
}

void late_data(Scenario& s, double size, int) { s.profile.host.step_overhead += size; }

void all_in_bf16(Scenario& s, double, int) {
  Training& t = s.training;
  t.dtype = Precision::bf16;
  t.fp8_param_gather = t.fused_experts = t.fp8_attention = t.fp8_output_layer = t.row_scales = false;
  t.fp8_scaling = Fp8Scaling::delayed;
  t.low_precision_activations.clear();
}

constexpr const char* kOtherAttention = "fa2";  ///< what launchers fall back to

/// Whether another kernel than FlashAttention 2 is forecast, which the GPU could run as well.
bool may_fall_back_to_fa2(const Scenario& s) {
  const std::vector<std::string> kernels = attention_kernels(s.profile);
  if (!s.training.flash_attention || std::ranges::find(kernels, kOtherAttention) == kernels.end()) return false;
  return (s.training.attention_kernel.empty() ? kernels.front() : s.training.attention_kernel) != kOtherAttention;
}

void fall_back_to_fa2(Scenario& s, double, int) {
  s.training.attention_kernel = kOtherAttention;
  s.training.fp8_attention = false;
}

constexpr const char* kExpertOverlapSchedule = "combined-1f1b";

const std::array kCauses{
    CauseRow{"slow_rank", "time a multiplication on every GPU; look at clocks, temperature and ECC of the slow one", 4,
             0.3, always, slow_down,
             [](double size, const std::string& rank) {
               return fmt::format("{} computes {:.3g} times as long", rank, 1 + size);
             }},
    CauseRow{"lower_clock", "clocks and power of all GPUs (nvidia-smi -q -d CLOCK,POWER) against their limits", 1, 0.1,
             always, lower_clock,
             [](double size, const std::string&) {
               return fmt::format("tensor cores of all GPUs run at {:.3g} % of their rate", 100 / (1 + size));
             }},
    CauseRow{"slow_network", "nccl-tests over all nodes against tracecast collective", 9, 0.5, crosses_nodes,
             slow_network,
             [](double size, const std::string&) {
               return fmt::format("all NICs run at {:.3g} % of their rate", 100 / (1 + size));
             }},
    CauseRow{"slow_nic", "rate and errors of each NIC (ibstat, ethtool -S), and which node's are worse", 9, 0.5,
             has_rails,
             [](Scenario& s, double size, int) {
               s.cluster.faults.slow_nics.push_back({0, 0, 1 / (1 + size)});
             },
             [](double size, const std::string&) {
               return fmt::format("one NIC of one node runs at {:.3g} % of its rate", 100 / (1 + size));
             }},
    CauseRow{"lost_rail", "NCCL_DEBUG=INFO: NICs that NCCL uses on every node", 0, 0.3, has_rails,
             [](Scenario& s, double, int) { s.cluster.faults.lost_rails.push_back(0); },
             [](double, const std::string&) { return std::string("one NIC of every node is not used"); }},
    CauseRow{"no_gradient_overlap", "the launcher's overlap_grad_reduce and overlap_param_gather", 0, 0.3,
             [](const Scenario& s) {
               return overlaps(s) && (s.parallel.overlap_grad_reduce || s.parallel.overlap_param_gather);
             },
             [](Scenario& s, double, int) { s.parallel.overlap_grad_reduce = s.parallel.overlap_param_gather = false; },
             [](double, const std::string&) {
               return std::string("gradients and parameters do not move beside computation");
             }},
    CauseRow{"no_overlap", "CUDA_DEVICE_MAX_CONNECTIONS, CUDA_LAUNCH_BLOCKING, a debugger or profiler that serialises",
             0, 0.5, overlaps, [](Scenario& s, double, int) { s.profile.overlap = false; },
             [](double, const std::string&) { return std::string("nothing moves beside computation"); }},
    CauseRow{
        "no_expert_overlap", "the launcher's overlap_moe_expert_parallel_comm", 0, 0.3,
        [](const Scenario& s) { return overlaps(s) && s.parallel.pp_schedule == kExpertOverlapSchedule; },
        [](Scenario& s, double, int) { s.parallel.pp_schedule = default_schedule(s.parallel.vpp); },
        [](double, const std::string&) { return std::string("tokens do not move to experts beside computation"); }},
    CauseRow{"no_narrow_precision", "the launcher's FP8 or FP4 recipe, and that Transformer Engine or torchao is used",
             0, 0.5, [](const Scenario& s) { return is_narrow(s.training.dtype); }, all_in_bf16,
             [](double, const std::string&) { return std::string("linear layers run in bf16"); }},
    CauseRow{
        "attention_kernel",
        "the launcher's attention backend (Transformer Engine prints it with NVTE_DEBUG=1 and "
        "NVTE_DEBUG_LEVEL=2)",
        0, 0.5, may_fall_back_to_fa2, fall_back_to_fa2,
        [](double, const std::string&) { return fmt::format("attention runs another kernel ({})", kOtherAttention); }},
    CauseRow{"no_graphs", "the launcher's CUDA graphs, and graph breaks in its log", 0, 0.5,
             [](const Scenario& s) { return s.training.cuda_graphs; },
             [](Scenario& s, double, int) { s.training.cuda_graphs = false; },
             [](double, const std::string&) {
               return std::string("each operation is launched by itself, not in CUDA graphs");
             }},
    CauseRow{"recompute_selective", "the launcher's recomputation settings", 0, 0.5,
             [](const Scenario& s) { return s.training.recompute == Recompute::none; },
             [](Scenario& s, double, int) { s.training.recompute = Recompute::selective; },
             [](double, const std::string&) { return std::string("attention is recomputed"); }},
    CauseRow{"recompute_full", "the launcher's recomputation settings", 0, 0.5,
             [](const Scenario& s) { return s.training.recompute != Recompute::full; },
             [](Scenario& s, double, int) {
               s.training.recompute = Recompute::full;
               s.training.recompute_modules.clear();
             },
             [](double, const std::string&) { return std::string("every layer is recomputed"); }},
    CauseRow{"slow_host", "processor time of the ranks, pinning, other processes; CUDA graphs", 20, 1, always,
             slow_host,
             [](double size, const std::string&) {
               return fmt::format("the host takes {:.3g} times as long to issue an operation", 1 + size);
             }},
    CauseRow{"late_data",
             "time between the end of a step and the first kernel of the next: data loader, checkpoint, logging", 1e4,
             2, always, late_data,
             [](double size, const std::string&) { return fmt::format("every step begins {:.3g} s late", size); }},
    CauseRow{"routing", "tokens of each expert (the router's load), or forced balancing", 7, 0.5,
             [](const Scenario& s) { return s.model.moe.has_value() && s.training.expert_capacity_factor == 0; },
             uneven_routing,
             [](double size, const std::string&) {
               return fmt::format("the fullest rank's experts get {:.3g} times the tokens", 1 + size);
             }},
};

// ---- Misfit --------------------------------------------------------------------------------------------------------------------

/// The parts of a rank's time, in seconds.
using Parts = std::map<std::string, double>;

/// Computation by kind, if the spans say it, and where the rest of the time went.
std::vector<Parts> parts_of(const StepRecord& record) {
  std::vector<Parts> all(record.ranks.size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    const RankTime& time = record.ranks[r].time;
    all[r]["compute"] = seconds(time.compute);
    all[r]["bubble"] = seconds(time.bubble);
    all[r]["host"] = seconds(time.host);
    all[r]["optimizer"] = seconds(time.optimizer);
    for (int k = 0; k < kTrafficKinds; ++k)
      all[r][to_string(static_cast<Traffic>(k))] = seconds(time.exposed[static_cast<std::size_t>(k)]);
  }
  for (const StepSpan& span : record.spans) {
    const StepWork& work = record.works[static_cast<std::size_t>(span.work)];
    if (!work.transfer)
      all[static_cast<std::size_t>(span.rank)]["kernels " + work.kind] += seconds(span.end - span.start);
  }
  return all;
}

constexpr double kRootTwoPi = 2.5066282746310002;

double squared(double x) { return x * x; }

/// Logarithm of the density at x of a normal distribution around 0.
double log_normal(double x, double deviation) { return -squared(x / deviation) / 2 - std::log(deviation * kRootTwoPi); }

/// Of what is known beside the step time. `factor`: on every part of the simulated step.
double misfit_of_parts(const StepRecord& simulated, double factor, const StepEvidence& evidence) {
  const auto z2 = [&](double model_s, double measured_s) {
    return squared((model_s - measured_s) / std::hypot(0.005 * evidence.step_s, 0.03 * std::max(model_s, measured_s)));
  };
  double sum = 0;
  const std::vector<Parts> model = parts_of(simulated);
  const std::vector<Parts> measured = parts_of(*evidence.record);
  std::map<std::string, std::pair<double, double>> by_part;  // sum over ranks, worst rank
  for (std::size_t r = 0; r < measured.size(); ++r) {
    const StepRank& same = rank_for(simulated, evidence.record->ranks[r]);
    Parts expected = model[static_cast<std::size_t>(&same - simulated.ranks.data())];
    for (const auto& [name, time_s] : measured[r]) expected.try_emplace(name, 0);
    for (const auto& [name, time_s] : expected) {
      const auto found = measured[r].find(name);
      const double z = z2(factor * time_s, found == measured[r].end() ? 0 : found->second);
      by_part[name].first += z / static_cast<double>(measured.size());
      by_part[name].second = std::max(by_part[name].second, z);
    }
  }
  for (const auto& [name, both] : by_part) sum += (both.first + both.second) / 2;
  return sum;
}

// ---- Fit -----------------------------------------------------------------------------------------------------------------------

class Diagnoser {
 public:
  Diagnoser(const Scenario& scenario, const StepEvidence& evidence, const ForecastOptions& options)
      : scenario_(scenario), evidence_(evidence), options_(options) {
    options_.explain = options_.perturbation_effects = false;
  }

  Result<Diagnosis> run() {
    const Result<ForecastRun> healthy = step(scenario_, known());
    if (!healthy) return tl::unexpected(healthy.error());
    const std::string far = far_off(evidence_.step_s, healthy->forecast.step_time_s, kMostSlower);
    if (!evidence_.record && !far.empty())
      return fail({"", 0, "measured step", fmt::format("{:.6g} s", evidence_.step_s), far});
    if (evidence_.record) {
      const StepRecord record = record_of(*healthy);
      const StepRecord known = evidence_.some_ranks ? with_recorded_ranks(record, *evidence_.record) : record;
      if (const Result<Comparison> same = compare(known, *evidence_.record, 1); !same)
        return tl::unexpected(same.error());
      rank_ = slowest(record);
      rank_text_ = fmt::format("rank {}", rank_);
    } else {
      choose_rank(healthy->plan);
    }
    Diagnosis out;
    out.measured_s = evidence_.step_s;
    out.forecast_s = healthy->forecast.step_time_s;
    out.band = healthy->forecast.band;
    out.ranks_known = evidence_.record ? static_cast<int>(evidence_.record->ranks.size()) : 0;
    scores_.clear();
    add_forecast_error(*healthy, out);
    if (out.measured_s > out.forecast_s)
      for (const CauseRow& cause : kCauses)
        if (cause.applies(scenario_)) add(cause, out);
    rank_by_score(out);
    return out;
  }

 private:
  bool known() const { return evidence_.record.has_value(); }

  double misfit(const ForecastRun& run, double factor) const {
    return known() ? misfit_of_parts(record_of(run), factor, evidence_) : 0;
  }

  Result<ForecastRun> step(const Scenario& scenario, bool spans) const {
    ForecastOptions options = options_;
    options.record_spans = spans;
    return forecast(scenario, options);
  }

  StepRecord record_of(const ForecastRun& run) const {
    return tracecast::record_of(run.graph, run.timeline, scenario_.name, StepOrigin::simulated);
  }

  /// Of the stage in the middle: ranks of stages with less work can be slower than this before the step is longer.
  void choose_rank(const Plan& plan) {
    Coordinates middle{};
    middle[Axis::pp] = plan.parallel.pp / 2;
    rank_ = plan.grid.rank(middle);
    rank_text_ = plan.parallel.pp == 1 ? "one rank"
                                       : fmt::format("one rank of pipeline stage {} (of 0 to {})", middle[Axis::pp],
                                                     plan.parallel.pp - 1);
  }

  /// The rank whose computation is longest relative to its forecast.
  int slowest(const StepRecord& healthy) const {
    const auto ratio = [&](const StepRank& rank) {
      return seconds(rank.time.compute) / std::max(1e-12, seconds(rank_for(healthy, rank).time.compute));
    };
    return std::ranges::max_element(evidence_.record->ranks, {}, ratio)->number;
  }

  void add_forecast_error(const ForecastRun& healthy, Diagnosis& out) {
    const double factor = evidence_.step_s / out.forecast_s;
    DiagnosedCause cause;
    cause.name = "forecast";
    cause.what = fmt::format("the forecast is wrong by {:+.1f} %: every part of the step takes {:.3g} times as long",
                             100 * (factor - 1), factor);
    cause.check = "calibrate with runs of one's own (tracecast calibrate --runs)";
    cause.size = std::abs(factor - 1);
    cause.step_s = evidence_.step_s;
    cause.misfit = misfit(healthy, factor);
    const double deviation = std::max(1e-3, deviation_of(out.band.p5_s, out.band.p95_s));
    scores_.push_back(-cause.misfit / 2 + log_normal(std::log(factor), deviation));
    out.causes.push_back(std::move(cause));
  }

  Scenario with(const CauseRow& row, double size) const {
    Scenario changed = scenario_;
    row.apply(changed, size, rank_);
    return changed;
  }

  /// A cause that cannot be simulated (a layout that forbids it) or changes nothing is left out.
  void add(const CauseRow& row, Diagnosis& out) {
    const std::optional<double> size = fit(row, out.forecast_s);
    if (!size) return;
    const Result<ForecastRun> run = step(with(row, *size), known());
    if (!run) return;
    DiagnosedCause cause;
    cause.name = row.name;
    cause.what = row.text(*size, rank_text_);
    cause.check = row.check;
    cause.size = *size;
    cause.step_s = run->forecast.step_time_s;
    if (cause.step_s < out.forecast_s * (1 + kLeast)) return;
    cause.misfit = misfit(*run, 1);
    const std::optional<double> density = log_density(row, cause, out);
    if (!density) return;
    cause.explains = std::abs(std::log(out.measured_s / cause.step_s)) <= 3 * error_of(row, cause, out);
    scores_.push_back(-cause.misfit / 2 + *density);
    out.causes.push_back(std::move(cause));
  }

  /// Standard deviation of the logarithm of a step that was simulated with a cause.
  static double error_of(const CauseRow& row, const DiagnosedCause& cause, const Diagnosis& d) {
    return row.largest == 0 ? std::hypot(kStepError, kEffectError * std::log(cause.step_s / d.forecast_s)) : kStepError;
  }

  /// Of the logarithm of the measured time (diagnosis.hpp).
  std::optional<double> log_density(const CauseRow& row, const DiagnosedCause& cause, const Diagnosis& d) const {
    const double rest = std::log(d.measured_s / cause.step_s);
    if (row.largest == 0) return log_normal(rest, error_of(row, cause, d)) - row.scale;
    const double unit = row.name == std::string("late_data") ? d.forecast_s : 1;
    const double x = std::log1p(cause.size / unit);
    const Result<ForecastRun> further = step(with(row, unit * std::expm1((1 + kFurther) * x)), false);
    if (!further) return std::nullopt;
    const double growth = std::log(further->forecast.step_time_s / cause.step_s);
    const double inverse_slope = kFurther * x / std::max(growth, kFurther * x / kFlattest);
    return std::log(inverse_slope / row.scale) - x / row.scale - squared(rest / kStepError) / 2;
  }

  /// The size with which the step takes the measured time, by regula falsi (Illinois): steps are nearly piecewise linear in it.
  std::optional<double> fit(const CauseRow& row, double healthy_s) const {
    if (row.largest == 0) return 0.0;
    const auto beyond = [&](double size) -> std::optional<double> {
      const Result<ForecastRun> run = step(with(row, size), false);
      if (!run) return std::nullopt;
      return run->forecast.step_time_s - evidence_.step_s;
    };
    double low = 0;
    double low_value = healthy_s - evidence_.step_s;
    // The smallest power of two that is too large: times far above the measured one may not be simulated.
    double high = row.largest / 1024;
    std::optional<double> high_value = beyond(high);
    while (high_value && *high_value < 0 && high < row.largest) {
      low = high;
      low_value = *high_value;
      high = std::min(2 * high, row.largest);
      high_value = beyond(high);
    }
    if (!high_value) return std::nullopt;
    if (*high_value < 0) return high;
    double above = *high_value;
    for (int i = 0; i < kMostSteps; ++i) {
      const double size = low + (high - low) * low_value / (low_value - above);
      const std::optional<double> value = beyond(size);
      if (!value) return std::nullopt;
      if (std::abs(*value) < kTolerance * evidence_.step_s) return size;
      if (*value < 0) {
        low = size;
        low_value = *value;
        above /= 2;
      } else {
        high = size;
        above = *value;
        low_value /= 2;
      }
    }
    return high;
  }

  void rank_by_score(Diagnosis& out) {
    std::vector<std::pair<double, DiagnosedCause>> all;
    for (std::size_t i = 0; i < scores_.size(); ++i) all.emplace_back(scores_[i], std::move(out.causes[i]));
    std::ranges::stable_sort(all, std::greater<>(), [](const auto& each) { return each.first; });
    double sum = 0;
    for (const auto& [score, cause] : all) sum += std::exp(score - all.front().first);
    out.causes.clear();
    out.indistinguishable = 0;
    for (auto& [score, cause] : all) {
      cause.likelihood = std::exp(score - all.front().first) / sum;
      if (kStrong * cause.likelihood >= 1 / sum) ++out.indistinguishable;
      out.causes.push_back(std::move(cause));
    }
  }

  static constexpr double kMostSlower = 100;    ///< times the forecast; milliseconds for seconds make 1000
  static constexpr double kStepError = 0.01;    ///< standard deviation of the logarithm of a simulated step
  static constexpr double kEffectError = 0.15;  ///< of the logarithm of an effect, relative to it (accuracy.md, levers)
  static constexpr double kFurther = 0.05;      ///< how much further a size is taken for the slope of the step
  static constexpr double kFlattest = 10;       ///< largest inverse slope: a step may not grow with the size at all
  static constexpr double kStrong = 10;         ///< ratio of likelihoods (docs/references.md#bayes-factors)
  static constexpr double kTolerance = 5e-4;    ///< of the measured time
  static constexpr double kLeast = 1e-3;        ///< by which a cause must lengthen the step
  static constexpr int kMostSteps = 20;

  const Scenario& scenario_;
  const StepEvidence& evidence_;
  ForecastOptions options_;
  int rank_ = 0;
  std::string rank_text_;  ///< in a sentence
  std::vector<double> scores_;
};

}  // namespace

Result<Diagnosis> diagnose(const Scenario& scenario, const StepEvidence& evidence, const ForecastOptions& options) {
  TRACECAST_ASSERT(evidence.step_s > 0, "a measured step takes time");
  return Diagnoser(scenario, evidence, options).run();
}

}  // namespace tracecast
