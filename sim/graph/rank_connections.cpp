#include "sim/graph/rank_connections.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace tracecast {
namespace {

const char* slot_name(Slot slot) {
  constexpr const char* kNames[kSlots] = {
      "tp",    "cp",        "ep",     "dp",        "expert dp",       "dp", "expert dp", "replicas",
      "world", "embedding", "mirror", "resharded", "expert resharded"};
  return kNames[static_cast<std::size_t>(slot)];
}

}  // namespace

template <class RankIndex>
void RankConnections::connect(Rank& rank, int pp, RankIndex rank_index) const {
  rank.pp_rank = pp;
  rank.program = pp;
  rank.channels.resize(static_cast<std::size_t>(4 * context_.schedule.chunks));
  for (int chunk = 0; chunk < context_.schedule.chunks; ++chunk) {
    const Seat before = context_.seats.neighbour(pp, chunk, -1);
    const Seat after = context_.seats.neighbour(pp, chunk, +1);
    const auto join = [&](ChannelSide own, Seat other, ChannelSide theirs) {
      if (other.rank >= 0 && other.rank != pp)
        rank.channels[static_cast<std::size_t>(channel(chunk, own))] = {rank_index(other.rank),
                                                                        channel(other.chunk, theirs)};
    };
    join(ChannelSide::receive_forward, before, ChannelSide::send_forward);
    join(ChannelSide::send_backward, before, ChannelSide::receive_backward);
    join(ChannelSide::send_forward, after, ChannelSide::receive_forward);
    join(ChannelSide::receive_backward, after, ChannelSide::send_backward);
  }
}

std::int32_t RankConnections::add_communicator(Slot slot, int pp, std::vector<std::int32_t> members) {
  Communicator communicator;
  communicator.name = slot == Slot::world || slot == Slot::embedding
                          ? slot_name(slot)
                          : fmt::format("{} of stage {}", slot_name(slot), pp);
  communicator.placement = context_.table.placement(slot);
  communicator.members = std::move(members);
  context_.graph.communicators.push_back(std::move(communicator));
  return static_cast<std::int32_t>(context_.graph.communicators.size()) - 1;
}

std::int32_t RankConnections::add_embedding_communicator() {
  std::vector<std::int32_t> ends{context_.seats.first().rank, context_.seats.last().rank};
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return add_communicator(Slot::embedding, 0, ends);
}

/// [pipeline rank]: the communicator with the rank that holds the same stages in a bidirectional schedule.
std::vector<std::int32_t> RankConnections::add_mirrors() {
  std::vector<std::int32_t> mirrors;
  for (int pp = 0; pp < context_.schedule.ranks; ++pp) {
    const int other = context_.schedule.ranks - 1 - pp;
    const std::vector<std::int32_t> members =
        other == pp ? std::vector<std::int32_t>{pp} : std::vector<std::int32_t>{pp, other};
    mirrors.push_back(other < pp ? mirrors[static_cast<std::size_t>(other)]
                                 : add_communicator(Slot::mirror, pp, members));
  }
  return mirrors;
}

void RankConnections::add_one_rank_per_stage() {
  const int ranks = context_.schedule.ranks;
  std::vector<std::int32_t> everyone(static_cast<std::size_t>(ranks));
  std::iota(everyone.begin(), everyone.end(), 0);
  const std::int32_t world = add_communicator(Slot::world, 0, everyone);
  const std::int32_t embedding = add_embedding_communicator();
  const std::vector<std::int32_t> mirrors = add_mirrors();
  const auto communicator = [&](Slot slot, int pp) {
    switch (slot) {
      case Slot::world:
        return world;
      case Slot::embedding:
        return embedding;
      case Slot::mirror:
        return mirrors[static_cast<std::size_t>(pp)];
      default:
        return add_communicator(slot, pp, {pp});
    }
  };
  for (int pp = 0; pp < ranks; ++pp) {
    Rank rank;
    Coordinates at{};
    at[Axis::pp] = pp;
    rank.representative = context_.plan.grid.rank(at);
    rank.multiplicity = context_.plan.world_size / ranks;
    connect(rank, pp, [](int other) { return other; });
    for (int slot = 0; slot < kSlots; ++slot) rank.communicators.push_back(communicator(static_cast<Slot>(slot), pp));
    context_.graph.ranks.push_back(std::move(rank));
  }
}

void RankConnections::add_every_rank() {
  std::map<std::pair<int, int>, std::int32_t> known;  // (slot, first member) -> communicator
  const Plan& plan = context_.plan;
  const std::int32_t world = add_communicator(Slot::world, 0, context_.groups.members(0, Slot::world));
  for (int index = 0; index < plan.world_size; ++index) {
    Rank rank;
    const Coordinates at = plan.grid.coordinates(index);
    const int pp = at[Axis::pp];
    rank.representative = index;
    connect(rank, pp, [&](int other) {
      Coordinates there = at;
      there[Axis::pp] = other;
      return plan.grid.rank(there);
    });
    for (int slot = 0; slot < kSlots; ++slot) {
      const Slot which = static_cast<Slot>(slot);
      if (which == Slot::world) {
        rank.communicators.push_back(world);
        continue;
      }
      std::vector<int> members = context_.groups.members(index, which);
      const auto [found, added] = known.try_emplace({slot, members.front()}, -1);
      if (added) found->second = add_communicator(which, pp, std::move(members));
      rank.communicators.push_back(found->second);
    }
    context_.graph.ranks.push_back(std::move(rank));
  }
}

}  // namespace tracecast
