#include "sim/graph/link_classes.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "sim/base/dense_numbers.hpp"
#include "sim/graph/refinement.hpp"

namespace tracecast {
namespace {

using Load = LinkUsers::Load;

std::int32_t at(const std::vector<std::int32_t>& classes, std::int32_t index) {
  return classes[static_cast<std::size_t>(index)];
}

std::uint64_t packed(std::int32_t high, std::int32_t low) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32 | static_cast<std::uint32_t>(low);
}

/// Calls f(user, link, number of the list of weights) for each load.
template <class OnLoad>
void each_load(const LinkUsers& users, const OnLoad& f) {
  for (std::int32_t user = 0; user < users.count(); ++user)
    for (const Load* load = users.begin(user); load != users.end(user); ++load)
      f(user, load->link, static_cast<std::uint32_t>(load->weights));
}

/// [program] the channels at which its ranks see others. Most ranks have many channels to few others; where all ranks of a
/// program use the same channels to the same ends, one to each other rank tells as much as all of them.
using SeenChannels = std::vector<std::vector<std::int32_t>>;

/// A channel of a rank: the first channel to the same other rank (-1: to none), and the channel there.
struct ChannelUse {
  std::int32_t first = -1;
  std::int32_t channel = -1;
};

std::vector<ChannelUse> channel_uses(const Rank& rank) {
  std::vector<ChannelUse> uses;
  for (const ChannelEnd& end : rank.channels) {
    const auto first = std::find_if(rank.channels.begin(), rank.channels.end(),
                                    [&](const ChannelEnd& other) { return other.rank == end.rank; });
    uses.push_back({end.rank < 0 ? -1 : static_cast<std::int32_t>(first - rank.channels.begin()), end.channel});
  }
  return uses;
}

/// True if these are the uses of the rank's channels.
bool are_uses(const std::vector<ChannelUse>& uses, const Rank& rank) {
  if (uses.size() != rank.channels.size()) return false;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const ChannelEnd& end = rank.channels[i];
    if (end.channel != uses[i].channel || (end.rank < 0) != (uses[i].first < 0)) return false;
    if (end.rank < 0) continue;
    const auto first = static_cast<std::size_t>(uses[i].first);
    if (rank.channels[first].rank != end.rank) return false;
    for (std::size_t other = 0; first == i && other < i; ++other)
      if (rank.channels[other].rank == end.rank) return false;
  }
  return true;
}

SeenChannels seen_channels(const StepGraph& graph) {
  std::size_t programs = 0;
  for (const Rank& rank : graph.ranks) programs = std::max(programs, static_cast<std::size_t>(rank.program) + 1);
  std::vector<std::optional<std::vector<ChannelUse>>> expected(programs);
  std::vector<bool> alike(programs, true);
  for (const Rank& rank : graph.ranks) {
    std::optional<std::vector<ChannelUse>>& known = expected[static_cast<std::size_t>(rank.program)];
    if (known && are_uses(*known, rank)) continue;
    if (known) alike[static_cast<std::size_t>(rank.program)] = false;
    if (!known || known->size() < rank.channels.size()) known = channel_uses(rank);
  }
  SeenChannels seen(programs);
  for (std::size_t program = 0; program < seen.size(); ++program)
    for (std::size_t channel = 0; expected[program] && channel < expected[program]->size(); ++channel)
      if (!alike[program] || (*expected[program])[channel].first == static_cast<std::int32_t>(channel))
        seen[program].push_back(static_cast<std::int32_t>(channel));
  return seen;
}

/// What ranks see apart from themselves as senders, in one list: every round visits it.
class SeenByRanks {
 public:
  explicit SeenByRanks(const StepGraph& graph) {
    constexpr std::uint32_t kChannels = 1 << 16;  // above the numbers of slots and of the other ends' channels
    const SeenChannels seen = seen_channels(graph);
    const auto ranks = static_cast<std::int32_t>(graph.ranks.size());
    edges_.reserve(8 * graph.ranks.size());
    ends_.reserve(graph.ranks.size());
    for (const Rank& rank : graph.ranks) {
      for (std::size_t slot = 0; slot < rank.communicators.size(); ++slot)
        if (rank.communicators[slot] >= 0)
          edges_.push_back({ranks + rank.communicators[slot], static_cast<std::uint32_t>(slot)});
      for (const std::int32_t channel : seen[static_cast<std::size_t>(rank.program)])
        if (static_cast<std::size_t>(channel) < rank.channels.size())
          if (const ChannelEnd end = rank.channels[static_cast<std::size_t>(channel)]; end.rank >= 0)
            edges_.push_back({end.rank, static_cast<std::uint32_t>(channel + 1) * kChannels +
                                            static_cast<std::uint32_t>(end.channel)});
      ends_.push_back(edges_.size());
    }
  }

  /// The communicators by slot, and the ranks at the channels. `first`: node of the first communicator
  template <class See>
  void each_edge(std::int32_t first, const See& see) const {
    const auto ranks = static_cast<std::int32_t>(ends_.size());
    std::size_t next = 0;
    for (std::int32_t rank = 0; rank < ranks; ++rank)
      for (const std::size_t end = ends_[static_cast<std::size_t>(rank)]; next < end; ++next) {
        const Edge& edge = edges_[next];
        see(rank, edge.other < ranks ? edge.other : edge.other + first - ranks, edge.label);
      }
  }

 private:
  struct Edge {
    std::int32_t other = 0;  ///< rank, or communicator after the ranks
    std::uint32_t label = 0;
  };
  std::vector<Edge> edges_;
  std::vector<std::size_t> ends_;  ///< [rank]
};

template <class See>
void each_member(const StepGraph& graph, std::int32_t first, const See& see) {
  for (std::size_t i = 0; i < graph.communicators.size(); ++i)
    for (const std::int32_t member : graph.communicators[i].members)
      see(first + static_cast<std::int32_t>(i), member, 0);
}

/// Refines ranks and communicators without links. The classes with links are finer. What differs in one rank passes along the
/// pipeline by a stage in a round, and without links these rounds are short.
NodeClasses classes_without_links(const LinkedStep& step, const SeenByRanks& seen) {
  Nodes nodes;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> paces;  // slowdown, first batch
  for (const Rank& rank : step.graph.ranks)
    nodes.add(packed(
        rank.program,
        paces.try_emplace({rank.slowdown, rank.first_batch}, static_cast<std::int32_t>(paces.size())).first->second));
  nodes.end_kind();
  for (const std::int32_t label : step.labels) nodes.add(static_cast<std::uint32_t>(label));
  nodes.end_kind();
  const auto ranks = static_cast<std::int32_t>(step.graph.ranks.size());
  return refine(nodes, [&](std::size_t kind, const auto& see) {
    kind == 0 ? seen.each_edge(ranks, see) : each_member(step.graph, ranks, see);
  });
}

/// Links come before users: users then see links that their users have divided.
enum Kind : std::size_t { kRanks, kLinks, kUsers };

/// Ranks and communicators with their classes without links, senders with those of their ranks, links with their capacities.
Nodes nodes_of(const LinkedStep& step, const std::vector<std::int32_t>& known) {
  constexpr std::uint64_t kSender = std::uint64_t{1} << 63;
  const std::size_t ranks = step.graph.ranks.size();
  Nodes nodes;
  nodes.labels.reserve(known.size() + step.senders.size() + step.capacities.size());
  for (std::size_t i = 0; i < ranks; ++i) nodes.add(static_cast<std::uint32_t>(known[i]));
  nodes.end_kind();
  for (const std::int64_t capacity : step.capacities) nodes.add(static_cast<std::uint64_t>(capacity));
  nodes.end_kind();
  for (std::size_t i = ranks; i < known.size(); ++i) nodes.add(static_cast<std::uint32_t>(known[i]));
  DenseNumbers<std::pair<std::uint64_t, std::int32_t>> senders;
  for (const Sender& sender : step.senders) {
    const std::pair own(packed(sender.label, sender.channel), at(known, sender.rank));
    nodes.add(kSender | static_cast<std::uint64_t>(
                            senders.number(own, combine(own.first, static_cast<std::uint64_t>(own.second)))));
  }
  nodes.end_kind();
  return nodes;
}

/// A rank sees its users and the ranks at its channels, a user sees its ranks and its links, a link sees its users.
template <class See>
void each_edge(const LinkedStep& step, const SeenByRanks& seen, const Nodes& nodes, std::size_t kind, const See& see) {
  const auto links = static_cast<std::int32_t>(nodes.begins[kLinks]);
  const auto users = static_cast<std::int32_t>(nodes.begins[kUsers]);
  if (kind == kRanks) {
    seen.each_edge(users, see);
    for (std::size_t i = 0; i < step.senders.size(); ++i) see(step.senders[i].rank, users + step.user_of(i), 0);
    return;
  }
  each_load(step.users, [&](std::int32_t user, std::int32_t link, std::uint32_t weights) {
    kind == kUsers ? see(users + user, links + link, weights) : see(links + link, users + user, weights);
  });
  if (kind == kLinks) return;
  each_member(step.graph, users, see);
  for (std::size_t i = 0; i < step.senders.size(); ++i) see(users + step.user_of(i), step.senders[i].rank, 0);
}

}  // namespace

LinkClasses refine(const LinkedStep& step) {
  const SeenByRanks seen(step.graph);
  const Nodes nodes = nodes_of(step, classes_without_links(step, seen).of);
  const NodeClasses classes =
      refine(nodes, [&](std::size_t kind, const auto& see) { each_edge(step, seen, nodes, kind, see); });
  return {classes.of_kind(nodes, kRanks), classes.of_kind(nodes, kUsers), classes.of_kind(nodes, kLinks),
          classes.count(kRanks),          classes.count(kUsers),          classes.count(kLinks)};
}

namespace {

/// The class of each link that users cross: the sum of (class, weights) over its users, and its capacity.
CrossedLinks classes_by_users(const LinkUsers& users, const std::vector<std::int32_t>& user_class,
                              const std::vector<std::int64_t>& capacities) {
  std::vector<ListSum> sums(capacities.size());
  each_load(users, [&](std::int32_t user, std::int32_t link, std::uint32_t weights) {
    sums[static_cast<std::size_t>(link)] += ListSum::of(at(user_class, user), weights).times(users.copies(user, link));
  });
  CrossedLinks links;
  links.of.assign(capacities.size(), -1);
  DenseNumbers<ListSum> numbers;
  for (std::size_t link = 0; link < sums.size(); ++link) {
    if (sums[link] == ListSum{}) continue;
    const ListSum sum = sums[link].beside(capacities[link]);
    links.of[link] = numbers.number(sum, sum.low);
  }
  links.count = numbers.count();
  return links;
}

}  // namespace

std::optional<CrossedLinks> link_classes(const LinkUsers& users, const std::vector<std::int32_t>& user_class,
                                         std::int32_t user_classes, const std::vector<std::int64_t>& capacities) {
  CrossedLinks links = classes_by_users(users, user_class, capacities);
  std::vector<ListSum> seen(user_class.size());
  each_load(users, [&](std::int32_t user, std::int32_t link, std::uint32_t weights) {
    seen[static_cast<std::size_t>(user)] += ListSum::of(at(links.of, link), weights);
  });
  std::vector<std::optional<ListSum>> expected(static_cast<std::size_t>(user_classes));
  for (std::size_t user = 0; user < seen.size(); ++user) {
    std::optional<ListSum>& first = expected[static_cast<std::size_t>(user_class[user])];
    if (!first) first = seen[user];
    if (*first != seen[user]) return std::nullopt;
  }
  return links;
}

FoldedWeights folded_weights(const LinkUsers& users, const std::vector<std::int32_t>& user_class,
                             std::int32_t user_classes, const std::vector<std::int32_t>& link_class,
                             std::int32_t link_classes) {
  std::vector<char> is_first(link_class.size());  // of its class
  std::int32_t known = 0;
  for (std::size_t link = 0; link < link_class.size(); ++link) {
    if (link_class[link] != known) continue;
    is_first[link] = 1;
    ++known;
  }
  TRACECAST_ASSERT(known == link_classes, "classes are numbered by their first link");
  // [class of users] by link: summed weights of its transfers
  std::vector<std::map<std::int32_t, LinkUsers::Weights>> sums(static_cast<std::size_t>(user_classes));
  for (std::int32_t user = 0; user < users.count(); ++user)
    for (const Load* load = users.begin(user); load != users.end(user); ++load) {
      if (is_first[static_cast<std::size_t>(load->link)] == 0) continue;
      const LinkUsers::Weights& weights = users.weights(load->weights);
      LinkUsers::Weights& sum = sums[static_cast<std::size_t>(at(user_class, user))][load->link];
      sum.resize(weights.size());
      for (std::size_t i = 0; i < weights.size(); ++i) sum[i] += weights[i] * users.copies(user, load->link);
    }
  FoldedWeights folded(sums.size());
  for (std::size_t c = 0; c < sums.size(); ++c)
    for (const auto& [link, weights] : sums[c]) {
      folded[c].resize(weights.size());
      for (std::size_t i = 0; i < weights.size(); ++i) {
        TRACECAST_ASSERT(weights[i] % users.order() == 0, "the links of an orbit bear the same");
        if (weights[i] > 0) folded[c][i].push_back({link, weights[i] / users.order()});
      }
    }
  return folded;
}

}  // namespace tracecast
