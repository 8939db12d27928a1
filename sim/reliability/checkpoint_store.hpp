/// \file
/// The checkpoints of one history: what was saved on which level, when it is safe, and which copy survives a failure.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/reliability/job.hpp"

namespace tracecast {

/// Progress at one time, and the running time that it took.
struct Progress {
  std::int64_t tokens = 0;
  std::int64_t steps = 0;
  JobTime productive;
  JobTime degraded;
};

/// What a failure did, as far as checkpoints are concerned.
struct Damage {
  JobTime failed_at{};                     ///< copies that were not safe by then are lost
  int nodes = 0;                           ///< taken down at once
  JobTime taken_before = kNever;           ///< copies taken later are corrupt
  std::int64_t steps_at_most = INT64_MAX;  ///< copies with more steps are after the loss spike
};

class CheckpointStore {
 public:
  explicit CheckpointStore(const CheckpointPolicy& policy);

  /// Stall of the next checkpoint at `now`. A level that takes part first waits until its last copy is safe.
  JobTime stall_of_next(JobTime now, double storage_speed) const;
  /// Takes the next checkpoint of `progress`; its stall has just ended.
  void take(const Progress& progress, JobTime now, double storage_speed);
  /// Checkpoints that repeat: a cycle is the fewest checkpoints after which every level has taken part a whole number
  /// of times.
  struct Cycle {
    std::int64_t checkpoints = 0;
    JobTime stall;  ///< of all of them
  };
  /// The cycle that begins at `now`, if no level ever makes the job wait and storage is not slow. `work`: between
  /// two checkpoints.
  std::optional<Cycle> cycle(JobTime now, JobTime work) const;
  /// The same as `cycles` cycles of take(): the first checkpoint begins at `now` + `work`, and each one adds `each` to
  /// the progress, which is `begin` at `now`. Its time does not depend on the number of cycles.
  void take_cycles(std::int64_t cycles, const Progress& begin, const Progress& each, JobTime now, JobTime work);
  /// Saves on all levels, safe at once: before a planned stop.
  void take_all(const Progress& progress, JobTime now);
  JobTime stall_of_all(double storage_speed) const;

  struct Copy {
    Progress progress;
    JobTime taken;
    JobTime load;         ///< zero from the beginning of the job
    bool remote = false;  ///< read from remote storage
  };
  /// The copy with the most progress that survived `damage`; without one, the beginning of the job.
  Copy best(const Damage& damage) const;
  /// Drops copies that did not survive `damage` or have more than `steps` steps.
  void forget(const Damage& damage, std::int64_t steps);

 private:
  struct Saved {
    std::int64_t number;  ///< of the copies that this level ever took
    Progress progress;
    JobTime taken;
    JobTime safe;
  };
  struct Level {
    CheckpointTier tier;
    std::vector<Saved> saved{};  ///< ascending in progress; some may be dropped already (keeps())
    std::int64_t next_number = 0;
    std::size_t prune_at = 0;  ///< size of `saved` at which dropped copies are erased
    JobTime busy_until{};
  };
  /// Is copy `number` kept when the newest one is `newest`? The `keep` newest are; of those up to 2 keep old every second
  /// one, up to 4 keep old every fourth, and so on, so that the number of copies grows with the logarithm of time.
  static bool keeps(const CheckpointTier& tier, std::int64_t number, std::int64_t newest);
  /// The first kept copy from `number` on.
  static std::int64_t next_kept(const CheckpointTier& tier, std::int64_t number, std::int64_t newest);
  static void save(Level& level, const Progress& progress, JobTime taken, JobTime safe);
  bool takes_part(const Level& level) const { return count_ % level.tier.every == 0; }

  std::vector<Level> levels_;
  std::int64_t count_ = 0;
  std::vector<JobTime> stalls_{JobTime{}};  ///< [n]: of the first n checkpoints of a cycle; only {0}: too long
};

}  // namespace tracecast
