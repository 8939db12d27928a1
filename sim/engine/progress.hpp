/// \file
/// How compute progresses on a GPU beside transfers (gpu_sharing.hpp): when an operation ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
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

/// Transfers of one rank, by start. Thousands may be queued for later; dropping one and looking for an open one stop before them.
class MovingTransfers {
 public:
  bool empty() const { return first_ == all_.size(); }
  std::span<const MovingTransfer> all() const { return std::span(all_).subspan(first_); }
  std::span<MovingTransfer> all() { return std::span(all_).subspan(first_); }

  void add(const MovingTransfer& transfer) {
    if (transfer.end == kUnknownEnd) ++open_;
    add_by_start(all_, transfer, first_);
  }
  /// The transfer of a stream whose end is unknown; null: none.
  const MovingTransfer* open_on(std::int32_t stream) const {
    std::int32_t left = open_;
    for (auto each = all_.begin() + static_cast<std::ptrdiff_t>(first_); left > 0; ++each) {
      if (each->end != kUnknownEnd) continue;
      if (each->stream == stream) return &*each;
      --left;
    }
    return nullptr;
  }
  /// Gives the open transfer of a stream its end. False: none is open.
  bool end_open(std::int32_t stream, std::int64_t end) {
    const MovingTransfer* const found = open_on(stream);
    if (found == nullptr) return false;
    all_[static_cast<std::size_t>(found - all_.data())].end = end;
    --open_;
    return true;
  }
  /// Drops transfers that have ended by `time`.
  void drop_ended(std::int64_t time) {
    std::size_t started = first_;
    while (started < all_.size() && all_[started].start <= time) ++started;
    std::size_t kept = started;
    for (std::size_t i = started; i-- > first_;)
      if (all_[i].end > time) all_[--kept] = all_[i];
    first_ = kept;
    if (2 * first_ < all_.size()) return;
    all_.erase(all_.begin(), all_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }

 private:
  std::vector<MovingTransfer> all_;
  std::size_t first_ = 0;  ///< that was not dropped
  std::int32_t open_ = 0;  ///< whose end is unknown
};

/// The progress of compute on one GPU, for operations in order of time.
class Progress {
 public:
  /// Begins anew, beside `transfers`, which are sorted by start and stay as they are.
  void begin(std::span<const MovingTransfer> transfers) {
    queued_ = transfers;
    added_.clear();
    next_added_ = 0;
    moving_.clear();
    speeds_ = {};
    until_ = queued_.empty() ? kUnknownEnd : kNever;
  }

  /// Requires that the transfer does not start before the end of the last operation.
  void add(const MovingTransfer& transfer) {
    add_by_start(added_, transfer, next_added_);
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
    std::erase_if(moving_, [time](const MovingTransfer& each) { return each.end <= time; });
    const auto take = [&](const MovingTransfer& each) {
      if (each.end > time) moving_.push_back(each);
    };
    for (; !queued_.empty() && queued_.front().start <= time; queued_ = queued_.subspan(1)) take(queued_.front());
    for (; next_added_ < added_.size() && added_[next_added_].start <= time; ++next_added_) take(added_[next_added_]);
    speeds_ = {};
    until_ = std::min(queued_.empty() ? kUnknownEnd : queued_.front().start,
                      next_added_ < added_.size() ? added_[next_added_].start : kUnknownEnd);
    for (const MovingTransfer& each : moving_) {
      speeds_ = slowest(speeds_, each.speeds);
      until_ = std::min(until_, each.end);
    }
  }

  std::span<const MovingTransfer> queued_;  ///< those given that have not started
  std::vector<MovingTransfer> added_;       ///< from `next_added_` on those that have not started
  std::size_t next_added_ = 0;
  std::vector<MovingTransfer> moving_;  ///< that have started, and not ended
  Speeds speeds_;
  std::int64_t until_ = kNever;
};

}  // namespace tracecast::engine
