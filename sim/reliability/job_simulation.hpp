/// One history while it is simulated: the inside of simulate_history (job.hpp).
///
/// Parts: job_running.cpp (steps, checkpoints, what a step takes), job_events.cpp (what strikes), job_standing.cpp
/// (outages and what follows them).
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "sim/reliability/checkpoint_store.hpp"
#include "sim/reliability/failure_processes.hpp"
#include "sim/reliability/job.hpp"

namespace tracecast {

/// One step of the machine as it is now.
struct Rate {
  JobTime step;
  std::int64_t tokens = 0;
  JobTime healthy;  ///< what a healthy machine needs for these tokens
};

/// Something that was set off and will happen.
struct Timer {
  enum class What { repaired, replica_back, trouble_over, corruption_noticed, spare_fails };
  JobTime at;
  What what = What::repaired;
  int kind = -1;  ///< of the trouble
  bool operator==(const Timer&) const = default;
};

enum class Stood { to_the_end, failed_again, out_of_time };
enum class Ran { to_the_limit, to_a_boundary, to_the_target };

class JobSimulation {
 public:
  JobSimulation(const JobSpec& spec, const StepTimes& steps, std::uint64_t seed, std::uint32_t history, bool record)
      : spec_(spec),
        steps_source_(steps),
        failures_(spec.failures, spec.machine, seed, history),
        checkpoints_(spec.checkpoint),
        end_(spec.horizon == JobTime{} ? kNever : spec.horizon),
        spares_(spec.recovery.spares),
        spare_draws_(seed, history, kSpareProcess),
        record_(record) {
    history_.events.assign(spec.failures.kinds.size(), 0);
    expect_spare_failure();
  }

  Result<History> run();

 private:
  /// Random stream of the idle spares, behind those of the failure processes.
  static constexpr std::uint32_t kSpareProcess = UINT32_MAX;

  // Running.
  Result<Ran> run_until(JobTime limit);
  bool wants_boundary() const;
  void count_steps(std::int64_t n);
  std::int64_t steps_to_next_change() const;
  Result<void> refresh_rate();
  MachineState machine_state() const;
  std::int64_t global_batch() const;
  double storage_speed() const;
  Progress progress() const;

  // Events.
  JobTime next_event() const;
  std::size_t next_timer() const;
  /// Handles what is due at now_. True when something stops the job.
  bool handle_due(bool standing);
  bool handle_timer(const Timer& timer, bool standing);
  void expect_spare_failure();
  void spare_may_fail();
  bool strike(int kind, bool standing);
  bool stops(int kind, bool standing, JobTime detection);
  JobTime hang_detection(int kind);
  bool strikes_a_part_that_is_out(const FailureKind& kind, RandomStream& random);
  void take_out(int nodes, RandomStream& random);

  // Standing.
  void begin_outage(JobTime detection);
  void end_outage();
  Stood stand(Spent what, JobTime duration, bool fragile);
  JobTime next_repair() const;
  Stood wait_for_nodes();
  bool recover();
  Stood recover_once();
  Stood recover_elastically();
  bool can_go_on_without() const;
  void roll_back();
  Stood restart();
  Stood load();
  JobTime restart_time() const;
  bool boundary();  ///< between two steps: a planned stop, a replica taken back, a loss spike; false: out of time
  Stood planned_stop();
  Stood take_back();

  JobTime& spent(Spent what) { return history_.spent[static_cast<std::size_t>(what)]; }
  JobTime spent(Spent what) const { return history_.spent[static_cast<std::size_t>(what)]; }
  const FailureKind& kind_of(int kind) const { return spec_.failures.kinds[static_cast<std::size_t>(kind)]; }
  void add_span(Spent what, JobTime begin, JobTime end);
  History finish();

  const JobSpec& spec_;
  const StepTimes& steps_source_;
  FailureProcesses failures_;
  CheckpointStore checkpoints_;
  JobTime end_;
  History history_;

  JobTime now_;
  Rate rate_;
  bool rate_is_old_ = true;
  std::vector<std::pair<MachineState, Rate>> rates_;
  JobTime in_step_;     ///< time of the step in progress, not accounted yet
  JobTime stall_left_;  ///< of the checkpoint being taken
  JobTime flap_left_;   ///< until a link is back
  bool checkpoint_due_ = false;
  bool checkpoint_runs_ = false;
  std::int64_t since_checkpoint_ = 0;

  std::vector<Timer> timers_;
  std::vector<int> down_nodes_;  ///< out of the job, replicas with them (elastic)
  int returning_ = 0;            ///< of those, nodes that are there again and wait for the end of the step
  int planned_kind_ = -1;        ///< a planned stop waits for the end of the step
  JobTime corrupted_at_ = kNever;
  std::int64_t spike_noticed_at_step_ = -1;
  std::int64_t spike_rollback_to_ = 0;
  std::size_t next_spike_ = 0;
  int spares_;
  RandomStream spare_draws_;

  // The outage being recovered from.
  Damage damage_;
  JobTime detection_;
  int missing_ = 0;  ///< nodes to be replaced before the job can start
  int cause_ = -1;
  bool swapped_ = false;           ///< a spare took part
  int struck_node_ = 0;            ///< by the failure at hand (elastic continuation)
  std::vector<int> failed_nodes_;  ///< the missing ones, by number (elastic continuation)
  bool record_;
};

}  // namespace tracecast
