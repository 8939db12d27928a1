#include "sim/graph/classes.hpp"

#include <numeric>

#include "sim/graph/refinement.hpp"

namespace tracecast {
namespace {

std::size_t count_groups(const RankRelations& relations) {
  std::size_t groups = 0;
  for (const RankRelations::Family& family : relations.families) groups += family.label.size();
  return groups;
}

/// Ranks, then the groups of each family.
Nodes nodes_of(const RankRelations& relations) {
  Nodes nodes;
  nodes.labels.reserve(relations.seed.size() + count_groups(relations));
  for (const std::int32_t seed : relations.seed) nodes.add(static_cast<std::uint32_t>(seed));
  nodes.end_kind();
  for (std::size_t f = 0; f < relations.families.size(); ++f)
    for (const std::int32_t label : relations.families[f].label) nodes.add(f << 32 | static_cast<std::uint32_t>(label));
  nodes.end_kind();
  return nodes;
}

enum Kind : std::size_t { kRanks, kGroups };

/// A rank sees its group of each family and its partners, a group sees its members.
template <class See>
void each_edge(const RankRelations& relations, std::size_t kind, const See& see) {
  const auto ranks = static_cast<std::int32_t>(relations.seed.size());
  std::int32_t begin = ranks;  // of the family's groups
  std::uint32_t label = 0;
  for (const RankRelations::Family& family : relations.families) {
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      const std::int32_t group = begin + family.group_of[static_cast<std::size_t>(rank)];
      kind == kRanks ? see(rank, group, label) : see(group, rank, 0);
    }
    begin += static_cast<std::int32_t>(family.label.size());
    ++label;
  }
  if (kind == kGroups) return;
  for (const std::vector<std::int32_t>& partners : relations.partners) {
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      if (const std::int32_t partner = partners[static_cast<std::size_t>(rank)]; partner >= 0)
        see(rank, partner, label);
    ++label;
  }
}

/// Fills in `first` and `size`.
void count_members(RankClasses& classes, std::int32_t count) {
  classes.first.assign(static_cast<std::size_t>(count), -1);
  classes.size.assign(static_cast<std::size_t>(count), 0);
  for (std::size_t rank = 0; rank < classes.class_of.size(); ++rank) {
    const auto own = static_cast<std::size_t>(classes.class_of[rank]);
    if (classes.size[own]++ == 0) classes.first[own] = static_cast<std::int32_t>(rank);
  }
}

/// `groups`: class of each group, family after family.
RankClasses make_classes(const RankRelations& relations, std::vector<std::int32_t> ranks, std::int32_t rank_classes,
                         const std::vector<std::int32_t>& groups, std::int32_t group_classes) {
  RankClasses classes;
  classes.class_of = std::move(ranks);
  count_members(classes, rank_classes);
  auto next = groups.begin();
  for (const RankRelations::Family& family : relations.families) {
    const auto end = next + static_cast<std::ptrdiff_t>(family.label.size());
    classes.group_class.emplace_back(next, end);
    next = end;
  }
  classes.group_classes = group_classes;
  return classes;
}

}  // namespace

RankClasses refine(const RankRelations& relations) {
  const Nodes nodes = nodes_of(relations);
  const NodeClasses classes =
      refine(nodes, [&](std::size_t kind, const auto& see) { each_edge(relations, kind, see); });
  return make_classes(relations, classes.of_kind(nodes, kRanks), classes.count(kRanks), classes.of_kind(nodes, kGroups),
                      classes.count(kGroups));
}

RankClasses every_rank(const RankRelations& relations) {
  std::vector<std::int32_t> ranks(relations.seed.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<std::int32_t> groups(count_groups(relations));
  std::iota(groups.begin(), groups.end(), 0);
  const auto rank_classes = static_cast<std::int32_t>(ranks.size());
  return make_classes(relations, std::move(ranks), rank_classes, groups, static_cast<std::int32_t>(groups.size()));
}

}  // namespace tracecast
