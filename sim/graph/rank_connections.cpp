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
      "tp",    "cp",        "ep",     "dp",        "expert dp",        "dp",      "expert dp", "replicas",
      "world", "embedding", "mirror", "resharded", "expert resharded", "replica", "alone",     "cp",
      "cp",    "cp",        "cp",     "expert tp", "expert replicas"};
  return kNames[static_cast<std::size_t>(slot)];
}

std::int32_t slot_of(const RankKind& kind, Slot slot) { return kind.slots[static_cast<std::size_t>(slot)]; }

}  // namespace

RankConnections::RankConnections(BuildContext& context, const RankKinds& kinds) : context_(context), kinds_(kinds) {
  for (int slot = 0; slot < kSlots; ++slot)
    if (is_used(static_cast<Slot>(slot))) used_slots_.push_back(static_cast<Slot>(slot));
}

/// True if some rank communicates in this slot, or makes transfers of its own in it.
bool RankConnections::is_used(Slot slot) const {
  const std::vector<CostedCollective>& calls = context_.graph.collectives;
  return !kinds_.unused(slot) ||
         (slot == Slot::alone && std::any_of(calls.begin(), calls.end(), [](const CostedCollective& each) {
            return static_cast<Slot>(each.slot) == Slot::alone;
          }));
}

std::vector<ChannelEnd> RankConnections::channels_of(int pp) const {
  std::vector<ChannelEnd> channels(static_cast<std::size_t>(4 * context_.schedule.chunks));
  for (int chunk = 0; chunk < context_.schedule.chunks; ++chunk) {
    const StageSlot before = context_.stage_placement.neighbour(pp, chunk, -1);
    const StageSlot after = context_.stage_placement.neighbour(pp, chunk, +1);
    const auto join = [&](ChannelSide own, StageSlot other, ChannelSide theirs) {
      if (other.rank >= 0 && other.rank != pp)
        channels[static_cast<std::size_t>(channel(chunk, own))] = {other.rank, channel(other.chunk, theirs)};
    };
    join(ChannelSide::receive_forward, before, ChannelSide::send_forward);
    join(ChannelSide::send_backward, before, ChannelSide::receive_backward);
    join(ChannelSide::send_forward, after, ChannelSide::receive_forward);
    join(ChannelSide::receive_backward, after, ChannelSide::send_backward);
  }
  return channels;
}

std::int32_t RankConnections::add_communicator(Slot slot, int pp, std::int32_t placement,
                                               std::vector<std::int32_t> members) {
  Communicator communicator;
  communicator.name = slot == Slot::world || slot == Slot::embedding || slot == Slot::replica
                          ? slot_name(slot)
                          : fmt::format("{} of stage {}", slot_name(slot), pp);
  communicator.placement = context_.placements.of(placement);
  communicator.members = std::move(members);
  context_.graph.communicators.push_back(std::move(communicator));
  return static_cast<std::int32_t>(context_.graph.communicators.size()) - 1;
}

std::int32_t RankConnections::add_embedding_communicator(const std::vector<RankKind>& kinds) {
  std::vector<std::int32_t> ends{context_.stage_placement.first().rank, context_.stage_placement.last().rank};
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return add_communicator(Slot::embedding, 0, slot_of(kinds[static_cast<std::size_t>(ends.front())], Slot::embedding),
                          ends);
}

/// [pipeline rank]: the communicator with the rank that holds the same stages in a bidirectional schedule.
std::vector<std::int32_t> RankConnections::add_mirrors(const std::vector<RankKind>& kinds) {
  std::vector<std::int32_t> mirrors;
  for (int pp = 0; pp < context_.schedule.ranks; ++pp) {
    const int other = context_.schedule.ranks - 1 - pp;
    const std::vector<std::int32_t> members =
        other == pp ? std::vector<std::int32_t>{pp} : std::vector<std::int32_t>{pp, other};
    mirrors.push_back(
        other < pp
            ? mirrors[static_cast<std::size_t>(other)]
            : add_communicator(Slot::mirror, pp, slot_of(kinds[static_cast<std::size_t>(pp)], Slot::mirror), members));
  }
  return mirrors;
}

void RankConnections::add_one_rank_per_stage(const std::vector<RankKind>& kinds, const Perturbation& perturbation) {
  const int ranks = context_.schedule.ranks;
  std::vector<std::int32_t> everyone(static_cast<std::size_t>(ranks));
  std::iota(everyone.begin(), everyone.end(), 0);
  const std::int32_t world = add_communicator(Slot::world, 0, slot_of(kinds.front(), Slot::world), everyone);
  const std::int32_t embedding = kinds_.unused(Slot::embedding) ? -1 : add_embedding_communicator(kinds);
  const std::int32_t replica =
      kinds_.unused(Slot::replica)
          ? -1
          : add_communicator(Slot::replica, 0, slot_of(kinds.front(), Slot::replica), everyone);
  std::vector<std::int32_t> mirrors;
  if (!kinds_.unused(Slot::mirror)) mirrors = add_mirrors(kinds);
  const auto communicator = [&](Slot slot, int pp) -> std::int32_t {
    if (!is_used(slot)) return -1;
    switch (slot) {
      case Slot::world:
        return world;
      case Slot::replica:
        return replica;
      case Slot::embedding:
        return embedding;
      case Slot::mirror:
        return mirrors[static_cast<std::size_t>(pp)];
      default:
        return add_communicator(slot, pp, slot_of(kinds[static_cast<std::size_t>(pp)], slot), {pp});
    }
  };
  for (int pp = 0; pp < ranks; ++pp) {
    Rank rank;
    Coordinates at{};
    at[Axis::pp] = pp;
    rank.representative = context_.plan.grid.rank(at);
    rank.multiplicity = context_.plan.world_size / ranks;
    const Pace pace = pace_of(perturbation, rank.representative);
    rank.slowdown = pace.slowdown;
    rank.first_batch = pace.first_batch;
    rank.program = pp;
    rank.pp_rank = pp;
    rank.channels = channels_of(pp);
    for (int slot = 0; slot < kSlots; ++slot) rank.communicators.push_back(communicator(static_cast<Slot>(slot), pp));
    context_.graph.ranks.push_back(std::move(rank));
  }
}

int RankConnections::partner(int rank, int pp, int other) const {
  return rank + (other - pp) * context_.plan.grid.stride(Axis::pp);
}

/// Communicators of one slot, numbered by their first rank; the label is their placement.
RankRelations::Family RankConnections::family(Slot slot, const std::vector<RankKind>& kinds,
                                              const std::vector<std::int32_t>& kind_of) const {
  const int world = context_.plan.world_size;
  RankRelations::Family family;
  family.group_of.resize(static_cast<std::size_t>(world));
  const std::vector<int> offsets = context_.groups.block(0, slot);
  std::vector<std::int32_t> group_of_part;
  for (const int begin : context_.groups.block_begins(slot)) {
    group_of_part.assign(offsets.size(), -1);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const auto rank = static_cast<std::size_t>(begin + offsets[i]);
      std::int32_t& group = group_of_part[static_cast<std::size_t>(context_.groups.part(slot, static_cast<int>(i)))];
      if (group < 0) {
        group = static_cast<std::int32_t>(family.label.size());
        family.label.push_back(slot_of(kinds[static_cast<std::size_t>(kind_of[rank])], slot));
      }
      family.group_of[rank] = group;
    }
  }
  return family;
}

/// A family for each used slot: in the others every rank is alone.
RankRelations RankConnections::relations(const std::vector<RankKind>& kinds, const std::vector<std::int32_t>& kind_of,
                                         const std::vector<Pace>& paces) const {
  RankRelations relations;
  std::map<std::pair<std::int32_t, Pace>, std::int32_t> seeds;
  for (std::size_t rank = 0; rank < kind_of.size(); ++rank)
    relations.seed.push_back(
        seeds.try_emplace({kind_of[rank], paces[rank]}, static_cast<std::int32_t>(seeds.size())).first->second);
  for (const Slot slot : used_slots_) relations.families.push_back(family(slot, kinds, kind_of));
  for (std::size_t rank = 0; rank < kind_of.size(); ++rank) {
    const int pp = kinds[static_cast<std::size_t>(kind_of[rank])].pp;
    const std::vector<int>& neighbours = kinds_.neighbours(pp);
    for (std::size_t k = 0; k < neighbours.size(); ++k) {
      if (relations.partners.size() <= k) relations.partners.emplace_back(kind_of.size(), -1);
      relations.partners[k][rank] = partner(static_cast<int>(rank), pp, neighbours[k]);
    }
  }
  return relations;
}

/// [class of groups] the communicator; its members are the classes of ranks that have a rank in the group.
std::vector<std::int32_t> RankConnections::add_communicators(const RankRelations& relations, const RankClasses& classes,
                                                             const std::vector<RankKind>& kinds,
                                                             const std::vector<std::int32_t>& kind_of) {
  std::vector<std::int32_t> communicators(static_cast<std::size_t>(classes.group_classes), -1);
  std::vector<std::vector<std::int32_t>> members(communicators.size());  // [class of groups]
  for (std::size_t f = 0; f < relations.families.size(); ++f) {
    const RankRelations::Family& family = relations.families[f];
    const Slot slot = used_slots_[f];
    const std::vector<std::int32_t>& class_of = classes.group_class[f];
    for (std::size_t c = 0; c < classes.first.size(); ++c) {
      const auto group = static_cast<std::size_t>(family.group_of[static_cast<std::size_t>(classes.first[c])]);
      members[static_cast<std::size_t>(class_of[group])].push_back(static_cast<std::int32_t>(c));
    }
    for (std::size_t group = 0; group < members.size(); ++group) {
      if (members[group].empty()) continue;  // of another family
      const auto first = static_cast<std::size_t>(classes.first[static_cast<std::size_t>(members[group].front())]);
      const RankKind& kind = kinds[static_cast<std::size_t>(kind_of[first])];
      communicators[group] = add_communicator(slot, kind.pp, slot_of(kind, slot), std::exchange(members[group], {}));
    }
  }
  return communicators;
}

RankConnections::Pace RankConnections::pace_of(const Perturbation& perturbation, int rank) const {
  const Plan& plan = context_.plan;
  return {slowdown_of(perturbation, rank), plan.batches_vary() ? plan.first_batch(plan.grid.coordinates(rank)) : -1};
}

/// `kinds`: of ranks, of which a class has one.
RankClasses RankConnections::classes_of(const RankRelations& related, std::size_t kinds, SimulatedRanks ranks) const {
  const auto stages = static_cast<std::size_t>(context_.schedule.ranks);
  if (ranks == SimulatedRanks::classes) return refine(related);
  if (ranks == SimulatedRanks::all || kinds > stages) return every_rank(related);
  RankClasses classes = refine(related);
  return classes.first.size() == stages ? classes : every_rank(related);
}

void RankConnections::add_classes(const std::vector<RankKind>& kinds, const std::vector<std::int32_t>& kind_of,
                                  const Perturbation& perturbation, SimulatedRanks ranks) {
  std::vector<Pace> paces;
  for (int rank = 0; rank < context_.plan.world_size; ++rank) paces.push_back(pace_of(perturbation, rank));
  const RankRelations related = relations(kinds, kind_of, paces);
  const RankClasses classes = classes_of(related, kinds.size(), ranks);
  const std::vector<std::int32_t> communicators = add_communicators(related, classes, kinds, kind_of);
  std::vector<std::vector<ChannelEnd>> channels;  // [pipeline rank]
  for (int pp = 0; pp < context_.schedule.ranks; ++pp) channels.push_back(channels_of(pp));
  context_.graph.ranks.reserve(classes.first.size());
  for (std::size_t c = 0; c < classes.first.size(); ++c) {
    const auto first = static_cast<std::size_t>(classes.first[c]);
    Rank rank;
    rank.representative = classes.first[c];
    rank.multiplicity = classes.size[c];
    rank.slowdown = paces[first].slowdown;
    rank.first_batch = paces[first].first_batch;
    rank.program = kind_of[first];
    const int pp = kinds[static_cast<std::size_t>(kind_of[first])].pp;
    rank.pp_rank = pp;
    rank.channels = channels[static_cast<std::size_t>(pp)];
    for (ChannelEnd& end : rank.channels)
      if (end.rank >= 0)
        end.rank = classes.class_of[static_cast<std::size_t>(partner(rank.representative, pp, end.rank))];
    rank.communicators.assign(kSlots, -1);
    for (std::size_t f = 0; f < related.families.size(); ++f) {
      const auto group = static_cast<std::size_t>(related.families[f].group_of[first]);
      rank.communicators[static_cast<std::size_t>(used_slots_[f])] =
          communicators[static_cast<std::size_t>(classes.group_class[f][group])];
    }
    context_.graph.ranks.push_back(std::move(rank));
  }
}

}  // namespace tracecast
