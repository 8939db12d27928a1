#include "sim/graph/link_classes.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "sim/base/result.hpp"
#include "sim/graph/colour.hpp"

namespace tracecast {
namespace {

using Load = LinkUsers::Load;

ClassColour& at(std::vector<ClassColour>& colours, std::int32_t index) {
  return colours[static_cast<std::size_t>(index)];
}
ClassColour at(const std::vector<ClassColour>& colours, std::int32_t index) {
  return colours[static_cast<std::size_t>(index)];
}

std::int32_t class_at(const std::vector<std::int32_t>& classes, std::int32_t index) {
  return classes[static_cast<std::size_t>(index)];
}

ClassColour crossing(ClassColour other, std::int32_t weights) {
  return combine(other, static_cast<ClassColour>(weights));
}

// ---- Refinement ------------------------------------------------------------------------------------------------------

struct Colours {
  std::vector<ClassColour> rank;
  std::vector<ClassColour> user;
  std::vector<ClassColour> link;
};

/// [rank] equal: one program, one speed.
std::vector<std::int32_t> seeds(const StepGraph& graph) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> known;
  std::vector<std::int32_t> result;
  for (const Rank& rank : graph.ranks)
    result.push_back(
        known.try_emplace({rank.program, rank.slowness}, static_cast<std::int32_t>(known.size())).first->second);
  return result;
}

Colours first_colours(const LinkedStep& step, ClassColour salt) {
  Colours colours;
  for (const std::int32_t seed : seeds(step.graph))
    colours.rank.push_back(combine(salt, static_cast<ClassColour>(seed)));
  for (const std::int32_t label : step.labels) colours.user.push_back(combine(salt, static_cast<ClassColour>(label)));
  for (const Sender& sender : step.senders)
    colours.user.push_back(
        combine(combine(~salt, static_cast<ClassColour>(sender.label)), static_cast<ClassColour>(sender.channel)));
  for (const std::int64_t capacity : step.capacities)
    colours.link.push_back(combine(salt, static_cast<ClassColour>(capacity)));
  return colours;
}

std::vector<ClassColour> next_users(const LinkedStep& step, const Colours& now) {
  std::vector<ClassColour> next = now.user;
  for (std::size_t i = 0; i < step.graph.communicators.size(); ++i) {
    ClassColour members = 0;
    for (const std::int32_t member : step.graph.communicators[i].members) members += mix(at(now.rank, member));
    next[i] = combine(next[i], members);
  }
  for (std::size_t i = 0; i < step.senders.size(); ++i) {
    ClassColour& own = at(next, step.user_of(i));
    own = combine(own, at(now.rank, step.senders[i].rank));
  }
  for (std::int32_t user = 0; user < step.users.count(); ++user) {
    ClassColour sum = 0;
    for (const Load* load = step.users.begin(user); load != step.users.end(user); ++load)
      sum += mix(crossing(at(now.link, load->link), load->weights));
    at(next, user) = combine(at(next, user), sum);
  }
  return next;
}

std::vector<ClassColour> next_links(const LinkUsers& users, const std::vector<ClassColour>& user_colours,
                                    const std::vector<ClassColour>& now) {
  std::vector<ClassColour> sums(now.size());
  for (std::int32_t user = 0; user < users.count(); ++user)
    for (const Load* load = users.begin(user); load != users.end(user); ++load)
      at(sums, load->link) += mix(crossing(at(user_colours, user), load->weights));
  for (std::size_t link = 0; link < now.size(); ++link) sums[link] = combine(now[link], sums[link]);
  return sums;
}

std::vector<ClassColour> next_ranks(const LinkedStep& step, const Colours& now) {
  std::vector<ClassColour> next = now.rank;
  for (std::size_t r = 0; r < next.size(); ++r) {
    const Rank& rank = step.graph.ranks[r];
    for (const std::int32_t communicator : rank.communicators)
      next[r] = combine(next[r], communicator < 0 ? 0 : at(now.user, communicator));
    for (const ChannelEnd& end : rank.channels)
      next[r] =
          combine(next[r], end.rank < 0 ? 0 : combine(at(now.rank, end.rank), static_cast<ClassColour>(end.channel)));
  }
  for (std::size_t i = 0; i < step.senders.size(); ++i) {
    ClassColour& own = at(next, step.senders[i].rank);
    own = combine(own, at(now.user, step.user_of(i)));
  }
  return next;
}

LinkClasses numbered(const Colours& colours) {
  LinkClasses classes;
  classes.rank = number(colours.rank, classes.ranks);
  classes.user = number(colours.user, classes.user_count);
  classes.link = number(colours.link, classes.links);
  return classes;
}

// ---- The exact check -------------------------------------------------------------------------------------------------

/// Two numbers in one, so that lists of pairs are compared and sorted quickly.
std::uint64_t pair_of(std::int32_t high, std::int32_t low) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32 | static_cast<std::uint32_t>(low);
}

/// Lists of different lengths, one for each owner.
struct Lists {
  std::vector<std::size_t> first{0};
  std::vector<std::uint64_t> items;
  void close() { first.push_back(items.size()); }
  std::span<const std::uint64_t> of(std::size_t owner) const {
    return {items.data() + first[owner], first[owner + 1] - first[owner]};
  }
};

/// Whether owners of a class have the same items, each as often, in any order: heard of one owner after the other.
class Alike {
 public:
  bool agree(std::int32_t own_class, std::span<const std::uint64_t> items) {
    const auto own = static_cast<std::size_t>(own_class);
    if (models_.size() <= own) models_.resize(own + 1);
    Model& model = models_[own];
    if (!std::exchange(model.known, true)) {
      model.items.assign(items.begin(), items.end());
      return true;
    }
    if (items.size() != model.items.size()) return false;
    if (std::equal(items.begin(), items.end(), model.items.begin())) return true;  // in the same order, as most are
    if (model.sorted.empty()) {
      model.sorted = model.items;
      std::sort(model.sorted.begin(), model.sorted.end());
    }
    own_.assign(items.begin(), items.end());
    std::sort(own_.begin(), own_.end());
    return own_ == model.sorted;
  }

 private:
  /// The first of a class.
  struct Model {
    bool known = false;
    std::vector<std::uint64_t> items;
    std::vector<std::uint64_t> sorted;  ///< where that has been needed
  };

  std::vector<Model> models_;
  std::vector<std::uint64_t> own_;
};

bool alike(const Lists& lists, const std::vector<std::int32_t>& class_of) {
  Alike check;
  for (std::size_t owner = 0; owner < class_of.size(); ++owner)
    if (!check.agree(class_of[owner], lists.of(owner))) return false;
  return true;
}

bool links_agree(const LinkUsers& users, const std::vector<std::int32_t>& user_class,
                 const std::vector<std::int32_t>& link_class, const std::vector<std::int64_t>& capacities) {
  std::vector<std::int32_t> first;  // [class]
  for (std::size_t link = 0; link < link_class.size(); ++link) {
    const auto own = static_cast<std::size_t>(link_class[link]);
    if (own == first.size()) first.push_back(static_cast<std::int32_t>(link));
    if (capacities[link] != capacities[static_cast<std::size_t>(first[own])]) return false;
  }
  // While items are put into their lists, first[link + 1] is where the next one of `link` goes: at last where its list ends.
  Lists lists;
  lists.first.assign(capacities.size() + 2, 0);
  for (std::int32_t user = 0; user < users.count(); ++user)
    for (const Load* load = users.begin(user); load != users.end(user); ++load)
      ++lists.first[static_cast<std::size_t>(load->link) + 2];
  std::partial_sum(lists.first.begin(), lists.first.end(), lists.first.begin());
  lists.items.resize(lists.first.back());
  for (std::int32_t user = 0; user < users.count(); ++user)
    for (const Load* load = users.begin(user); load != users.end(user); ++load)
      lists.items[lists.first[static_cast<std::size_t>(load->link) + 1]++] =
          pair_of(class_at(user_class, user), load->weights);
  return alike(lists, link_class);
}

bool members_agree(const LinkedStep& step, const LinkClasses& classes) {
  Lists lists;
  for (std::size_t i = 0; i < step.graph.communicators.size(); ++i) {
    lists.items.push_back(pair_of(0, step.labels[i]));
    for (const std::int32_t member : step.graph.communicators[i].members)
      lists.items.push_back(pair_of(1, class_at(classes.rank, member)));
    lists.close();
  }
  for (const Sender& sender : step.senders) {
    lists.items.push_back(pair_of(0, sender.channel));
    lists.items.push_back(pair_of(2, sender.label));
    lists.items.push_back(pair_of(1, class_at(classes.rank, sender.rank)));
    lists.close();
  }
  return alike(lists, classes.user);
}

bool ranks_agree(const LinkedStep& step, const LinkClasses& classes) {
  Lists lists;  // of pairs: what, class
  const std::vector<std::int32_t> seed = seeds(step.graph);
  std::size_t sender = 0;
  for (std::size_t r = 0; r < step.graph.ranks.size(); ++r) {
    const Rank& rank = step.graph.ranks[r];
    std::int32_t what = 0;
    lists.items.push_back(pair_of(what++, seed[r]));
    for (const std::int32_t communicator : rank.communicators)
      lists.items.push_back(pair_of(what++, communicator < 0 ? -1 : class_at(classes.user, communicator)));
    for (const ChannelEnd& end : rank.channels) {
      lists.items.push_back(pair_of(what++, end.rank < 0 ? -1 : class_at(classes.rank, end.rank)));
      lists.items.push_back(pair_of(what++, end.channel));
    }
    for (; sender < step.senders.size() && step.senders[sender].rank == static_cast<std::int32_t>(r); ++sender)
      lists.items.push_back(pair_of(what++, class_at(classes.user, step.user_of(sender))));
    lists.close();
  }
  return alike(lists, classes.rank);
}

/// Nothing when two colours met by chance.
std::optional<LinkClasses> refine_with(const LinkedStep& step, ClassColour salt) {
  Colours colours = first_colours(step, salt);
  LinkClasses classes = numbered(colours);
  for (std::int32_t before = 0, now = 1; before != now;) {
    before = classes.ranks + classes.user_count + classes.links;
    colours = {next_ranks(step, colours), next_users(step, colours),
               next_links(step.users, colours.user, colours.link)};
    classes = numbered(colours);
    now = classes.ranks + classes.user_count + classes.links;
  }
  const bool exact = ranks_agree(step, classes) && members_agree(step, classes) &&
                     loads_agree(step.users, classes.user, classes.link, step.capacities);
  return exact ? std::optional(std::move(classes)) : std::nullopt;
}

}  // namespace

LinkClasses refine(const LinkedStep& step) {
  constexpr ClassColour kAttempts = 8;  // by the birthday bound one in 10^7 of a million ranks fails
  for (ClassColour salt = 1; salt <= kAttempts; ++salt)
    if (std::optional<LinkClasses> classes = refine_with(step, salt)) return std::move(*classes);
  TRACECAST_ASSERT(false, "colours meet by chance again and again");
  return {};
}

std::vector<std::int32_t> link_classes(const LinkUsers& users, const std::vector<std::int32_t>& user_class,
                                       const std::vector<std::int64_t>& capacities, std::int32_t& count) {
  std::vector<ClassColour> user_colours(user_class.size());
  for (std::size_t user = 0; user < user_class.size(); ++user)
    user_colours[user] = mix(static_cast<ClassColour>(user_class[user]) + 1);
  std::vector<ClassColour> colours(capacities.size());
  for (std::size_t link = 0; link < colours.size(); ++link)
    colours[link] = mix(static_cast<ClassColour>(capacities[link]));
  return number(next_links(users, user_colours, colours), count);
}

bool loads_agree(const LinkUsers& users, const std::vector<std::int32_t>& user_class,
                 const std::vector<std::int32_t>& link_class, const std::vector<std::int64_t>& capacities) {
  Alike check;
  std::vector<std::uint64_t> items;
  for (std::int32_t user = 0; user < users.count(); ++user) {
    items.clear();
    for (const Load* load = users.begin(user); load != users.end(user); ++load)
      items.push_back(pair_of(class_at(link_class, load->link), load->weights));
    if (!check.agree(class_at(user_class, user), items)) return false;
  }
  return links_agree(users, user_class, link_class, capacities);
}

FoldedWeights folded_weights(const LinkUsers& users, const std::vector<std::int32_t>& user_class,
                             std::int32_t user_classes, const std::vector<std::int32_t>& link_class,
                             std::int32_t link_classes) {
  std::vector<std::int32_t> first(static_cast<std::size_t>(link_classes), -1);
  for (std::size_t link = link_class.size(); link-- > 0;)
    first[static_cast<std::size_t>(link_class[link])] = static_cast<std::int32_t>(link);
  // [class of users] by link: summed weights of its transfers
  std::vector<std::map<std::int32_t, LinkUsers::Weights>> sums(static_cast<std::size_t>(user_classes));
  for (std::int32_t user = 0; user < users.count(); ++user)
    for (const Load* load = users.begin(user); load != users.end(user); ++load) {
      if (class_at(first, class_at(link_class, load->link)) != load->link) continue;
      const LinkUsers::Weights& weights = users.weights(load->weights);
      LinkUsers::Weights& sum = sums[static_cast<std::size_t>(class_at(user_class, user))][load->link];
      sum.resize(weights.size());
      for (std::size_t i = 0; i < weights.size(); ++i) sum[i] += weights[i];
    }
  FoldedWeights folded(sums.size());
  for (std::size_t c = 0; c < sums.size(); ++c)
    for (const auto& [link, weights] : sums[c]) {
      folded[c].resize(weights.size());
      for (std::size_t i = 0; i < weights.size(); ++i)
        if (weights[i] > 0) folded[c][i].push_back({link, weights[i]});
    }
  return folded;
}

}  // namespace tracecast
