/// \file
/// One history of a training job over weeks: failures, repair, restarts, checkpoints, and where the time goes.
///
/// Model. The job runs steps; StepTimes gives their time and tokens. After every `interval_steps` steps it takes a
/// checkpoint. Failures come from the processes of a FailureModel. A failure that stops the job costs, in this order:
///
///   detection, diagnosis, waiting for a repaired node (or the swap of a spare), restart (scheduler, container,
///   communicators, warm-up), load of the newest checkpoint that survived, and the work since that checkpoint.
///
/// Nodes that fail during detection, diagnosis or waiting join the same outage. A failure during restart or load begins
/// the outage anew. A degradation slows the machine from the next step on. With elastic continuation the replica of a
/// failed node leaves the job, and the job continues without it until the node is replaced. Idle spares can fail too
/// (`spare_mtbf`): they go to repair, and the pool is smaller meanwhile.
///
/// Times are ticks of 1 ns. Every tick belongs to one category of the waterfall, which therefore sums to the wall
/// time exactly.
///
/// Leaves out: failures that depend on where a part is in the machine; failures of the storage other than low speed.
/// Two nodes of one replica that fail at different times cost that replica once.
/// Source: docs/references.md#failure-timeline, docs/references.md#spares, docs/references.md#checkpoint-size
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/base/result.hpp"
#include "sim/base/units.hpp"
#include "sim/reliability/failure_model.hpp"
#include "sim/reliability/job_time.hpp"
#include "sim/reliability/step_times.hpp"

namespace tracecast {

/// Which failures a copy of the checkpoint survives.
enum class Survives {
  restart,   ///< in the memory of its own host: failures that leave the node up
  one_node,  ///< in the memory of a peer: the loss of one node at a time
  anything,  ///< remote storage
};
template <>
struct EnumNames<Survives> {
  static constexpr NamedValue<Survives> table[] = {
      {Survives::restart, "restart"}, {Survives::one_node, "one-node"}, {Survives::anything, "anything"}};
};

/// One level of checkpointing. A synchronous checkpoint has a stall only; an asynchronous one stalls for the copy to
/// the host and is safe after another `persist`.
struct CheckpointTier {
  std::string name = "storage";
  int every = 1;      ///< takes part in every n-th checkpoint
  int keep = 32;      ///< newest copies that are kept; of older ones storage keeps as many of every 2nd, 4th, 8th …
  JobTime stall{};    ///< the job waits
  JobTime persist{};  ///< in the background, after the stall; the next one waits for it
  JobTime load{};     ///< to read it back
  Survives survives = Survives::anything;
  bool operator==(const CheckpointTier&) const = default;
};

struct CheckpointPolicy {
  std::int64_t interval_steps = 0;  ///< 0: no checkpoints, every failure loses all progress
  std::vector<CheckpointTier> tiers{};
  bool operator==(const CheckpointPolicy&) const = default;
};

enum class Elastic {
  off,
  shrink_batch,  ///< the step takes as long, the batch loses the share of the replica
  keep_batch,    ///< the remaining replicas take more micro-batches
};
template <>
struct EnumNames<Elastic> {
  static constexpr NamedValue<Elastic> table[] = {
      {Elastic::off, "off"}, {Elastic::shrink_batch, "shrink-batch"}, {Elastic::keep_batch, "keep-batch"}};
};

/// What an idle node has done already when it replaces a failed one.
enum class SpareState {
  cold,  ///< nothing: the whole job starts as for the first time
  warm,  ///< it is allocated and has the image: no scheduler and no container
  hot,   ///< its processes wait for the job, and those of the other nodes live on: only communicators and warm-up
};
template <>
struct EnumNames<SpareState> {
  static constexpr NamedValue<SpareState> table[] = {
      {SpareState::cold, "cold"}, {SpareState::warm, "warm"}, {SpareState::hot, "hot"}};
};

struct RecoveryPolicy {
  JobTime crash_detection{};                     ///< a process that died is noticed after this
  JobTime collective_timeout = job_time(600.0);  ///< the communication library notices a hang (PyTorch's default)
  JobTime watchdog_poll{};               ///< a watchdog checks the progress of the job this often (0: no watchdog)
  JobTime watchdog_threshold{};          ///< and reports a hang after this long without progress
  JobTime diagnosis{};                   ///< finding and removing what failed
  JobTime scheduler{};                   ///< until processes start
  JobTime container{};                   ///< image, imports, compilation
  JobTime start_per_1k_ranks{};          ///< images, imports and checks: added for every 1000 GPUs of the job
  JobTime communicators{};               ///< bootstrap of the communication library
  JobTime communicators_per_1k_ranks{};  ///< added: this x (GPUs / 1000)^communicators_exponent
  double communicators_exponent = 1;
  JobTime warm_up{};  ///< first steps that are slower
  int spares = 0;     ///< idle nodes that can replace failed ones (recovery.spares; enough_spares())
  SpareState spare_state = SpareState::cold;
  JobTime spare_swap{};
  JobTime spare_mtbf{};  ///< of one idle spare, exponential, noticed at once; 0: spares do not fail
  Law repair{LawKind::exponential, kSecondsPerDay, 1};  ///< until a failed node is back, as a spare
  Elastic elastic = Elastic::off;
  JobTime reconfigure{};  ///< for a replica to leave or rejoin
  /// With elastic: a failure that takes no node (software, a cable) restarts the processes of one replica, and the others go
  /// on. Else it restarts the whole job.
  bool replica_restart = false;
  bool elastic_rollback = false;         ///< a lost node held states without a copy (states_survive_node())
  JobTime flap_budget = job_time(30.0);  ///< transport retries, docs/references.md#failure-timeline
  bool failures_in_restart = true;       ///< false: parts do not age during an outage
  bool operator==(const RecoveryPolicy&) const = default;
};

/// Bootstrap of the communication library on this machine.
JobTime communicator_time(const RecoveryPolicy& recovery, const Machine& machine);
/// From the decision to restart to the load of the checkpoint. `spare`: what the nodes that replace others have done
/// before; cold without such nodes.
JobTime restart_time(const RecoveryPolicy& recovery, const Machine& machine, SpareState spare);
/// Spares with which more nodes are in repair in at most 0.1 % of the time (docs/references.md#spares): for each number
/// of nodes that fail together, the number of such groups in repair is Poisson distributed (M/G/infinity). Idle spares are
/// in repair for repair / (spare_mtbf + repair) of the time.
int enough_spares(const FailureModel& failures, const Machine& machine, const RecoveryPolicy& recovery);

/// From `from_tokens` on, steps have `global_batch` sequences.
struct BatchRamp {
  std::int64_t from_tokens = 0;
  std::int64_t global_batch = 0;
  bool operator==(const BatchRamp&) const = default;
};

/// Events of the training itself that change the time of the job.
struct TrainingCourse {
  std::vector<BatchRamp> ramp{};                 ///< ascending; empty: the scenario's batch throughout
  std::vector<std::int64_t> spikes_at_tokens{};  ///< a loss spike occurs at each of these, ascending
  int spike_notice_steps = 0;                    ///< steps until a spike is noticed
  int spike_rollback_steps = 0;                  ///< steps before a spike that are run again
  std::int64_t target_tokens = 0;                ///< the history ends with these (0: no target)
  bool operator==(const TrainingCourse&) const = default;
};

struct JobSpec {
  Machine machine{};
  int replicas = 1;           ///< data-parallel degree
  int replicas_per_node = 1;  ///< replicas that have ranks on one node
  int replicas_together = 1;  ///< replicas that leave and rejoin together; divides `replicas`
  FailureModel failures{};
  RecoveryPolicy recovery{};
  CheckpointPolicy checkpoint{};
  TrainingCourse course{};
  JobTime horizon{};  ///< the history ends here (0: no limit), or at the target of the course
};

/// Where wall time goes.
enum class TimeCategory {
  productive,  ///< what a healthy machine needs for the progress that was kept
  degraded,    ///< the extra time of the same progress on a degraded machine
  checkpoint,  ///< stalled while checkpointing
  lost,        ///< work that was done and discarded
  detection,
  diagnosis,
  waiting,  ///< for a spare or a repaired node
  restart,
  load,
  planned,
};
inline constexpr int kTimeCategories = 10;
template <>
struct EnumNames<TimeCategory> {
  static constexpr NamedValue<TimeCategory> table[] = {{TimeCategory::productive, "productive"},
                                                       {TimeCategory::degraded, "degraded"},
                                                       {TimeCategory::checkpoint, "checkpoint"},
                                                       {TimeCategory::lost, "lost work"},
                                                       {TimeCategory::detection, "detection"},
                                                       {TimeCategory::diagnosis, "diagnosis"},
                                                       {TimeCategory::waiting, "waiting for spares"},
                                                       {TimeCategory::restart, "restart"},
                                                       {TimeCategory::load, "load"},
                                                       {TimeCategory::planned, "planned"}};
};

using Waterfall = std::array<JobTime, kTimeCategories>;
JobTime total(const Waterfall& waterfall);

/// A time span of a history. While the job runs the category is TimeCategory::productive, which then includes degraded
/// running, checkpoints and work that is lost later.
struct JobSpan {
  JobTime begin{};
  JobTime end{};
  TimeCategory category = TimeCategory::productive;
  std::string cause;  ///< kind of failure that began the outage, or ""
};

struct History {
  JobTime wall;
  std::int64_t tokens = 0;  ///< progress that was kept
  std::int64_t steps = 0;
  Waterfall waterfall{};
  std::vector<int> events;  ///< [kind of the model]: how often it occurred
  int interruptions = 0;    ///< unplanned outages
  std::int64_t checkpoints = 0;
  std::vector<JobSpan> spans;  ///< if recorded
  double goodput() const;      ///< productive / wall
};

/// Time that a machine without failures needs for the first `tokens` of the course. Errors: those of the step times.
Result<double> healthy_time_s(const TrainingCourse& course, const StepTimes& steps, double tokens);

/// Errors: no end; checkpoints without a tier; a failure without a mean time or with a speed outside (0, 1]; more than 100,000
/// failures expected in one history.
Result<void> check(const JobSpec& spec);

/// History number `history` of the job under `seed`. Deterministic and independent of every other history.
/// Errors: those of the step times.   Requires check(spec).
Result<History> simulate_history(const JobSpec& spec, const StepTimes& steps, std::uint64_t seed, std::uint32_t history,
                                 bool record_spans = false);

}  // namespace tracecast
