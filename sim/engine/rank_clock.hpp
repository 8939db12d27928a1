/// The account of one rank's time: every moment of its compute stream goes to exactly one heading.
#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "sim/engine/timeline.hpp"

namespace tracecast::engine {

/// One operation of a rank, ps from the start of the step: when it was ready there, when it began to move, its end.
struct Interval {
  std::int64_t arrival = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int8_t traffic = -1;  ///< -1: compute
};

/// Whether `a` ends after `b`; equal ends are told apart, so that the last of some transfers does not depend on the order in
/// which streams are run.
inline bool later(const Interval& a, const Interval& b) {
  if (a.end != b.end) return a.end > b.end;
  return std::tie(a.start, a.arrival, a.traffic) > std::tie(b.start, b.arrival, b.traffic);
}

class RankClock {
 public:
  /// The compute stream was idle from `from` to `to` and then went on because of the end of `cause`. While the transfer
  /// was moving, or stood behind others of this rank, it is exposed communication; while it waited for another rank to
  /// come, bubble.
  void waited(std::int64_t from, std::int64_t to, const Interval& cause) {
    if (cause.traffic < 0) {
      time_.bubble.picoseconds += to - from;
      return;
    }
    const std::int64_t for_others = overlap(from, to, cause.arrival, cause.start);
    time_.bubble.picoseconds += for_others;
    time_.exposed[static_cast<std::size_t>(cause.traffic)].picoseconds += to - from - for_others;
  }

  void computed(std::int64_t busy, std::int64_t host, bool optimizer) {
    (optimizer ? time_.optimizer : time_.compute).picoseconds += busy;
    time_.host.picoseconds += host;
  }

  void transferred(const Interval& interval) {
    if (later(interval, last_)) last_ = interval;
  }

  /// The compute stream waited for transfers in which this rank meets nobody.
  void exposed(Traffic traffic, std::int64_t time) {
    time_.exposed[static_cast<std::size_t>(traffic)].picoseconds += time;
  }

  /// The account closed at the end of the step: after its last compute a rank waits for its own transfers, then for others.
  RankTime close(std::int64_t compute_end, std::int64_t step_end) const {
    RankClock tail = *this;
    const std::int64_t own_end = std::max(compute_end, last_.end);
    if (own_end > compute_end) tail.waited(compute_end, own_end, last_);
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
