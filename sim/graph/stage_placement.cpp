#include "sim/graph/stage_placement.hpp"

#include <algorithm>

namespace tracecast {

StagePlacement::StagePlacement(const Schedule& schedule)
    : schedule_(schedule),
      slots_(static_cast<std::size_t>(schedule.replicas),
             std::vector<StageSlot>(static_cast<std::size_t>(schedule.stages()))) {
  for (int rank = 0; rank < schedule.ranks; ++rank)
    for (int chunk = 0; chunk < schedule.chunks; ++chunk) {
      const int replica = schedule.replica_of[static_cast<std::size_t>(rank)][static_cast<std::size_t>(chunk)];
      slots_[static_cast<std::size_t>(replica)][static_cast<std::size_t>(stage(rank, chunk))] = {rank, chunk};
    }
}

int StagePlacement::stage(int pp, int chunk) const {
  return schedule_.stage_of[static_cast<std::size_t>(pp)][static_cast<std::size_t>(chunk)];
}

StageSlot StagePlacement::neighbour(int pp, int chunk, int step) const {
  const int replica = schedule_.replica_of[static_cast<std::size_t>(pp)][static_cast<std::size_t>(chunk)];
  const std::vector<StageSlot>& stages = slots_[static_cast<std::size_t>(replica)];
  const int at = stage(pp, chunk) + step;
  if (at < 0 || at >= static_cast<int>(stages.size())) return {};
  return stages[static_cast<std::size_t>(at)];
}

bool StagePlacement::joins_ends() const {
  const int rank = last().rank;
  return std::any_of(slots_.begin(), slots_.end(),
                     [&](const std::vector<StageSlot>& stages) { return stages.front().rank == rank; });
}

bool StagePlacement::looped() const {
  if (schedule_.replicas > 1) return false;
  return std::all_of(slots_.front().begin(), slots_.front().end(), [this](const StageSlot& slot) {
    return stage(slot.rank, slot.chunk) == slot.chunk * schedule_.ranks + slot.rank;
  });
}

}  // namespace tracecast
