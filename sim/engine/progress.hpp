/// \file
/// How compute progresses on a GPU beside transfers (gpu_sharing.hpp): when an operation ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "sim/base/integers.hpp"
#include "sim/base/result.hpp"
#include "sim/engine/gpu_sharing.hpp"

namespace tracecast::engine {

inline constexpr std::int64_t kUnknownEnd = std::numeric_limits<std::int64_t>::max();

/// One compute operation of a template.
struct Work {
  std::int64_t duration = 0;  ///< ps without transfers, on a rank that is not slow
  std::int64_t issue = 0;     ///< ps after the template's beginning on the host
  GpuUse use;
  std::int32_t row = -1;  ///< of VaryingWork
};

/// A collective of one rank that moves from `start` to `end`.
struct MovingTransfer {
  std::int64_t start = 0;
  std::int64_t end = kUnknownEnd;  ///< unknown: the network decides it
  Speeds speeds;
  std::int32_t stream = 0;
  std::int64_t earliest_end = 0;  ///< if the end is unknown
};

/// Adds to transfers from `first` on that are sorted by start. Most start last.
inline void add_by_start(std::vector<MovingTransfer>& transfers, const MovingTransfer& added, std::size_t first = 0) {
  transfers.push_back(added);
  for (std::size_t i = transfers.size() - 1; i > first && transfers[i - 1].start > transfers[i].start; --i)
    std::swap(transfers[i - 1], transfers[i]);
}

/// The progress of compute on one GPU, for operations in order of time.
class Progress {
 public:
  /// Begins anew, beside `transfers`, which are sorted by start.
  void begin(const std::vector<MovingTransfer>& transfers) {
    transfers_ = transfers;
    moving_ = 0;
    next_ = 0;
    speeds_ = {};
    until_ = transfers_.empty() ? kUnknownEnd : kNever;
  }

  /// Requires that the transfer does not start before the end of the last operation.
  void add(const MovingTransfer& transfer) {
    add_by_start(transfers_, transfer, next_);
    until_ = std::min(until_, transfer.start);
  }

  /// The speeds from `time` on. They last until until().
  const Speeds& speeds_at(std::int64_t time) {
    if (time >= until_) look_up(time);
    return speeds_;
  }
  std::int64_t until() const { return until_; }

  /// The end of an operation that starts at `start`.
  std::int64_t end_of(std::int64_t start, std::int64_t duration, GpuUse use) {
    if (duration <= 0) return start;
    if (duration > kMaxShort) return end_of_long(start, duration, use);
    return advance(start, static_cast<std::uint64_t>(duration) * kFullSpeed, use);
  }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::min();
  /// The work of a longer operation takes more than 64 bits.
  static constexpr std::int64_t kMaxShort = std::numeric_limits<std::int64_t>::max() / kFullSpeed;

  std::int64_t end_of_long(std::int64_t start, std::int64_t duration, GpuUse use) {
    return advance(start, wide(duration) * wide(kFullSpeed), use);
  }

  template <class Number>
  std::int64_t advance(std::int64_t time, Number work, GpuUse use) {
    while (true) {
      const auto speed = static_cast<Number>(speeds_at(time).of(use));
      constexpr Number kFull = kFullSpeed;  // a power of two
      const auto needed =
          static_cast<std::int64_t>(speed == kFull ? (work + kFull - 1) / kFull : (work + speed - 1) / speed);
      if (until_ == kUnknownEnd || needed <= until_ - time) return time + needed;
      work -= speed * static_cast<Number>(until_ - time);
      time = until_;
    }
  }

  /// Takes transfers that have started by `time`, and drops those that have ended.
  void look_up(std::int64_t time) {
    for (; next_ < transfers_.size() && transfers_[next_].start <= time; ++next_, ++moving_)
      if (moving_ < next_) transfers_[moving_] = transfers_[next_];
    speeds_ = {};
    until_ = next_ < transfers_.size() ? transfers_[next_].start : kUnknownEnd;
    for (std::size_t i = 0; i < moving_;) {
      const MovingTransfer& each = transfers_[i];
      if (each.end <= time) {
        transfers_[i] = transfers_[--moving_];
        continue;
      }
      speeds_ = slowest(speeds_, each.speeds);
      until_ = std::min(until_, each.end);
      ++i;
    }
  }

  /// First those that have started and not ended, `moving_` of them; from `next_` on those that have not started, by start.
  std::vector<MovingTransfer> transfers_;
  std::size_t moving_ = 0;
  std::size_t next_ = 0;
  Speeds speeds_;
  std::int64_t until_ = kNever;
};

}  // namespace tracecast::engine
