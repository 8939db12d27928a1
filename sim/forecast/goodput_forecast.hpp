/// \file
/// Goodput of a job over days: a scenario, a failure file and the job simulation combined. Step times come from the
/// engine.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/base/result.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/io/failure_file.hpp"
#include "sim/io/incident_log.hpp"
#include "sim/io/scenario.hpp"
#include "sim/plan/parameter_states.hpp"
#include "sim/reliability/checkpoint_layout.hpp"
#include "sim/reliability/goodput.hpp"

namespace tracecast {

struct GoodputRequest {
  Scenario scenario;
  FailureFile failures;
  double days = 54;
  bool lengthen_histories = false;  ///< where `days` are too few for a goodput that holds longer (goodput_holds_longer)
  double mtbf_s = 0;              ///< of the job: all failure rates are scaled to give this; 0: the rates of the model
  double step_time_s = 0;         ///< of the healthy machine, measured; 0: the engine computes it
  std::int64_t goal_tokens = 0;   ///< for time and cost to finish; 0: not requested
  double price_per_gpu_hour = 0;  ///< US dollars of rent; 0: no price
  bool find_best_interval = true;
  std::vector<FittedKind> fits;            ///< if the failures were fitted to a log
  std::optional<ShardLayout> resume_from;  ///< layout of the checkpoint that the run starts from
  GoodputOptions options;
  const ForecastRun* step = nullptr;  ///< forecast of the scenario, if there is one already
};

/// Source of the bandwidth of the storage.
enum class StorageFrom {
  failures,  ///< the failure model's file, or --set
  topology,
  assumed,  ///< 1 GB/s per node
};
template <>
struct EnumNames<StorageFrom> {
  static constexpr NamedValue<StorageFrom> table[] = {
      {StorageFrom::failures, "failures"}, {StorageFrom::topology, "topology"}, {StorageFrom::assumed, "assumed"}};
};

/// A start from a checkpoint of another layout.
struct Resume {
  ShardLayout from;
  ShardLayout to;
  ReshardRead read;
  double same_layout_s = 0;   ///< load time as after a failure
  double slices_s = 0;        ///< load time if shards can be read in part
  double whole_shards_s = 0;  ///< load time if they cannot
};

/// Memory that the layout of the job needs, and that there is.
struct MemoryNeed {
  bool fits_gpus = true;
  bool fits = true;     ///< the GPUs, and the hosts where their memory is known
  Bytes peak;           ///< of the GPU with the least left
  Bytes capacity;       ///< of a GPU, usable
  Bytes host_used;      ///< of the fullest host
  Bytes host_capacity;  ///< 0: not known
};

struct GoodputForecast {
  std::string scenario;
  std::string failures;
  Machine machine;
  JobSpec spec;                      ///< as simulated
  std::optional<MemoryNeed> memory;  ///< nothing: the step is measured, so the layout fits
  StepTime healthy;
  SavedState saved;  ///< of the scenario's model and optimizer
  CheckpointShape shape;
  CheckpointSettings checkpoint;  ///< with the storage that was used
  StorageFrom storage_from = StorageFrom::failures;
  double interval_s = 0;           ///< of work between checkpoints, 0: none
  double mtbf_s = 0;               ///< of the job; infinity without failures
  double restart_s = 0;            ///< crash with an idle spare: from the failure to the first step
  bool spares_given = true;        ///< else enough_spares()
  bool rollback_given = false;     ///< elastic_rollback is from the file, else it follows from the layout
  bool reconfigure_given = false;  ///< recovery.reconfigure is from the file, else as long as a hot spare takes to join
  bool states_survive = true;      ///< states_survive_node(); true without elastic continuation
  Goodput goodput;
  History sample;      ///< history 0, with its spans
  double young_s = 0;  ///< closed forms for the mean stall; 0 without checkpoints or failures
  double daly_s = 0;
  double optimal_s = 0;
  double closed_goodput = 0;  ///< Daly's expectation at interval_s, crashes only; 0 with elastic continuation as well
  std::optional<BestInterval> best;
  double effective_tokens_per_s = 0;  ///< including failures, at the batches of the ramp that the histories reached
  std::int64_t goal_tokens = 0;       ///< without padding
  /// The mean length of the histories, if all of them end at these tokens; else the healthy time over the goodput. 0: not
  /// known, since histories of another length have another goodput (goodput_holds_longer).
  double goal_days = 0;
  /// From the band of the step, unless its time is measured, and the days of the histories: of a few long outages the mean may
  /// be beyond P90.
  double goal_days_p10 = 0;
  double goal_days_p90 = 0;
  double goal_gpu_hours = 0;  ///< of the GPUs that work
  double goal_usd = 0;        ///< of these, spare nodes and the rest of their hosts (paid_gpus); 0: no price
  std::vector<FittedKind> fits;
  std::optional<Resume> resume;
  std::vector<std::pair<MachineState, StepTime>> states;  ///< that the engine simulated
  bool fits_memory() const { return !memory || memory->fits; }
  double tokens_per_s() const;  ///< of the healthy machine, at the scenario's batch
  /// Does the goodput hold for runs that are longer or shorter than the histories? Only if nothing fails, or if histories
  /// have many checkpoints: work since the last one counts as done where a history ends.
  bool goodput_holds_longer() const;
  std::string why_no_goal() const;  ///< where goal_days is 0, although tokens are given
};

/// A checkpoint interval shorter than a step is one step. Errors: those of forecast() and of check(JobSpec).
Result<GoodputForecast> forecast_goodput(const GoodputRequest& request);

}  // namespace tracecast
