#include "sim/graph/classes.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/base/result.hpp"
#include "sim/graph/colour.hpp"

namespace tracecast {
namespace {

std::vector<ClassColour> group_colours(const RankRelations::Family& family, const std::vector<ClassColour>& ranks) {
  std::vector<ClassColour> groups(family.label.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    groups[static_cast<std::size_t>(family.group_of[rank])] += mix(ranks[rank]);
  for (std::size_t group = 0; group < groups.size(); ++group)
    groups[group] = combine(groups[group], static_cast<ClassColour>(family.label[group]));
  return groups;
}

std::vector<ClassColour> refined(const RankRelations& relations, const std::vector<ClassColour>& ranks) {
  std::vector<ClassColour> next = ranks;
  for (const RankRelations::Family& family : relations.families) {
    const std::vector<ClassColour> groups = group_colours(family, ranks);
    for (std::size_t rank = 0; rank < next.size(); ++rank)
      next[rank] = combine(next[rank], groups[static_cast<std::size_t>(family.group_of[rank])]);
  }
  for (const std::vector<std::int32_t>& partners : relations.partners)
    for (std::size_t rank = 0; rank < next.size(); ++rank)
      next[rank] = combine(next[rank], partners[rank] < 0 ? 0 : mix(ranks[static_cast<std::size_t>(partners[rank])]));
  return next;
}

/// The members' classes of every group, sorted.
std::vector<std::vector<std::int32_t>> members_of(const RankRelations::Family& family,
                                                  const std::vector<std::int32_t>& class_of) {
  std::vector<std::vector<std::int32_t>> members(family.label.size());
  for (std::size_t rank = 0; rank < class_of.size(); ++rank)
    members[static_cast<std::size_t>(family.group_of[rank])].push_back(class_of[rank]);
  for (std::vector<std::int32_t>& each : members) std::sort(each.begin(), each.end());
  return members;
}

/// Groups of one colour have the same label and the same members' classes.
bool groups_agree(const RankRelations::Family& family, const std::vector<std::int32_t>& class_of,
                  const std::vector<std::int32_t>& group_class) {
  const std::vector<std::vector<std::int32_t>> members = members_of(family, class_of);
  std::vector<std::int32_t> first(group_class.size(), -1);
  for (std::size_t group = 0; group < group_class.size(); ++group) {
    std::int32_t& model = first[static_cast<std::size_t>(group_class[group])];
    if (model < 0) model = static_cast<std::int32_t>(group);
    const auto other = static_cast<std::size_t>(model);
    if (family.label[group] != family.label[other] || members[group] != members[other]) return false;
  }
  return true;
}

/// Every rank sees what the representative of its class sees.
bool ranks_agree(const RankRelations& relations, const RankClasses& classes) {
  for (std::size_t rank = 0; rank < classes.class_of.size(); ++rank) {
    const auto model = static_cast<std::size_t>(classes.first[static_cast<std::size_t>(classes.class_of[rank])]);
    if (relations.seed[rank] != relations.seed[model]) return false;
    for (std::size_t f = 0; f < relations.families.size(); ++f) {
      const auto class_of_group = [&](std::size_t r) {
        return classes.group_class[f][static_cast<std::size_t>(relations.families[f].group_of[r])];
      };
      if (class_of_group(rank) != class_of_group(model)) return false;
    }
    for (const std::vector<std::int32_t>& partners : relations.partners) {
      const auto class_of_partner = [&](std::size_t r) {
        return partners[r] < 0 ? -1 : classes.class_of[static_cast<std::size_t>(partners[r])];
      };
      if (class_of_partner(rank) != class_of_partner(model)) return false;
    }
  }
  return true;
}

bool exact(const RankRelations& relations, const RankClasses& classes) {
  for (std::size_t f = 0; f < relations.families.size(); ++f)
    if (!groups_agree(relations.families[f], classes.class_of, classes.group_class[f])) return false;
  return ranks_agree(relations, classes);
}

void count_members(RankClasses& classes, std::int32_t count) {
  classes.first.assign(static_cast<std::size_t>(count), -1);
  classes.size.assign(static_cast<std::size_t>(count), 0);
  for (std::size_t rank = 0; rank < classes.class_of.size(); ++rank) {
    const auto own = static_cast<std::size_t>(classes.class_of[rank]);
    if (classes.size[own]++ == 0) classes.first[own] = static_cast<std::int32_t>(rank);
  }
}

/// Nothing when two colours met by chance.
std::optional<RankClasses> refine_with(const RankRelations& relations, ClassColour salt) {
  std::vector<ClassColour> colours(relations.seed.size());
  for (std::size_t rank = 0; rank < colours.size(); ++rank)
    colours[rank] = combine(salt, static_cast<ClassColour>(relations.seed[rank]));
  RankClasses classes;
  std::int32_t count = 0;
  classes.class_of = number(colours, count);
  for (std::int32_t before = 0; before != count; ++classes.rounds) {
    before = count;
    colours = refined(relations, colours);
    classes.class_of = number(colours, count);
  }
  count_members(classes, count);
  for (const RankRelations::Family& family : relations.families) {
    std::int32_t groups = 0;
    classes.group_class.push_back(number(group_colours(family, colours), groups));
  }
  if (!exact(relations, classes)) return std::nullopt;
  return classes;
}

}  // namespace

RankClasses refine(const RankRelations& relations) {
  constexpr ClassColour kAttempts = 8;  // one in 10^7 of a million ranks fails, by the birthday bound
  for (ClassColour salt = 1; salt <= kAttempts; ++salt)
    if (std::optional<RankClasses> classes = refine_with(relations, salt)) return std::move(*classes);
  TRACECAST_ASSERT(false, "colours meet by chance again and again");
  return {};
}

RankClasses every_rank(const RankRelations& relations) {
  RankClasses classes;
  classes.class_of.resize(relations.seed.size());
  std::iota(classes.class_of.begin(), classes.class_of.end(), 0);
  classes.first = classes.class_of;
  classes.size.assign(relations.seed.size(), 1);
  for (const RankRelations::Family& family : relations.families) {
    classes.group_class.emplace_back(family.label.size());
    std::iota(classes.group_class.back().begin(), classes.group_class.back().end(), 0);
  }
  return classes;
}

}  // namespace tracecast
