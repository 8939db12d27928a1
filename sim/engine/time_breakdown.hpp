/// \file
/// Where the time of one rank goes: every instant of its compute stream is attributed to exactly one category (RankTime).
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "sim/engine/timeline.hpp"

namespace tracecast::engine {

/// One operation of a rank; ps from the start of the step. Of a transfer, arrival to start is the wait for other ranks.
/// A collective that queued behind others without a gap has their waits, too, as if all were one wait that ends where
/// its own does, or the last one does.
struct Interval {
  std::int64_t arrival = 0;  ///< ready on this rank
  std::int64_t start = 0;    ///< begins to move or compute
  std::int64_t end = 0;
  std::int8_t traffic = -1;  ///< -1: compute
};

/// `times` relative to `ready`, as times of the step.
inline Interval after(std::int64_t ready, const Interval& times) {
  return {ready + times.arrival, ready + times.start, ready + times.end, times.traffic};
}

/// True if `a` ends after `b`. Ties are broken by the other members, so that the last of several transfers does not depend
/// on the order in which streams are executed.
inline bool ends_later(const Interval& a, const Interval& b) {
  if (a.end != b.end) return a.end > b.end;
  return std::tie(a.start, a.arrival, a.traffic) > std::tie(b.start, b.arrival, b.traffic);
}

class TimeBreakdown {
 public:
  /// The compute stream was idle from `from` to `to`, until the end of `cause`. The part in which the transfer, or one
  /// that it queued behind, waited for another rank is bubble. The rest, in which transfers of this rank moved, is
  /// exposed communication.
  void add_wait(std::int64_t from, std::int64_t to, const Interval& cause) {
    if (cause.traffic < 0) {
      time_.bubble.picoseconds += to - from;
      return;
    }
    const std::int64_t for_others = overlap(from, to, cause.arrival, cause.start);
    time_.bubble.picoseconds += for_others;
    time_.exposed[static_cast<std::size_t>(cause.traffic)].picoseconds += to - from - for_others;
  }

  void add_compute(std::int64_t busy, std::int64_t host, bool optimizer) {
    (optimizer ? time_.optimizer : time_.compute).picoseconds += busy;
    time_.host.picoseconds += host;
  }

  void add_transfer(const Interval& interval) {
    if (ends_later(interval, last_)) last_ = interval;
  }

  /// The compute stream waited for rank-local transfers.
  void add_exposed(Traffic traffic, std::int64_t time) {
    time_.exposed[static_cast<std::size_t>(traffic)].picoseconds += time;
  }

  const Interval& last_transfer() const { return last_; }

  /// Adds `times` times what has been added since `before`. A transfer that has not ended by `instant` is `by` later.
  void repeat(const TimeBreakdown& before, std::int64_t times, std::int64_t instant, std::int64_t by) {
    const auto add = [times](Duration& sum, Duration earlier) { sum += (sum - earlier) * times; };
    add(time_.compute, before.time_.compute);
    for (std::size_t i = 0; i < time_.exposed.size(); ++i) add(time_.exposed[i], before.time_.exposed[i]);
    add(time_.bubble, before.time_.bubble);
    add(time_.host, before.time_.host);
    add(time_.optimizer, before.time_.optimizer);
    if (last_.end > instant) last_ = {last_.arrival + by, last_.start + by, last_.end + by, last_.traffic};
  }

  /// The breakdown at the end of the step. After its last compute a rank waits for its own transfers, then for others.
  RankTime finalize(std::int64_t compute_end, std::int64_t step_end) const {
    TimeBreakdown tail = *this;
    const std::int64_t own_end = std::max(compute_end, last_.end);
    if (own_end > compute_end) tail.add_wait(compute_end, own_end, last_);
    tail.time_.bubble.picoseconds += step_end - own_end;
    return tail.time_;
  }

 private:
  static std::int64_t overlap(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) {
    return std::max<std::int64_t>(0, std::min(b, d) - std::max(a, c));
  }

  RankTime time_;
  Interval last_{};
};

}  // namespace tracecast::engine
