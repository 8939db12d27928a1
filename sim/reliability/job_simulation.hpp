/// \file
/// The state machine inside simulate_history (job.hpp). Every state has its own data and a function that advances it.
///
///   Running       runs steps: job_running.cpp
///   Checkpointing  stalls for a checkpoint: job_running.cpp
///   LinkDown       waits for a flapping link, then goes on with what it interrupted: job_running.cpp
///   Outage         does not run, phase by phase: job_outage.cpp
///   Ended
///
/// A job that runs advances to the next event or to the end of what it is doing, whichever comes first. Then the
/// event changes the state (job_events.cpp). Checkpoints, planned stops, rollbacks after loss spikes and the return of
/// replicas begin between two steps.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "sim/reliability/checkpoint_store.hpp"
#include "sim/reliability/failure_processes.hpp"
#include "sim/reliability/job.hpp"

namespace tracecast {

/// One step of the machine in one condition.
struct StepRate {
  JobTime step;
  std::int64_t tokens = 0;
  JobTime healthy;  ///< what a healthy machine needs for these tokens
};

/// An event that was set off earlier.
struct Timer {
  enum class What { repaired, replica_back, degradation_end, corruption_noticed, spare_fails };
  JobTime at;
  What what = What::repaired;
  int kind = -1;  ///< of the degradation or corruption
};

/// The step in progress keeps the rate it began with. Between two steps `done` is zero.
struct Running {
  JobTime done;
  StepRate rate;
};

struct Checkpointing {
  JobTime stall_left;
};

struct LinkDown {
  JobTime until;
  std::variant<Running, Checkpointing> interrupted;
};

enum class OutagePhase {
  detection,
  diagnosis,
  waiting,      ///< for a spare or a repaired node
  restart,      ///< of the whole job
  load,         ///< of a checkpoint
  shrink,       ///< the replicas of failed nodes leave the job (elastic continuation)
  rejoin,       ///< replicas whose nodes are back return (elastic continuation)
  save,         ///< a checkpoint on all levels before a planned stop
  maintenance,  ///< the planned stop itself
};

/// The processes of the job are up: a failure in such a phase begins the outage anew.
bool is_fragile(OutagePhase phase);

struct Outage {
  OutagePhase phase = OutagePhase::detection;
  JobTime until;                    ///< end of the phase
  int cause = -1;                   ///< kind of failure that began it
  Damage damage{};                  ///< of all failures so far
  int missing = 0;                  ///< nodes to replace before the job can restart
  int restarting = 0;               ///< nodes that stay, whose replica restarts (replica_restart)
  std::vector<int> failed_nodes{};  ///< missing and restarting ones, by number (elastic continuation)
  bool swapped = false;             ///< a spare took part
};

struct Ended {};

class JobSimulation {
 public:
  JobSimulation(const JobSpec& spec, const StepTimes& steps, std::uint64_t seed, std::uint32_t history, bool record);

  Result<History> run();

 private:
  // States.
  Result<void> advance(Running running);
  void advance(Checkpointing checkpointing);
  void advance(LinkDown link);
  void advance_outage();
  void end_history();

  // Running.
  Result<void> run_steps(JobTime until);
  bool run_cycles(JobTime until, const StepRate& rate);
  void continue_step(Running running);
  void count_steps(std::int64_t n, const StepRate& rate);
  void reach_event();
  void run_to(JobTime until);
  bool checkpoint_is_due() const;
  bool target_is_reached() const;
  std::int64_t steps_to_next_change(const StepRate& rate) const;
  Result<StepRate> current_rate();
  Result<StepRate> rate_of(const MachineState& machine) const;
  MachineState machine_state() const;
  /// Replicas that cannot go on without these nodes.
  int replicas_of_nodes(const std::vector<int>& nodes) const;
  std::int64_t global_batch() const;
  double storage_speed() const;
  Progress progress() const;
  const Running* step_in_progress() const;

  // Events.
  JobTime next_event() const;
  JobTime next_stop() const { return std::min(next_event(), end_); }
  JobTime next_timer() const;
  void set_timer(const Timer& timer);
  void handle_events();
  void handle_timer(const Timer& timer);
  void on_node_ready();
  void expect_spare_failure();
  void on_spare_failure();
  void on_failure(int kind);
  bool is_already_down(const FailureKind& kind, RandomStream& random);
  void on_link_flap(int kind, JobTime away);
  void on_loss_spike(std::int64_t notice_steps, std::int64_t rollback_steps);
  void on_interruption(int kind, JobTime detection, JobTime taken_before = kNever);
  JobTime hang_detection(int kind);
  void take_down(int nodes, RandomStream& random);

  // Outages.
  Outage& outage() { return std::get<Outage>(state_); }
  bool in_outage() const { return std::holds_alternative<Outage>(state_); }
  void begin_outage(int cause, JobTime detection);
  void begin_rollback_before_spike();
  void begin_planned_stop();
  void begin_rejoin();
  void enter(OutagePhase phase, JobTime duration);
  void end_phase();
  void replace_nodes();
  void shrink();
  void load();
  void maintain();
  void resume() { state_ = Running{}; }
  bool can_shrink() const;
  JobTime replica_restart_time() const;
  void roll_back();
  JobTime next_ready_node() const;
  bool no_node_is_lost() const;

  JobTime& spent(TimeCategory category) { return history_.waterfall[static_cast<std::size_t>(category)]; }
  JobTime spent(TimeCategory category) const { return history_.waterfall[static_cast<std::size_t>(category)]; }
  const FailureKind& kind_of(int kind) const { return spec_.failures.kinds[static_cast<std::size_t>(kind)]; }
  void add_span(TimeCategory category, JobTime begin, JobTime end);

  struct LossSpike {
    std::int64_t noticed_at_step = 0;
    std::int64_t rollback_to = 0;  ///< steps after this one are run again
  };

  const JobSpec& spec_;
  const StepTimes& step_times_;
  const bool record_;
  const JobTime end_;

  JobTime now_;
  std::variant<Running, Checkpointing, LinkDown, Outage, Ended> state_;
  History history_;

  // Machine.
  FailureProcesses failures_;
  std::vector<Timer> timers_;  ///< the next one first; of one time, in the order in which they were set
  int spares_;
  RandomStream spare_draws_;
  std::vector<int> down_nodes_;   ///< out of the job, with their replicas (elastic continuation)
  int failed_node_ = 0;           ///< by the latest failure (elastic continuation)
  int returning_ = 0;             ///< of those, replicas that have a node again and rejoin at the next step boundary
  std::optional<StepRate> rate_;  ///< nothing: the machine or the batch has changed
  std::vector<std::pair<MachineState, StepRate>> known_rates_;

  // Progress.
  CheckpointStore checkpoints_;
  std::int64_t since_checkpoint_ = 0;  ///< steps
  JobTime corrupted_at_ = kNever;
  std::optional<LossSpike> spike_;
  std::size_t next_spike_ = 0;       ///< of the course
  std::optional<int> planned_kind_;  ///< a planned stop begins at the next step boundary
};

}  // namespace tracecast
