/// \file
/// Which pipeline rank, and which chunk on it, holds each virtual stage of a schedule.
#pragma once

#include <vector>

#include "sim/schedule/schedule.hpp"

namespace tracecast {

/// One chunk of one pipeline rank.
struct StageSlot {
  int rank = -1;  ///< -1: none
  int chunk = -1;
};

/// Requires that the schedule outlives it
class StagePlacement {
 public:
  explicit StagePlacement(const Schedule& schedule);

  StageSlot first() const { return slots_.front().front(); }
  StageSlot last() const { return slots_.front().back(); }
  /// True if the rank of the last stage holds the first one, too, in any copy of the model: it has one table of words.
  bool joins_ends() const;
  /// The slot `step` stages after chunk `chunk` of pipeline rank `pp`, in the same copy of the model.
  StageSlot neighbour(int pp, int chunk, int step) const;
  /// Virtual stage of a slot.
  int stage(int pp, int chunk) const;

  /// True if consecutive virtual stages are on consecutive ranks, around the ring. Then messages between two ranks
  /// have the same order on both, so all chunks can share streams as they share a connection.
  bool looped() const;

 private:
  const Schedule& schedule_;
  std::vector<std::vector<StageSlot>> slots_;  ///< [replica][virtual stage]
};

}  // namespace tracecast
