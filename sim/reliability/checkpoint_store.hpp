/// The checkpoints of one history: what was saved where, when it is safe, and which copy is left after a failure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/reliability/job.hpp"

namespace tracecast {

/// Progress at one instant, with the time that it took.
struct Progress {
  std::int64_t tokens = 0;
  std::int64_t steps = 0;
  JobTime productive;
  JobTime degraded;
};

/// What is known about a failure when a copy is looked for.
struct Damage {
  JobTime failed_at{};                     ///< copies that were not safe by then are gone
  int nodes = 0;                           ///< taken out at once
  JobTime taken_before = kNever;           ///< copies taken later are corrupt
  std::int64_t steps_at_most = INT64_MAX;  ///< the loss spike has to be left behind
};

class CheckpointStore {
 public:
  explicit CheckpointStore(const CheckpointPolicy& policy);

  /// Levels that take part in the next checkpoint wait for their last one to be safe: how long at `now`, and then stall.
  JobTime stall_of_next(JobTime now, double storage_speed) const;
  /// The next checkpoint is taken: `progress` was reached, its stall has just ended.
  void take(const Progress& progress, JobTime now, double storage_speed);
  /// Everything is saved and safe, for a planned stop.
  void take_all(const Progress& progress, JobTime now);
  JobTime stall_of_all(double storage_speed) const;

  struct Copy {
    Progress progress;
    JobTime taken;
    JobTime load;         ///< zero for the beginning of the job
    bool remote = false;  ///< comes from remote storage
  };
  /// The copy with the most progress that outlived `damage`; the beginning of the job always does.
  Copy best(const Damage& damage) const;
  /// Forgets what did not outlive `damage` and what lies ahead of `steps`.
  void forget(const Damage& damage, std::int64_t steps);

 private:
  struct Saved {
    Progress progress;
    JobTime taken;
    JobTime safe;
  };
  struct Level {
    CheckpointTier tier;
    std::vector<Saved> saved;  ///< ascending in progress
    JobTime busy_until;
  };
  bool takes_part(const Level& level) const { return count_ % level.tier.every == 0; }

  std::vector<Level> levels_;
  std::int64_t count_ = 0;
};

}  // namespace tracecast
