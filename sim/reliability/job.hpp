/// One history of a training job over weeks: failures, detection, repair, restarts, checkpoints, and where the time goes.
///
/// Model. The job runs steps; their time and tokens come from StepTimes. Every `interval_steps` steps it checkpoints.
/// Failures come from the processes of a FailureModel. A failure that stops the job costs, one after the other,
///
///   detection, diagnosis, waiting for a node if no spare is there (or the swap of a spare), restart (scheduler,
///   container, communicators, warm-up), load of the newest checkpoint that survived, and the work since it.
///
/// Nodes that fail during detection, diagnosis or waiting join the same outage; a failure during restart or load
/// begins another outage. Troubles that slow the machine act from the next step on. With elastic continuation a failed
/// node takes its data-parallel replica out of the job, which goes on without it until the node is replaced.
///
/// All times are ticks of 1 ns, and every tick goes to one entry of the waterfall, which therefore sums to the wall
/// time exactly.
///
/// Spares that wait may fail too (`spare_mtbf`): they go to repair, and the pool is that much smaller meanwhile.
///
/// Leaves out: a part's place in the machine depends not on its age; failures of the storage beyond
/// its speed; two nodes of one replica that fail at different times cost that replica once.
/// Source: DOMAIN.md 7.2 to 7.6.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/reliability/failure_model.hpp"
#include "sim/reliability/job_time.hpp"
#include "sim/reliability/step_times.hpp"

namespace tracecast {

/// Which failures a copy of the checkpoint outlives.
enum class Survives {
  restart,   ///< the memory of the own host: any failure that takes no node out
  one_node,  ///< a copy in the memory of a peer: the loss of one node at a time
  anything,  ///< remote storage
};
const char* to_string(Survives survives);

/// One level of checkpointing. A synchronous checkpoint has stall only; an asynchronous one stalls for the copy to the
/// host and is safe `persist` later.
struct CheckpointTier {
  std::string name = "storage";
  int every = 1;      ///< takes part in every n-th checkpoint
  JobTime stall{};    ///< the job stands
  JobTime persist{};  ///< in the background, after the stall; the next one waits for it
  JobTime load{};     ///< to read it back
  Survives survives = Survives::anything;
  bool operator==(const CheckpointTier&) const = default;
};

struct CheckpointPolicy {
  std::int64_t interval_steps = 0;  ///< 0: no checkpoints, every failure goes back to the beginning
  std::vector<CheckpointTier> tiers{};
  bool operator==(const CheckpointPolicy&) const = default;
};

enum class Elastic {
  off,
  shrink_batch,  ///< the step keeps its time, the batch loses the replica's part
  keep_batch,    ///< the remaining replicas take more micro-batches
};
const char* to_string(Elastic elastic);

struct RecoveryPolicy {
  JobTime crash_detection{};             ///< a process that died is noticed after this
  JobTime collective_timeout{};          ///< a hang is noticed after this by the communication library, or earlier by
  JobTime watchdog_poll{};               ///<   polling the job's progress every `watchdog_poll` (0: nobody polls)
  JobTime watchdog_threshold{};          ///<   for a standstill of at least this
  JobTime diagnosis{};                   ///< finding and evicting what failed
  JobTime scheduler{};                   ///< until processes start
  JobTime container{};                   ///< image, imports, compilation
  JobTime communicators{};               ///< bootstrap of the communication library
  JobTime communicators_per_1k_ranks{};  ///< added for every 1000 GPUs of the job
  JobTime warm_up{};                     ///< first steps that are slower
  int spares = 0;                        ///< nodes that wait for a failure
  bool hot_spares = false;               ///< with processes started: a swap needs no scheduler and no container
  JobTime spare_swap{};
  JobTime spare_mtbf{};  ///< of one idle spare, exponential, noticed at once; 0: spares do not fail
  Law repair{LawKind::exponential, 86400, 1};  ///< until a failed node is back, as a spare
  Elastic elastic = Elastic::off;
  JobTime reconfigure{};                 ///< leaving out or taking back a replica
  bool elastic_rollback = false;         ///< the lost replica held states that nobody else has (ZeRO without copies)
  JobTime flap_budget = job_time(30.0);  ///< transport retries, DOMAIN.md 7.6
  bool failures_in_restart = true;       ///< false: parts do not age while the job stands
  bool operator==(const RecoveryPolicy&) const = default;
};

/// From `from_tokens` on, steps have `global_batch` sequences.
struct BatchRamp {
  std::int64_t from_tokens = 0;
  std::int64_t global_batch = 0;
  bool operator==(const BatchRamp&) const = default;
};

/// What the course of the training does to the job's time.
struct TrainingCourse {
  std::vector<BatchRamp> ramp{};                 ///< ascending; empty: the scenario's batch throughout
  std::vector<std::int64_t> spikes_at_tokens{};  ///< loss spikes at these points of the data, ascending
  int spike_notice_steps = 0;                    ///< of those: steps run until it is noticed
  int spike_rollback_steps = 0;                  ///< of those: steps before it that are run again
  std::int64_t target_tokens = 0;                ///< the history ends when so much has been trained (0: no target)
  bool operator==(const TrainingCourse&) const = default;
};

struct JobSpec {
  Machine machine{};
  int replicas = 1;           ///< data-parallel degree
  int replicas_per_node = 1;  ///< replicas that have ranks on one node
  FailureModel failures{};
  RecoveryPolicy recovery{};
  CheckpointPolicy checkpoint{};
  TrainingCourse course{};
  JobTime horizon{};  ///< the history ends here (0: never), or at the target of the course
};

/// Where wall time goes.
enum class Spent {
  productive,  ///< what a healthy machine would have needed for the progress that lasted
  degraded,    ///< what the same progress took longer because the machine was not healthy
  checkpoint,  ///< standing for checkpoints
  lost,        ///< work that was done and thrown away
  detection,
  diagnosis,
  waiting,  ///< for a spare or a repaired node
  restart,
  load,
  planned,
};
inline constexpr int kSpent = 10;
const char* to_string(Spent spent);

using Waterfall = std::array<JobTime, kSpent>;
JobTime total(const Waterfall& waterfall);

/// One stretch of a history. Running stretches (Spent::productive) include degraded running, checkpoints and work that
/// is lost later.
struct JobSpan {
  JobTime begin{};
  JobTime end{};
  Spent spent = Spent::productive;
  std::string cause;  ///< kind of failure that began the outage, or ""
};

struct History {
  JobTime wall;
  std::int64_t tokens = 0;  ///< progress that lasted
  std::int64_t steps = 0;
  Waterfall spent{};
  std::vector<int> events;  ///< [kind of the model]: how often it struck
  int interruptions = 0;    ///< outages that were not planned
  int checkpoints = 0;
  int spare_failures = 0;      ///< of spares while they waited
  std::vector<JobSpan> spans;  ///< when asked for
  double goodput() const;      ///< productive / wall
};

/// One line for an impossible spec (no end, an interval without tiers …).
Result<void> check(const JobSpec& spec);

/// History number `history` of the job under `seed`. Deterministic; independent of every other history.
/// Errors: those of the step times.   Requires check(spec).
Result<History> simulate_history(const JobSpec& spec, const StepTimes& steps, std::uint64_t seed, std::uint32_t history,
                                 bool record_spans = false);

}  // namespace tracecast
