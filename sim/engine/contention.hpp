/// \file
/// The state of compute contention: which collectives move on each GPU, and which run of compute is pending there.
///
/// The end of a run of compute is known once nothing that slows the run can start or end before it. So a run is pending
/// until the simulation has reached the time of its next record; then everything that moves beside it until then is known.
/// Often it is known earlier: no collective can start or end on the rank before the run makes a record if each stream that
/// has collectives waits for compute, or for a transfer that takes longer even without other traffic (Worker::is_quiet).
/// Then the record is made at once, and the rank runs ahead of the others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sim/engine/contended_runs.hpp"

namespace tracecast::engine {

/// A run of compute that has not ended.
struct PendingRun {
  std::int64_t ready = 0;
  std::int64_t next = 0;  ///< ps, of its next record or its end, as far as known
  RunLength length;
  const RunTimes* times = nullptr;  ///< of a fused run
  std::int32_t released = 0;        ///< records of compute that have been made
  bool active = false;
  bool outdated = false;               ///< other transfers move beside it than when its times were found
  std::int64_t changed = kUnknownEnd;  ///< ps, from when on; if it is outdated

  /// True if the run makes no record before its end.
  bool ends_next() const { return next == ready + length.total; }
};

/// One rank.
struct RankContention {
  MovingTransfers moving;  ///< or will move; some may have ended
  PendingRun pending;
  std::unique_ptr<RunTimes> own;  ///< times of a pending run that is not isolated
};

/// Ranks by the time of the next event of their pending run. Entries may be outdated.
class PendingQueue {
 public:
  bool empty() const { return entries_.empty(); }
  std::int64_t front() const { return entries_.front().first; }
  void push(std::int64_t time, std::int32_t rank) {
    entries_.emplace_back(time, rank);
    std::push_heap(entries_.begin(), entries_.end(), later);
  }
  std::int32_t pop() {
    std::pop_heap(entries_.begin(), entries_.end(), later);
    const std::int32_t rank = entries_.back().second;
    entries_.pop_back();
    return rank;
  }

  using Entry = std::pair<std::int64_t, std::int32_t>;
  const std::vector<Entry>& entries() const { return entries_; }
  void move_on(std::int64_t by) {
    for (Entry& each : entries_) each.first += by;
  }

 private:
  static bool later(const Entry& a, const Entry& b) { return a.first > b.first; }

  std::vector<Entry> entries_;
};

/// Of the first 64 lanes; 0: another one.
inline std::uint64_t lane_bit(std::int32_t lane) { return lane < 64 ? std::uint64_t{1} << lane : 0; }

struct Contention {
  /// `beside`: [collective] the speeds that it leaves to compute.
  Contention(const StepGraph& graph, const CompiledGraph& compiled, std::vector<Speeds> beside);

  ContendedRuns runs;
  std::vector<RankContention> ranks;
  std::vector<std::int32_t> lanes;        ///< streams with collectives that slow compute
  std::uint64_t lane_bits = 0;            ///< their bits; 0: some have none
  std::vector<std::int32_t> outdated;     ///< ranks whose pending run is to be timed, or timed again
  std::vector<std::int32_t> timed;        ///< ranks whose pending run is timed, but not in the queue yet
  std::vector<std::int32_t> in_lockstep;  ///< groups that are to run in lockstep, or not, when no stream can go on
  PendingQueue queue;
  Progress progress;

  RankContention& of(std::int32_t rank) { return ranks[static_cast<std::size_t>(rank)]; }

  /// The speeds of compute of a rank from `time` on, beside the transfers that are known, and until when.
  std::pair<Speeds, std::int64_t> speeds_at(std::int32_t rank, std::int64_t time) {
    if (of(rank).moving.empty()) return {{}, kUnknownEnd};
    progress.begin(of(rank).moving.all());
    const Speeds speeds = progress.speeds_at(time);
    return {speeds, progress.until()};
  }

  /// Drops transfers that have ended by `time`, when compute of the rank has reached it.
  void drop_ended(std::int32_t rank, std::int64_t time) {
    if (!of(rank).moving.empty()) of(rank).moving.drop_ended(time);
  }

  /// From `time` on, other transfers than before move on the rank.
  void change(std::int32_t rank, std::int64_t time) {
    PendingRun& run = of(rank).pending;
    if (!run.active || time >= run.ready + run.length.total) return;
    run.changed = std::min(run.changed, time);
    if (!run.outdated) mark_outdated(rank);
  }
  void mark_outdated(std::int32_t rank) {
    of(rank).pending.outdated = true;
    outdated.push_back(rank);
  }
};

}  // namespace tracecast::engine
