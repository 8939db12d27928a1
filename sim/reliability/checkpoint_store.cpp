#include "sim/reliability/checkpoint_store.hpp"

#include <algorithm>

namespace tracecast {
namespace {

bool survives(const CheckpointTier& tier, int nodes) {
  switch (tier.survives) {
    case Survives::restart:
      return nodes == 0;
    case Survives::one_node:
      return nodes <= 1;
    case Survives::anything:
      return true;
  }
  return false;
}

/// Slow storage affects the remote level only.
JobTime at_speed(JobTime time, const CheckpointTier& tier, double storage_speed) {
  if (storage_speed >= 1 || tier.survives != Survives::anything) return time;
  return job_time(seconds(time) / storage_speed);
}

}  // namespace

CheckpointStore::CheckpointStore(const CheckpointPolicy& policy) {
  for (const CheckpointTier& tier : policy.tiers) levels_.push_back({tier, {}, {}});
}

JobTime CheckpointStore::stall_of_next(JobTime now, double storage_speed) const {
  JobTime stall;
  JobTime wait;
  for (const Level& level : levels_) {
    if (!takes_part(level)) continue;
    wait = std::max(wait, level.busy_until - now);
    stall += level.tier.persist == JobTime{} ? at_speed(level.tier.stall, level.tier, storage_speed) : level.tier.stall;
  }
  return wait + stall;
}

void CheckpointStore::take(const Progress& progress, JobTime now, double storage_speed) {
  for (Level& level : levels_) {
    if (!takes_part(level)) continue;
    const JobTime safe = now + at_speed(level.tier.persist, level.tier, storage_speed);
    level.saved.push_back({progress, now, safe});
    level.busy_until = safe;
  }
  ++count_;
}

JobTime CheckpointStore::stall_of_all(double storage_speed) const {
  JobTime stall;
  for (const Level& level : levels_)
    stall += at_speed(level.tier.stall + level.tier.persist, level.tier, storage_speed);
  return stall;
}

void CheckpointStore::take_all(const Progress& progress, JobTime now) {
  for (Level& level : levels_) {
    level.saved.push_back({progress, now, now});
    level.busy_until = now;
  }
}

CheckpointStore::Copy CheckpointStore::best(const Damage& damage) const {
  Copy best;
  for (const Level& level : levels_) {
    if (!survives(level.tier, damage.nodes)) continue;
    const auto usable = std::find_if(level.saved.rbegin(), level.saved.rend(), [&](const Saved& saved) {
      return saved.safe <= damage.failed_at && saved.taken <= damage.taken_before &&
             saved.progress.steps <= damage.steps_at_most;
    });
    if (usable == level.saved.rend()) continue;
    const bool ahead = usable->progress.steps > best.progress.steps;
    const bool faster = usable->progress.steps == best.progress.steps && level.tier.load < best.load;
    if (ahead || faster)
      best = {usable->progress, usable->taken, level.tier.load, level.tier.survives == Survives::anything};
  }
  return best;
}

void CheckpointStore::forget(const Damage& damage, std::int64_t steps) {
  for (Level& level : levels_) {
    if (!survives(level.tier, damage.nodes)) level.saved.clear();
    while (!level.saved.empty() &&
           (level.saved.back().progress.steps > steps || level.saved.back().safe > damage.failed_at))
      level.saved.pop_back();
    level.busy_until = std::min(level.busy_until, damage.failed_at);
  }
}

}  // namespace tracecast
