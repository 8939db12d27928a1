/// \file
/// The checkpoints of one history: what was saved on which level, when it is safe, and which copy survives a failure.
#pragma once

#include <cstdint>
#include <span>
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
