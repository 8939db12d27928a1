#include "sim/graph/link_classes.hpp"

#include <map>
#include <utility>

#include "sim/graph/refinement.hpp"

namespace tracecast {
namespace {

using Load = LinkUsers::Load;

std::int32_t at(const std::vector<std::int32_t>& classes, std::int32_t index) {
  return classes[static_cast<std::size_t>(index)];
}

enum Kind : std::size_t { kRanks, kUsers, kLinks };

/// Ranks with their program and slowdown, users with their labels, links with their capacities.
Nodes nodes_of(const LinkedStep& step) {
  constexpr std::uint64_t kSender = std::uint64_t{1} << 63;
  const auto packed = [](std::int32_t high, std::int32_t low) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32 | static_cast<std::uint32_t>(low);
  };
  Nodes nodes;
  nodes.labels.reserve(step.graph.ranks.size() + step.labels.size() + step.senders.size() + step.capacities.size());
  for (const Rank& rank : step.graph.ranks) nodes.add(packed(rank.program, rank.slowdown));
  nodes.end_kind();
  for (const std::int32_t label : step.labels) nodes.add(static_cast<std::uint32_t>(label));
  for (const Sender& sender : step.senders) nodes.add(kSender | packed(sender.label, sender.channel));
  nodes.end_kind();
  for (const std::int64_t capacity : step.capacities) nodes.add(static_cast<std::uint64_t>(capacity));
  nodes.end_kind();
  return nodes;
}

/// Calls f(user, link, number of the list of weights) for each load.
template <class OnLoad>
void each_load(const LinkUsers& users, const OnLoad& f) {
  for (std::int32_t user = 0; user < users.count(); ++user)
    for (const Load* load = users.begin(user); load != users.end(user); ++load)
      f(user, load->link, static_cast<std::uint32_t>(load->weights));
}

/// The communicators by slot, the ranks at the channels, and itself as a sender.
template <class See>
void each_edge_of_ranks(const LinkedStep& step, const See& see) {
  constexpr std::uint32_t kChannels = 1 << 16;  // above the numbers of slots and of the other ends' channels
  const auto ranks = static_cast<std::int32_t>(step.graph.ranks.size());
  for (std::int32_t r = 0; r < ranks; ++r) {
    const Rank& rank = step.graph.ranks[static_cast<std::size_t>(r)];
    for (std::size_t slot = 0; slot < rank.communicators.size(); ++slot)
      if (rank.communicators[slot] >= 0) see(r, ranks + rank.communicators[slot], static_cast<std::uint32_t>(slot));
    for (std::size_t channel = 0; channel < rank.channels.size(); ++channel)
      if (const ChannelEnd end = rank.channels[channel]; end.rank >= 0)
        see(r, end.rank, static_cast<std::uint32_t>(channel + 1) * kChannels + static_cast<std::uint32_t>(end.channel));
  }
  for (std::size_t i = 0; i < step.senders.size(); ++i) see(step.senders[i].rank, ranks + step.user_of(i), 0);
}

/// A rank sees its users and the ranks at its channels, a user sees its ranks and its links, a link sees its users.
template <class See>
void each_edge(const LinkedStep& step, std::size_t kind, const See& see) {
  if (kind == kRanks) return each_edge_of_ranks(step, see);
  const auto ranks = static_cast<std::int32_t>(step.graph.ranks.size());
  const std::int32_t links = ranks + step.users.count();
  each_load(step.users, [&](std::int32_t user, std::int32_t link, std::uint32_t weights) {
    kind == kUsers ? see(ranks + user, links + link, weights) : see(links + link, ranks + user, weights);
  });
  if (kind == kLinks) return;
  for (std::size_t i = 0; i < step.graph.communicators.size(); ++i)
    for (const std::int32_t member : step.graph.communicators[i].members)
      see(ranks + static_cast<std::int32_t>(i), member, 0);
  for (std::size_t i = 0; i < step.senders.size(); ++i) see(ranks + step.user_of(i), step.senders[i].rank, 0);
}

}  // namespace

LinkClasses refine(const LinkedStep& step) {
  const Nodes nodes = nodes_of(step);
  const NodeClasses classes = refine(nodes, [&](std::size_t kind, const auto& see) { each_edge(step, kind, see); });
  return {classes.of_kind(nodes, kRanks), classes.of_kind(nodes, kUsers), classes.of_kind(nodes, kLinks),
          classes.count(kRanks),          classes.count(kUsers),          classes.count(kLinks)};
}

std::optional<CrossedLinks> link_classes(const LinkUsers& users, const std::vector<std::int32_t>& user_class,
                                         std::int32_t user_classes, const std::vector<std::int64_t>& capacities) {
  CrossedLinks links;
  {
    std::vector<NodeColour> colours(capacities.size());
    each_load(users, [&](std::int32_t user, std::int32_t link, std::uint32_t weights) {
      const NodeColour own = mix(static_cast<NodeColour>(at(user_class, user)));
      colours[static_cast<std::size_t>(link)] += combine(own, weights);
    });
    for (std::size_t link = 0; link < colours.size(); ++link)
      colours[link] = combine(colours[link], static_cast<NodeColour>(capacities[link]));
    links.of = number_colours(colours, links.count);
  }
  Nodes nodes;
  nodes.labels.reserve(user_class.size() + capacities.size());
  std::vector<std::int32_t> classes = user_class;
  classes.reserve(nodes.labels.capacity());
  for (const std::int32_t own : user_class) nodes.add(static_cast<std::uint32_t>(own));
  nodes.end_kind();
  for (const std::int64_t capacity : capacities) nodes.add(static_cast<std::uint64_t>(capacity));
  nodes.end_kind();
  for (const std::int32_t own : links.of) classes.push_back(user_classes + own);
  const bool stable = is_stable(nodes, classes, [&](std::size_t kind, const auto& see) {
    each_load(users, [&](std::int32_t user, std::int32_t link, std::uint32_t weights) {
      kind == 0 ? see(user, users.count() + link, weights) : see(users.count() + link, user, weights);
    });
  });
  return stable ? std::optional(std::move(links)) : std::nullopt;
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
      if (at(first, at(link_class, load->link)) != load->link) continue;
      const LinkUsers::Weights& weights = users.weights(load->weights);
      LinkUsers::Weights& sum = sums[static_cast<std::size_t>(at(user_class, user))][load->link];
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
