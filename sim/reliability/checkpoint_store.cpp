#include "sim/reliability/checkpoint_store.hpp"

#include <algorithm>
#include <numeric>

#include "sim/base/integers.hpp"

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
  constexpr std::int64_t kLongest = 4096;
  std::int64_t checkpoints = policy.tiers.empty() ? 0 : 1;
  for (const CheckpointTier& tier : policy.tiers) {
    levels_.push_back({.tier = tier});
    if (checkpoints <= kLongest) checkpoints = std::lcm(checkpoints, std::int64_t{tier.every});
  }
  if (checkpoints > kLongest) return;
  for (std::int64_t n = 0; n < checkpoints; ++n) {
    JobTime stall = stalls_.back();
    for (const Level& level : levels_)
      if (n % level.tier.every == 0) stall += level.tier.stall;
    stalls_.push_back(stall);
  }
}

bool CheckpointStore::keeps(const CheckpointTier& tier, std::int64_t number, std::int64_t newest) {
  return next_kept(tier, number, newest) == number;
}

std::int64_t CheckpointStore::next_kept(const CheckpointTier& tier, std::int64_t number, std::int64_t newest) {
  const std::int64_t age = newest - number;
  if (tier.survives != Survives::anything) return std::max(number, newest - tier.keep + 1);
  std::int64_t stride = 1;
  while (age >= tier.keep * stride) stride *= 2;
  return std::min(round_up(number, stride), newest);
}

void CheckpointStore::save(Level& level, const Progress& progress, JobTime taken, JobTime safe) {
  if (level.saved.size() >= level.prune_at) {
    std::erase_if(level.saved,
                  [&](const Saved& saved) { return !keeps(level.tier, saved.number, level.next_number - 1); });
    level.prune_at = 2 * level.saved.size() + 64;
  }
  level.saved.push_back({level.next_number++, progress, taken, safe});
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
    save(level, progress, now, safe);
    level.busy_until = safe;
  }
  ++count_;
}

std::optional<CheckpointStore::Cycle> CheckpointStore::cycle(JobTime now, JobTime work) const {
  const auto checkpoints = static_cast<std::int64_t>(stalls_.size()) - 1;
  if (checkpoints == 0 || count_ % checkpoints != 0) return std::nullopt;
  for (const Level& level : levels_)
    if (level.tier.persist > level.tier.every * work || level.busy_until > now + work) return std::nullopt;
  return Cycle{checkpoints, stalls_.back()};
}

void CheckpointStore::take_cycles(std::int64_t cycles, const Progress& begin, const Progress& each, JobTime now,
                                  JobTime work) {
  const auto length = static_cast<std::int64_t>(stalls_.size()) - 1;
  for (Level& level : levels_) {
    const std::int64_t copies = cycles * length / level.tier.every;
    const std::int64_t first = level.next_number, newest = first + copies - 1;
    for (std::int64_t number = first; number <= newest; ++number) {
      number = next_kept(level.tier, number, newest);
      const std::int64_t before = (number - first) * level.tier.every;  // checkpoints of any level
      const std::int64_t done = before + 1;
      const JobTime taken =
          now + done * work + before / length * stalls_.back() + stalls_[static_cast<std::size_t>(before % length + 1)];
      const Progress progress{begin.tokens + done * each.tokens, begin.steps + done * each.steps,
                              begin.productive + done * each.productive, begin.degraded + done * each.degraded};
      level.next_number = number;
      save(level, progress, taken, taken + level.tier.persist);
    }
    level.busy_until = level.saved.back().safe;
  }
  count_ += cycles * length;
}

JobTime CheckpointStore::stall_of_all(double storage_speed) const {
  JobTime stall;
  for (const Level& level : levels_)
    stall += at_speed(level.tier.stall + level.tier.persist, level.tier, storage_speed);
  return stall;
}

void CheckpointStore::take_all(const Progress& progress, JobTime now) {
  for (Level& level : levels_) {
    save(level, progress, now, now);
    level.busy_until = now;
  }
}

CheckpointStore::Copy CheckpointStore::best(const Damage& damage) const {
  Copy best;
  for (const Level& level : levels_) {
    if (!survives(level.tier, damage.nodes)) continue;
    const auto usable = std::find_if(level.saved.rbegin(), level.saved.rend(), [&](const Saved& saved) {
      return saved.safe <= damage.failed_at && saved.taken <= damage.taken_before &&
             saved.progress.steps <= damage.steps_at_most && keeps(level.tier, saved.number, level.next_number - 1);
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
