#include "sim/graph/stage_loads.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "sim/graph/link_classes.hpp"

namespace tracecast {
namespace {

std::size_t as_index(std::int32_t i) { return static_cast<std::size_t>(i); }

class StageLoads {
 public:
  StageLoads(const StepGraph& graph, const Plan& plan, const Groups& groups, const ClusterLinks& links)
      : graph_(graph),
        plan_(plan),
        groups_(groups),
        links_(links),
        shapes_(links),
        capacities_(as_index(links.count())),
        called_(called_collectives(graph)),
        class_shapes_(graph.communicators.size()) {}

  std::optional<FoldedLoads> find() {
    if (links_.hashed() || !one_rank_per_stage()) return std::nullopt;  // with hashing no two paths are equivalent
    const auto ranks = as_index(plan_.world_size);
    users_.reserve(4 * ranks, 16 * ranks);
    user_class_.reserve(4 * ranks);
    together_.reserve(4 * ranks);
    for (int slot = 0; slot < kSlots; ++slot)
      if (loads_links_in(slot)) add_groups(static_cast<Slot>(slot));
    for (int pp = 0; pp < plan_.parallel.pp; ++pp) add_messages(pp);
    users_.drop_unshared_links(links_.count(), together_);
    const auto user_classes = static_cast<std::int32_t>(class_shapes_.size());
    const std::optional<CrossedLinks> classes = link_classes(users_, user_class_, user_classes, capacities_);
    if (!classes) return std::nullopt;
    return folded(folded_weights(users_, user_class_, user_classes, classes->of, classes->count));
  }

 private:
  bool one_rank_per_stage() const {
    return graph_.ranks.size() == as_index(plan_.parallel.pp) &&
           std::all_of(graph_.ranks.begin(), graph_.ranks.end(),
                       [&](const Rank& rank) { return rank.multiplicity == plan_.world_size / plan_.parallel.pp; });
  }

  bool loads_links_in(int slot) const {
    return std::any_of(graph_.collectives.begin(), graph_.collectives.end(), [&](const CostedCollective& each) {
      return each.slot == slot && loads_links(each.call, each.cost, 2);
    });
  }

  int pp_of(int rank) const { return plan_.grid.coordinates(rank)[Axis::pp]; }

  // ---- Communicators -----------------------------------------------------------------------------------------------

  /// First ranks of the slot's blocks.
  std::vector<int> blocks(Slot slot) const {
    std::vector<Axis> outside{Axis::pp, Axis::dp, Axis::cp, Axis::tp};
    for (const Axis axis : Groups::block_axes(slot)) std::erase(outside, axis);
    return plan_.grid.group(0, outside);
  }

  void add_groups(Slot slot) {
    const std::vector<int> begins = blocks(slot);
    const std::vector<int> offsets = groups_.block(0, slot);
    std::vector<std::vector<int>> parts(offsets.size());  // offsets of their members from the block's first rank
    for (std::size_t i = 0; i < offsets.size(); ++i)
      parts[as_index(groups_.part(slot, static_cast<int>(i)))].push_back(offsets[i]);
    for (std::size_t part = 0; part < parts.size(); ++part) {
      patterns_of_.assign(graph_.programs.size(), nullptr);
      if (parts[part].size() > 1)
        for (const int begin : begins) add_group(slot, static_cast<int>(part), begin, parts[part]);
    }
  }

  void add_group(Slot slot, int part, int begin, const std::vector<int>& offsets) {
    const int pp = pp_of(begin + offsets.front());
    const Rank& rank = graph_.ranks[as_index(pp)];
    const std::int32_t communicator = rank.communicators[static_cast<std::size_t>(slot)];
    const auto found = called_[as_index(rank.program)].find(static_cast<std::int32_t>(slot));
    if (communicator < 0 || found == called_[as_index(rank.program)].end()) return;
    std::vector<Pattern>*& patterns = patterns_of_[as_index(rank.program)];
    if (patterns == nullptr) patterns = &patterns_[{slot, part, found->second}];
    std::vector<Pattern>& known = *patterns;
    const int first = begin + offsets.front();
    for (const Pattern& pattern : known) {
      const int domains = links_.domain_of(first) - links_.domain_of(pattern.first);
      if ((first - pattern.first) % links_.gpus() != 0 || !links_.is_translation(pattern.first, pattern.last, domains))
        continue;
      moved_.clear();
      for (const LinkUsers::Load& load : pattern.loads)
        moved_.push_back({links_.translated(load.link, domains), load.weights});
      if (class_shapes_[as_index(communicator)].empty()) class_shapes_[as_index(communicator)] = pattern.shapes;
      return add_user(communicator, moved_, 1);
    }
    known.push_back(pattern_of(begin, offsets, found->second));
    if (class_shapes_[as_index(communicator)].empty()) class_shapes_[as_index(communicator)] = known.back().shapes;
    add_user(communicator, known.back().loads, 1);
  }

  /// The loads of one group, for all groups with an equivalent placement.
  struct Pattern {
    int first = 0;  ///< rank
    int last = 0;
    std::vector<LinkUsers::Load> loads;
    std::vector<FoldedTransfer> shapes;  ///< of its collectives, without loads
  };

  Pattern pattern_of(int begin, const std::vector<int>& offsets, const std::vector<std::int32_t>& collectives) {
    std::vector<int> ranks = offsets;
    for (int& rank : ranks) rank += begin;
    const FlowGroup group = make_flow_group(links_, ranks);
    Pattern pattern{ranks.front(), ranks.back(), {}, {}};
    std::vector<TransferShape> shapes;
    for (const std::int32_t number : collectives) {
      const CostedCollective& each = graph_.collectives[as_index(number)];
      shapes.emplace_back();
      if (loads_links(each.call, each.cost, ranks.size()))
        shapes.back() = shapes_.shape(each.cost, collective_flows(each.call, each.cost.algorithm, group), group);
      const TransferShape& shape = shapes.back();
      pattern.shapes.push_back({0, number, {shape.latency, shape.moving, shape.limit, {}}});
    }
    pattern.loads = loads_of(shapes, users_);
    return pattern;
  }

  std::int64_t capacity_of(std::int32_t link) {
    std::int64_t& known = capacities_[as_index(link)];
    if (known == 0) known = links_.capacity(link).bytes_per_second;
    return known;
  }

  void add_user(std::int32_t user_class, const std::vector<LinkUsers::Load>& loads, std::int32_t together) {
    for (const LinkUsers::Load& load : loads) capacity_of(load.link);
    users_.add(loads);
    user_class_.push_back(user_class);
    together_.push_back(together);
  }

  // ---- Messages ----------------------------------------------------------------------------------------------------

  void add_messages(int pp) {
    const Rank& rank = graph_.ranks[as_index(pp)];
    std::map<std::int32_t, std::vector<FoldedTransfer>> by_receiver;  // messages that load links, by pipeline rank
    for (const auto& [channel, payload] : sent_messages(graph_, as_index(rank.program))) {
      const Message& message = graph_.messages[as_index(payload)];
      if (!loads_links({Collective::send_recv, message.size}, message.cost, 2)) continue;
      by_receiver[rank.channels[as_index(channel)].rank].push_back(
          {pp,
           channel,
           {message.cost.latency,
            message.cost.duration - message.cost.latency,
            rate_alone(message.cost, message_flows(message.size)),
            {}}});
    }
    for (auto& [to, transfers] : by_receiver) {
      const auto user_class = static_cast<std::int32_t>(class_shapes_.size());
      add_senders(pp, to, transfers, user_class);
      class_shapes_.push_back(std::move(transfers));
    }
  }

  void add_senders(int pp, int to, const std::vector<FoldedTransfer>& transfers, std::int32_t user_class) {
    std::vector<std::pair<std::int64_t, std::int32_t>> numbers;  // lists of weights by capacity, of which there are few
    const auto weights = [&](std::int32_t link) {
      const std::int64_t capacity = capacity_of(link);
      for (const auto& [known, number] : numbers)
        if (known == capacity) return number;
      LinkUsers::Weights list;
      for (const FoldedTransfer& each : transfers) list.push_back(lone_flow_weight({capacity}, each.shape.limit));
      return numbers.emplace_back(capacity, users_.number_of(list)).second;
    };
    const int ahead = (to - pp) * plan_.grid.stride(Axis::pp);
    const std::vector<int> ranks = plan_.grid.group(pp * plan_.grid.stride(Axis::pp), {Axis::dp, Axis::cp, Axis::tp});
    for (const int rank : ranks) {
      path_.clear();
      links_.append_route(rank, rank + ahead, -1, path_);
      moved_.clear();
      for (const std::int32_t link : path_) moved_.push_back({link, weights(link)});
      add_user(user_class, moved_, static_cast<std::int32_t>(transfers.size()));
    }
  }

  // ---- The folded network ------------------------------------------------------------------------------------------

  FoldedLoads folded(FoldedWeights weights) const {
    FoldedLoads loads;
    for (std::size_t c = 0; c < class_shapes_.size(); ++c) {
      const bool communicator = c < graph_.communicators.size();
      for (std::size_t k = 0; k < weights[c].size(); ++k) {
        if (weights[c][k].empty()) continue;
        FoldedTransfer transfer = class_shapes_[c][k];
        if (communicator) transfer.owner = static_cast<std::int32_t>(c);
        transfer.shape.loads = std::move(weights[c][k]);
        (communicator ? loads.collectives : loads.messages).push_back(std::move(transfer));
      }
    }
    return loads;
  }

  const StepGraph& graph_;
  const Plan& plan_;
  const Groups& groups_;
  const ClusterLinks& links_;
  TransferShapes shapes_;
  std::vector<std::int64_t> capacities_;   ///< [link] bytes per second; 0: no user so far
  std::vector<CalledCollectives> called_;  ///< [program]
  LinkUsers users_;
  std::vector<std::int32_t> user_class_;  ///< communicators of the folded graph, then pipeline ranks towards others
  std::vector<std::int32_t> together_;    ///< [user] transfers that can be in flight at one time
  std::vector<std::vector<FoldedTransfer>> class_shapes_;  ///< [class of users] its transfers, without loads
  std::map<std::tuple<Slot, int, std::vector<std::int32_t>>, std::vector<Pattern>> patterns_;
  std::vector<std::vector<Pattern>*> patterns_of_;  ///< [program] for the current slot and part; null: not looked up
  std::vector<LinkUsers::Load> moved_;
  LinkPath path_;
};

}  // namespace

std::optional<FoldedLoads> loads_by_stage(const StepGraph& folded, const Plan& plan, const Groups& groups,
                                          const ClusterLinks& links) {
  return StageLoads(folded, plan, groups, links).find();
}

}  // namespace tracecast
