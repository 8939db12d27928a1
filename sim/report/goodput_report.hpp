/// Everything `goodput` says about one job: the composition of a scenario, a failure file and the job simulation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/failure_file.hpp"
#include "sim/io/incident_log.hpp"
#include "sim/io/scenario.hpp"
#include "sim/reliability/checkpoint_layout.hpp"
#include "sim/reliability/goodput.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

struct GoodputRequest {
  Scenario scenario;
  FailureFile failures;
  double days = 54;
  double mtbf_s = 0;              ///< of the job: all failure rates are scaled to give this; 0: as the model says
  double step_time_s = 0;         ///< of the healthy machine, measured; 0: the engine's
  std::int64_t goal_tokens = 0;   ///< for time and cost to finish; 0: not asked
  double price_per_gpu_hour = 0;  ///< 0: no price
  bool find_best_interval = true;
  std::vector<FittedKind> fits;            ///< when the failures were fitted to a log
  std::optional<ShardLayout> resume_from;  ///< layout of the checkpoint that the run begins with
  GoodputOptions options;
};

/// Where the bandwidth of the storage comes from.
enum class StorageFrom {
  failures,  ///< the failure model's file, or --set
  topology,
  assumed,  ///< 1 GB/s for each node
};
const char* to_string(StorageFrom from);

/// Beginning with a checkpoint of another layout.
struct Resume {
  ShardLayout from;
  ShardLayout to;
  ReshardRead read;
  double same_layout_s = 0;   ///< load as after a failure
  double slices_s = 0;        ///< when shards can be read in part: the same bytes
  double whole_shards_s = 0;  ///< when they cannot
};

struct GoodputReport {
  std::string scenario;
  std::string failures;
  Machine machine;
  JobSpec spec;  ///< as simulated
  StepTime healthy;
  CheckpointShape shape;
  CheckpointSettings checkpoint;  ///< with the storage that was used
  StorageFrom storage_from = StorageFrom::failures;
  double interval_s = 0;  ///< of work between checkpoints, 0: none
  double mtbf_s = 0;      ///< of the job, infinity when nothing fails
  double restart_s = 0;   ///< crash with a spare at hand: from the failure to the first step
  Goodput goodput;
  History sample;      ///< history 0, with its spans
  double young_s = 0;  ///< closed forms for the mean stall; 0 without checkpoints or failures
  double daly_s = 0;
  double optimal_s = 0;
  double closed_goodput = 0;  ///< Daly's expectation at interval_s, crashes only
  std::optional<BestInterval> best;
  std::int64_t goal_tokens = 0;
  Estimate goal_days;
  double goal_gpu_hours = 0;
  double goal_price = 0;  ///< 0: no price
  std::vector<FittedKind> fits;
  std::optional<Resume> resume;
  std::vector<std::pair<MachineState, StepTime>> states;  ///< that the engine was asked about
  double tokens_per_s() const;                            ///< of the healthy machine
};

/// Errors: those of forecast(), of the job's check, an interval shorter than a step is one step.
Result<GoodputReport> forecast_goodput(const GoodputRequest& request);

/// The page of the terminal.
std::string goodput_page(const GoodputReport& report, const TextStyle& style);
/// One JSON object, newline at the end; docs/formats/goodput.md.
std::string goodput_json(const GoodputReport& report);

/// One point of a sweep.
struct SweepPoint {
  std::string value;
  GoodputReport report;
};
std::string sweep_page(const std::string& key, const std::vector<SweepPoint>& points, const TextStyle& style);
std::string sweep_json(const std::string& key, const std::vector<SweepPoint>& points);

}  // namespace tracecast
