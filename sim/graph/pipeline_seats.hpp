/// \file
/// Where the virtual stages of a schedule sit: pipeline rank and chunk on it.
#pragma once

#include <vector>

#include "sim/schedule/schedule.hpp"

namespace tracecast {

struct Seat {
  int rank = -1;  ///< -1: there is none
  int chunk = -1;
};

class PipelineSeats {
 public:
  explicit PipelineSeats(const Schedule& schedule);

  Seat first() const { return seats_.front().front(); }
  Seat last() const { return seats_.front().back(); }
  /// The seat `step` stages after chunk `chunk` of pipeline rank `pp`, in the same copy of the model.
  Seat neighbour(int pp, int chunk, int step) const;
  /// Virtual stage of a seat.
  int stage(int pp, int chunk) const;

  /// Chunks of which each stands on the rank after the one before it, around the ring: their messages between two ranks
  /// come in the same order on both, so they can share streams as they share a connection.
  bool looped() const;

 private:
  const Schedule& schedule_;
  std::vector<std::vector<Seat>> seats_;  ///< [replica][virtual stage]
};

}  // namespace tracecast
