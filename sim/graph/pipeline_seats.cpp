#include "sim/graph/pipeline_seats.hpp"

#include <algorithm>

namespace tracecast {

PipelineSeats::PipelineSeats(const Schedule& schedule)
    : schedule_(schedule),
      seats_(static_cast<std::size_t>(schedule.replicas),
             std::vector<Seat>(static_cast<std::size_t>(schedule.stages()))) {
  for (int rank = 0; rank < schedule.ranks; ++rank)
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
      const int replica = schedule.replica_of[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)];
      seats_[static_cast<std::size_t>(replica)][static_cast<std::size_t>(stage(rank, chunk))] = {rank, chunk};
    }
}

int PipelineSeats::stage(int pp, int chunk) const {
  return schedule_.stage_of[static_cast<std::size_t>(pp)][static_cast<std::size_t>(chunk)];
}

Seat PipelineSeats::neighbour(int pp, int chunk, int step) const {
  const int replica = schedule_.replica_of[static_cast<std::size_t>(pp)][static_cast<std::size_t>(chunk)];
  const std::vector<Seat>& stages = seats_[static_cast<std::size_t>(replica)];
  const int at = stage(pp, chunk) + step;
  if (at < 0 || at >= static_cast<int>(stages.size())) return {};
  return stages[static_cast<std::size_t>(at)];
}

bool PipelineSeats::looped() const {
  if (schedule_.replicas > 1) return false;
  return std::all_of(seats_.front().begin(), seats_.front().end(), [this](const Seat& seat) {
    return stage(seat.rank, seat.chunk) == seat.chunk * schedule_.ranks + seat.rank;
  });
}

}  // namespace tracecast
