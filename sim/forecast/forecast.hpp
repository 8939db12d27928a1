/// \file
/// The forecast of one step of a scenario, and the function that runs the whole pipeline:
/// scenario -> plan -> schedule -> step graph -> engine -> timeline -> forecast.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/engine/simulate.hpp"
#include "sim/engine/timeline.hpp"
#include "sim/forecast/axis_bandwidth.hpp"
#include "sim/io/scenario.hpp"
#include "sim/network/flow_cost.hpp"
#include "sim/plan/memory.hpp"
#include "sim/plan/plan.hpp"

namespace tracecast {

struct Band {
  double p5_s = 0;
  double p50_s = 0;
  double p95_s = 0;
};

/// One cause on the critical path, and the step time without it.
struct Cause {
  std::string name;   ///< "attention", "tensor parallel communication", "pipeline bubble" …
  std::string links;  ///< of communication: "nvlink and network"
  double on_critical_path_s = 0;
  double step_without_s = 0;  ///< simulated with zero time for this cause
};

/// One part of the `perturb` of a scenario, and the step time without this part; of many parts, the step with this part alone.
struct PerturbationEffect {
  std::string what;  ///< "rank 37 computes 1.3 times as long"
  std::optional<double> step_without_s{};
  std::optional<double> step_alone_s{};
};

/// parallel.data_parallel = parameter_averaging: the steps of a period. In `steps` of every `period` steps a part of the model
/// travels between replicas, the others have no traffic between them. The forecast's times and causes are the means of a period;
/// graph, timeline and spans are those of a step that averages. Nothing is said about the loss.
struct Averaging {
  int period = 1;
  int steps = 1;
  int replicas = 1;
  double local_step_s = 0;      ///< without averaging
  double averaging_step_s = 0;  ///< with it
  double sent_bytes = 0;        ///< by one GPU in a period
  double transfer_s = 0;        ///< in a period, each transfer by itself
  double waited_s = 0;          ///< of a period: the mean rank's wait for them
};

/// training.documents: steps with batches of packed documents. The forecast's times are means of the steps; graph, timeline,
/// spans and causes are those of the step whose time is nearest to the mean.
struct PackedForecast {
  int steps = 0;  ///< simulated
  double p5_s = 0;
  double p95_s = 0;
  /// The step if all micro-batches took the mean time: the rest of the mean is imbalance. 0 with packing dynamic_cp.
  double balanced_s = 0;
  double useful_share = 0;  ///< of the tokens processed, those that are not padding
  double useful_tokens_per_s = 0;
  double dropped_share = 0;  ///< of the tokens of documents, those that did not fit into a sequence
  double mean_length = 0;    ///< tokens of a document as packed
  double attended = 1;       ///< pairs of query and key within documents, over those of whole sequences
};

/// Another job on the machine: its step together with all other jobs, and alone on its nodes.
struct CoLocatedJob {
  std::string name;
  double step_s = 0;
  double alone_s = 0;
};

struct Forecast {
  std::string scenario;
  int ranks = 0;
  double step_time_s = 0;
  Band band;
  double tokens_per_step = 0;
  double tokens_per_s = 0;
  FlopsConvention flops_convention = FlopsConvention::model_full_attn;
  double model_tflops_per_gpu = 0;
  double mfu = 0;
  double hfu = 0;
  double bubble_fraction = 0;                     ///< mean over ranks
  std::optional<double> schedule_bubble;          ///< of the schedule alone (schedule_runs.hpp); set by the caller
  std::array<double, kTrafficKinds> exposed_s{};  ///< mean over ranks
  /// Mean over ranks, by operator kind, recomputation included; and `contention`, what transfers added to all kinds.
  std::map<std::string, double> compute_s;
  double host_s = 0;
  double optimizer_s = 0;
  std::vector<MemoryByKind> memory;  ///< per pipeline rank
  Bytes memory_capacity;
  Bytes host_peak;        ///< offloaded by one GPU to its host's memory, at most
  Bytes host_used;        ///< by all GPUs of the fullest host together
  Bytes host_capacity;    ///< of one host; 0: not known
  bool fits_gpus = true;  ///< in the memory of the GPUs
  bool fits = true;       ///< and in that of the hosts, where it is known
  int tightest_pp_rank = 0;
  int peak_rank = 0;                              ///< global rank number of the rank with the highest peak
  std::vector<AxisBandwidth> bandwidth;           ///< that each parallel axis requires of its links
  std::map<std::string, double> provenance;       ///< measured, interpolated, analytic: shares of compute time
  std::vector<Cause> causes;                      ///< filled with ForecastOptions::explain
  std::vector<PerturbationEffect> perturbations;  ///< filled with perturbation_effects
  double undisturbed_step_s = 0;                  ///< with perturbations: the step time without all of them
  std::optional<Averaging> averaging;             ///< with parameter_averaging every few steps
  std::optional<PackedForecast> packed;           ///< with training.documents
  std::vector<CoLocatedJob> co_located;           ///< the other jobs of forecast_colocated()
  bool flushes = true;  ///< false: the schedule is asynchronous; the forecast step still fills and drains its pipeline
  int classes = 0;
  std::int64_t events = 0;
  double wall_s = 0;  ///< set by the caller
  double peak_rss_mib = 0;
};

/// Share of the tokens of a step that count towards training.train_tokens: padding does not. Of a data set (dataset_samples)
/// whole sequences count.
double counted_share(const Forecast& forecast, const Training& training);

struct ForecastOptions {
  FlopsConvention flops_convention = FlopsConvention::model_full_attn;
  bool unfold = false;
  bool record_spans = false;
  bool explain = false;
  bool perturbation_effects = false;
  int threads = 1;
  NetworkKind network = NetworkKind::fluid;  ///< fluid and simgrid use one thread; simgrid simulates every rank
  bool transfers_slow_compute = true;        ///< engine/gpu_sharing.hpp
  Duration longest{};  ///< EngineOptions::longest; of a step that is given up there is no forecast
};

/// How the engine simulates the step of this scenario.
EngineOptions engine_of(const Scenario& scenario, const ForecastOptions& options);

/// A forecast with its intermediate values, for pictures and traces.
struct ForecastRun {
  Plan plan;
  Schedule schedule;
  StepNetwork network;  ///< on which the step was simulated
  StepGraph graph;
  Timeline timeline;
  Forecast forecast;
};

/// Errors: those of make_plan and make_schedule, with scenario keys.
Result<ForecastRun> forecast(const Scenario& scenario, const ForecastOptions& options = {});

/// Which nodes of a machine co-located jobs take. Ranks keep their rails: jobs take whole nodes.
enum class JobPlacement {
  interleaved,  ///< a node each in turn, beginning with the first job, until a job has all of its nodes
  compact,      ///< one job after the other
  spread,       ///< each job takes nodes from all units of the lowest tier in turn
};
template <>
struct EnumNames<JobPlacement> {
  static constexpr NamedValue<JobPlacement> table[] = {
      {JobPlacement::interleaved, "interleaved"}, {JobPlacement::compact, "compact"}, {JobPlacement::spread, "spread"}};
};

/// Forecast of `job` while the others run on other nodes of its machine (colocated.hpp). Its perturbation is the step time
/// without the other jobs, on the same nodes. Without causes and effects of its own perturbations.
/// Requires others, and a network with shared links. Errors: those of forecast(); jobs on different machines; missing GPUs;
/// several sites; packed documents; too few nodes for all.
Result<ForecastRun> forecast_colocated(Scenario job, std::vector<Scenario> others, const ForecastOptions& options,
                                       JobPlacement placement = JobPlacement::interleaved);

}  // namespace tracecast
