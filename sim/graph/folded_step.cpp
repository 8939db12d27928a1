#include "sim/graph/folded_step.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "sim/base/result.hpp"
#include "sim/graph/dominated_links.hpp"
#include "sim/graph/link_classes.hpp"

namespace tracecast {
namespace {

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

/// [communicator] its slot on its members; -1: none.
std::vector<std::int32_t> slots_of(const StepGraph& graph) {
  std::vector<std::int32_t> slots(graph.communicators.size(), -1);
  for (const Rank& rank : graph.ranks)
    for (std::size_t slot = 0; slot < rank.communicators.size(); ++slot)
      if (rank.communicators[slot] >= 0) slots[index(rank.communicators[slot])] = static_cast<std::int32_t>(slot);
  return slots;
}

/// [communicator] equal: the same slot and placement.
std::vector<std::int32_t> labels_of(const StepGraph& graph, const std::vector<std::int32_t>& slots) {
  std::vector<std::pair<std::int32_t, GroupPlacement>> known;
  std::vector<std::int32_t> labels;
  for (std::size_t i = 0; i < graph.communicators.size(); ++i) {
    const std::pair own(slots[i], graph.communicators[i].placement);
    const auto found = std::find(known.begin(), known.end(), own);
    labels.push_back(static_cast<std::int32_t>(found - known.begin()));
    if (found == known.end()) known.push_back(own);
  }
  return labels;
}

/// Finds the links that each user loads, and the time of each transfer without sharing.
class Linker {
 public:
  Linker(const StepGraph& graph, const ClusterLinks& links)
      : links_(links),
        orbits_(links.orbits(links.gpus()).value()),
        shapes_(links),
        transfers_(graph),
        slots_(slots_of(graph)),
        step_{graph, {}, {}, labels_of(graph, slots_), {}} {
    for (const auto& sent : transfers_.sent) sent_.emplace_back(sent.begin(), sent.end());
    divisions_.resize(sent_.size());
    known_shapes_of_.assign(graph.communicators.size(), -1);
    for (std::int32_t link = 0; link < links.count(); ++link)
      step_.capacities.push_back(links.capacity(link).bytes_per_second);
    // Most ranks send to two others, over about eight links. What is not used of the memory costs nothing; doubling does.
    step_.users.reserve(graph.communicators.size() + 2 * graph.ranks.size(), 24 * graph.ranks.size());
    step_.senders.reserve(2 * graph.ranks.size());
    std::vector<std::int32_t> together;  // transfers of each user that can be in flight at one time
    for (std::size_t i = 0; i < graph.communicators.size(); ++i) {
      if (links.hashed()) {
        const std::vector<TransferShape> shapes = shapes_of_communicator(static_cast<std::int32_t>(i));
        step_.labels[i] = label_of(step_.labels[i], shapes);
        step_.users.add(loads_of(shapes, step_.users));
      } else {
        step_.users.add(loads_of_communicator(static_cast<std::int32_t>(i)));
      }
      together.push_back(1);
    }
    for (std::size_t r = 0; r < graph.ranks.size(); ++r) add_senders(static_cast<std::int32_t>(r), together);
    step_.users.drop_unshared_links(links.count(), together);
  }

  const LinkedStep& step() const { return step_; }
  /// True if equivalent transfers may differ in time even without sharing, because their flows collide on cables.
  bool hashed() const { return links_.hashed(); }

  const std::vector<std::int32_t>& collectives_of(std::int32_t communicator) const {
    static const std::vector<std::int32_t> kNone;
    const auto& called = transfers_.called[index(first_member(communicator).program)];
    const auto found = called.find(slots_[index(communicator)]);
    return found == called.end() ? kNone : found->second;
  }

  /// Shapes of the collectives that it calls; one without loads shares no link.
  std::vector<TransferShape> shapes_of_communicator(std::int32_t communicator) {
    std::vector<int> ranks;
    for (const std::int32_t member : step_.graph.communicators[index(communicator)].members)
      ranks.push_back(step_.graph.ranks[index(member)].representative);
    std::optional<FlowGroup> group;
    std::vector<TransferShape> shapes;
    for (const std::int32_t each : collectives_of(communicator)) {
      const CostedCollective& collective = step_.graph.collectives[index(each)];
      shapes.emplace_back();
      if (!loads_links(collective.call, collective.cost, ranks.size())) continue;
      if (!group) group = make_flow_group(links_, ranks);
      const FlowSchedule schedule = collective_flows(collective.call, collective.cost.algorithm, *group);
      shapes.back() = shapes_.shape(collective.cost, schedule, *group);
    }
    return shapes;
  }

  /// The same; the loads may be left out.
  std::vector<TransferShape> times_of_communicator(std::int32_t communicator) {
    const std::int32_t known = known_shapes_of_[index(communicator)];
    return known < 0 ? shapes_of_communicator(communicator) : known_shapes_[index(known)];
  }

  /// Channels of a sender, with the messages that it sends there.
  using Channels = std::vector<std::pair<std::int32_t, std::int32_t>>;
  Channels channels_of(const Sender& sender) const {
    const Rank& rank = step_.graph.ranks[index(sender.rank)];
    Channels channels;
    for (const auto& [channel, payload] : sent_[index(rank.program)])
      if (rank.channels[index(channel)].rank == sender.to) channels.emplace_back(channel, payload);
    return channels;
  }

  /// Shapes of the messages on these channels.
  std::vector<TransferShape> shapes_of_sender(const Sender& sender) {
    std::optional<FlowGroup> group;
    std::vector<TransferShape> shapes;
    for (const auto& [channel, payload] : channels_of(sender)) {
      const Message& message = step_.graph.messages[index(payload)];
      const CollectiveCall call{Collective::send_recv, message.size};
      shapes.emplace_back();
      if (!loads_links(call, message.cost, 2)) continue;
      if (!group) group = make_flow_group(links_, std::vector{representative(sender.rank), representative(sender.to)});
      shapes.back() = shapes_.shape(message.cost, message_flows(message.size, group->port[1]), *group);
    }
    return shapes;
  }

 private:
  int representative(std::int32_t rank) const { return step_.graph.ranks[index(rank)].representative; }

  const Rank& first_member(std::int32_t communicator) const {
    return step_.graph.ranks[index(step_.graph.communicators[index(communicator)].members.front())];
  }

  /// Equal for equal `label` and times without sharing: with hashing, of two equivalent transfers one may collide on
  /// cables.
  std::int32_t label_of(std::int32_t label, const std::vector<TransferShape>& shapes) {
    std::vector<Duration> times;
    for (const TransferShape& shape : shapes) times.push_back(shape.moving);
    return known_labels_.try_emplace({label, std::move(times)}, static_cast<std::int32_t>(known_labels_.size()))
        .first->second;
  }

  /// The transfers of a group, for all groups that are translations of it (ClusterLinks::is_translation).
  struct Pattern {
    int first = 0;  ///< rank
    int last = 0;
    std::vector<LinkUsers::Load> loads;
    std::int32_t shapes = 0;  ///< index into known_shapes_
  };

  /// The loads of its collectives.   Requires even routing
  const std::vector<LinkUsers::Load>& loads_of_communicator(std::int32_t communicator) {
    const std::vector<std::int32_t>& members = step_.graph.communicators[index(communicator)].members;
    loads_.clear();
    if (members.size() < 2) return loads_;
    if (!links_.equal_domains()) {  // no group is a translation of another
      loads_ = loads_of(shapes_of_communicator(communicator), step_.users);
      return loads_;
    }
    const int first = representative(members.front());
    const int last = representative(members.back());
    std::vector<std::int32_t> key = collectives_of(communicator);
    key.push_back(-1);
    key.push_back(first % links_.gpus());
    for (const std::int32_t member : members) key.push_back(representative(member) - first);
    std::vector<Pattern>& patterns = patterns_[std::move(key)];
    for (const Pattern& pattern : patterns) {
      const int domains = links_.domain_of(first) - links_.domain_of(pattern.first);
      if (!links_.is_translation(pattern.first, pattern.last, domains)) continue;
      for (const LinkUsers::Load& load : pattern.loads)
        loads_.push_back({orbits_.translated(load.link, domains), load.weights});
      known_shapes_of_[index(communicator)] = pattern.shapes;
      return loads_;
    }
    const auto number = static_cast<std::int32_t>(known_shapes_.size());
    known_shapes_of_[index(communicator)] = number;
    known_shapes_.push_back(shapes_of_communicator(communicator));
    patterns.push_back({first, last, loads_of(known_shapes_.back(), step_.users), number});
    for (TransferShape& shape : known_shapes_.back()) shape.loads = {};
    return patterns.back().loads;
  }

  void add_senders(std::int32_t r, std::vector<std::int32_t>& together) {
    Division& division = divide_messages(step_.graph.ranks[index(r)]);
    for (std::size_t i = 0; i < receivers_.size(); ++i) {
      Sender sender{r, receivers_[i], division.channels[i].front().first};
      if (links_.hashed()) {
        const std::vector<TransferShape> shapes = shapes_of_sender(sender);
        sender.label = label_of(0, shapes);
        step_.users.add(loads_of(shapes, step_.users));
      } else {
        step_.users.add(loads_of_path(sender, *division.weights[i]));
      }
      step_.senders.push_back(sender);
      together.push_back(static_cast<std::int32_t>(division.channels[i].size()));
    }
  }

  /// The messages of a program by their receivers, which are numbered by their first message.
  struct Division {
    std::vector<std::int32_t> receiver;    ///< [message]
    std::vector<Channels> channels;        ///< [receiver]
    std::vector<MessageWeights*> weights;  ///< [receiver]
  };

  /// Fills in receivers_, too. Most ranks of a program divide its messages alike.
  Division& divide_messages(const Rank& rank) {
    const Channels& sent = sent_[index(rank.program)];
    receivers_.clear();
    numbers_.clear();
    for (const auto& [channel, payload] : sent) {
      const auto found = std::find(receivers_.begin(), receivers_.end(), rank.channels[index(channel)].rank);
      numbers_.push_back(static_cast<std::int32_t>(found - receivers_.begin()));
      if (found == receivers_.end()) receivers_.push_back(rank.channels[index(channel)].rank);
    }
    Division& known = divisions_[index(rank.program)];
    if (known.receiver != numbers_) {
      known = {numbers_, std::vector<Channels>(receivers_.size()), {}};
      for (std::size_t i = 0; i < sent.size(); ++i) known.channels[index(numbers_[i])].push_back(sent[i]);
      for (const Channels& channels : known.channels) known.weights.push_back(&weights_of(channels));
    }
    return known;
  }

  MessageWeights& weights_of(const Channels& channels) {
    std::vector<std::int32_t> messages;
    for (const auto& [channel, payload] : channels) messages.push_back(payload);
    auto known = message_weights_.find(messages);
    if (known == message_weights_.end()) {
      std::vector<Bandwidth> limits;
      for (const std::int32_t payload : messages) limits.push_back(limit_of(step_.graph.messages[index(payload)]));
      known = message_weights_.try_emplace(std::move(messages), std::move(limits)).first;
    }
    return known->second;
  }

  /// The loads of its messages, which take one path.   Requires even routing
  const std::vector<LinkUsers::Load>& loads_of_path(const Sender& sender, MessageWeights& weights) {
    loads_.clear();
    if (!weights.empty()) {
      path_.clear();
      const int to = representative(sender.to);
      links_.append_route(representative(sender.rank), to, links_.port_of(to), path_);
      for (const std::int32_t link : path_)
        loads_.push_back({link, weights.on_link_of(step_.capacities[index(link)], step_.users)});
      std::sort(loads_.begin(), loads_.end());
    }
    return loads_;
  }

  static Bandwidth limit_of(const Message& message) {
    const bool loads = loads_links({Collective::send_recv, message.size}, message.cost, 2);
    return loads ? rate_alone(message.cost, message_flows(message.size)) : Bandwidth{};
  }

  const ClusterLinks& links_;
  const LinkOrbits orbits_;  ///< each link by itself
  TransferShapes shapes_;
  ProgramTransfers transfers_;
  std::vector<std::int32_t> slots_;  ///< [communicator]
  std::vector<Channels> sent_;       ///< [program]
  std::vector<Division> divisions_;  ///< [program] of the last rank that differed
  std::map<std::pair<std::int32_t, std::vector<Duration>>, std::int32_t> known_labels_;
  std::map<std::vector<std::int32_t>, std::vector<Pattern>> patterns_;   ///< by collectives, place and relative ranks
  std::vector<std::vector<TransferShape>> known_shapes_;                 ///< of patterns; without loads
  std::vector<std::int32_t> known_shapes_of_;                            ///< [communicator] their number; -1: none
  std::map<std::vector<std::int32_t>, MessageWeights> message_weights_;  ///< by the messages from one rank to another
  std::vector<std::int32_t> receivers_;                                  ///< of the rank whose messages are divided
  std::vector<std::int32_t> numbers_;                                    ///< [message] of its receivers
  std::vector<LinkUsers::Load> loads_;
  LinkPath path_;
  LinkedStep step_;
};

/// The graph of the representatives.
class Folding {
 public:
  Folding(Linker& linker, const LinkClasses& classes)
      : linker_(linker),
        graph_(linker.step().graph),
        classes_(classes),
        communicator_of_class_(index(classes.user_count), -1) {}

  StepGraph fold() {
    copy_what_ranks_share();
    for (std::size_t r = 0; r < graph_.ranks.size(); ++r) count_rank(static_cast<std::int32_t>(r));
    for (const std::int32_t first : first_) add_rank(first);
    for (std::size_t i = 0; i < communicators_.size(); ++i) add_communicator(communicators_[i]);
    add_loads();
    return std::move(folded_);
  }

 private:
  void copy_what_ranks_share() {
    StepGraph& to = folded_;
    to.streams = graph_.streams;
    to.rank_events = graph_.rank_events;
    to.local_events = graph_.local_events;
    to.microbatches = graph_.microbatches;
    to.operators = graph_.operators;
    to.varying = graph_.varying;
    to.collectives = graph_.collectives;
    to.messages = graph_.messages;
    to.templates = graph_.templates;
    to.programs = graph_.programs;
    to.first_layers = graph_.first_layers;
  }

  void count_rank(std::int32_t rank) {
    const auto own = index(classes_.rank[index(rank)]);
    if (own == first_.size()) {
      first_.push_back(rank);
      size_.push_back(0);
    }
    ++size_[own];
  }

  void add_rank(std::int32_t first) {
    Rank rank = graph_.ranks[index(first)];
    rank.multiplicity = size_[folded_.ranks.size()];
    for (ChannelEnd& end : rank.channels)
      if (end.rank >= 0) end.rank = classes_.rank[index(end.rank)];
    for (std::int32_t& communicator : rank.communicators)
      if (communicator >= 0) communicator = folded_communicator(communicator);
    folded_.ranks.push_back(std::move(rank));
  }

  /// Numbered by first use.
  std::int32_t folded_communicator(std::int32_t communicator) {
    std::int32_t& number = communicator_of_class_[index(classes_.user[index(communicator)])];
    if (number < 0) {
      number = static_cast<std::int32_t>(communicators_.size());
      communicators_.push_back(communicator);
    }
    return number;
  }

  void add_communicator(std::int32_t first) {
    Communicator communicator = graph_.communicators[index(first)];
    for (std::int32_t& member : communicator.members) member = classes_.rank[index(member)];
    std::sort(communicator.members.begin(), communicator.members.end());
    communicator.members.erase(std::unique(communicator.members.begin(), communicator.members.end()),
                               communicator.members.end());
    folded_.communicators.push_back(std::move(communicator));
  }

  void add_loads() {
    folded_.loads.emplace();
    const LinkedStep& step = linker_.step();
    FoldedWeights weights =
        folded_weights(step.users, classes_.user, classes_.user_count, classes_.link, classes_.links);
    const auto add = [](std::vector<FoldedTransfer>& to, std::int32_t owner, std::int32_t number, TransferShape shape,
                        std::vector<LinkWeight> loads) {
      if (loads.empty() && !shape.collides) return;
      shape.loads = std::move(loads);
      to.push_back({owner, number, std::move(shape)});
    };
    for (std::size_t i = 0; i < communicators_.size(); ++i) {
      auto& own = weights[index(classes_.user[index(communicators_[i])])];
      if (own.empty() && !linker_.hashed()) continue;
      std::vector<TransferShape> shapes = linker_.times_of_communicator(communicators_[i]);
      own.resize(shapes.size());
      const std::vector<std::int32_t>& collectives = linker_.collectives_of(communicators_[i]);
      for (std::size_t k = 0; k < own.size(); ++k)
        add(folded_.loads->collectives, static_cast<std::int32_t>(i), collectives[k], std::move(shapes[k]),
            std::move(own[k]));
    }
    for (std::size_t i = 0; i < step.senders.size(); ++i) {
      const Sender& sender = step.senders[i];
      const std::int32_t rank = classes_.rank[index(sender.rank)];
      auto& own = weights[index(classes_.user[index(step.user_of(i))])];
      if (first_[index(rank)] != sender.rank || (own.empty() && !linker_.hashed())) continue;
      std::vector<TransferShape> shapes = linker_.shapes_of_sender(sender);
      own.resize(shapes.size());
      const auto channels = linker_.channels_of(sender);
      for (std::size_t k = 0; k < own.size(); ++k)
        add(folded_.loads->messages, rank, channels[k].first, std::move(shapes[k]), std::move(own[k]));
    }
  }

  Linker& linker_;
  const StepGraph& graph_;
  const LinkClasses& classes_;
  std::vector<std::int32_t> communicator_of_class_;  ///< [class of users] of the folded graph; -1: not used
  std::vector<std::int32_t> communicators_;          ///< [of the folded graph] the first of its class
  std::vector<std::int32_t> first_;                  ///< [class of ranks]
  std::vector<std::int32_t> size_;
  StepGraph folded_;
};

}  // namespace

StepGraph fold(const StepGraph& graph, const ClusterLinks& links) {
  for (const Rank& rank : graph.ranks)
    TRACECAST_ASSERT(rank.multiplicity == 1, "classes are found between all ranks of the job");
  Linker linker(graph, links);
  const LinkClasses classes = refine(linker.step());
  StepGraph folded = Folding(linker, classes).fold();
  drop_dominated_links(*folded.loads, links);
  return folded;
}

}  // namespace tracecast
