#include "sim/graph/stage_loads.hpp"

#include <algorithm>
#include <initializer_list>
#include <list>
#include <map>
#include <utility>

#include "sim/graph/link_classes.hpp"

namespace tracecast {
namespace {

std::size_t as_index(std::int32_t i) { return static_cast<std::size_t>(i); }

bool one_rank_per_stage(const StepGraph& graph, const Plan& plan) {
  return graph.ranks.size() == as_index(plan.parallel.pp) &&
         std::all_of(graph.ranks.begin(), graph.ranks.end(),
                     [&](const Rank& rank) { return rank.multiplicity == plan.world_size / plan.parallel.pp; });
}

/// What the programs of a graph transfer.
struct ProgramTransfers {
  explicit ProgramTransfers(const StepGraph& graph) : called(called_collectives(graph)) {
    for (std::size_t program = 0; program < graph.programs.size(); ++program)
      sent.push_back(sent_messages(graph, program));
  }
  std::vector<CalledCollectives> called;                   ///< [program]
  std::vector<std::map<std::int32_t, std::int32_t>> sent;  ///< [program] messages by channel
};

/// Adds the users of links and classifies the links, up to rotations of the nodes by some GPUs.
class StageLoads {
 public:
  StageLoads(const StepGraph& graph, const Plan& plan, const Groups& groups, const ClusterLinks& links,
             const ProgramTransfers& transfers, LinkOrbits orbits)
      : graph_(graph),
        plan_(plan),
        groups_(groups),
        links_(links),
        transfers_(transfers),
        orbits_(std::move(orbits)),
        shapes_(links),
        capacities_(as_index(orbits_.count())),
        class_shapes_(graph.communicators.size()) {}

  /// False if a rotation does not map users to users with the same loads.
  bool add_users() {
    if (orbits_.order() > 1 && !rotations_keep_stages()) return false;
    const auto ranks = as_index(plan_.world_size / orbits_.order());
    users_.reserve(4 * ranks, 16 * ranks);
    user_class_.reserve(4 * ranks);
    together_.reserve(4 * ranks);
    if (orbits_.order() > 1) users_.use_symmetry(orbits_.order(), link_copies());
    for (int slot = 0; slot < kSlots; ++slot)
      if (loads_links_in(slot) && !add_groups(static_cast<Slot>(slot))) return false;
    for (int pp = 0; pp < plan_.parallel.pp; ++pp)
      if (!add_messages(pp)) return false;
    return true;
  }

  std::optional<FoldedLoads> loads() {
    users_.drop_unshared_links(orbits_.count(), together_);
    const auto user_classes = static_cast<std::int32_t>(class_shapes_.size());
    const std::optional<CrossedLinks> classes = link_classes(users_, user_class_, user_classes, capacities_);
    if (!classes) return std::nullopt;
    return folded(folded_weights(users_, user_class_, user_classes, classes->of, classes->count));
  }

 private:
  /// True if nodes are full, and each pipeline rank has whole nodes.
  bool rotations_keep_stages() const {
    const int last = plan_.world_size - 1;
    return plan_.world_size % links_.gpus() == 0 && links_.domain_of(last) == last / links_.gpus() &&
           (plan_.parallel.pp == 1 || plan_.grid.stride(Axis::pp) % links_.gpus() == 0);
  }

  std::vector<std::int32_t> link_copies() const {
    std::vector<std::int32_t> copies(as_index(orbits_.count()));
    for (std::int32_t orbit = 0; orbit < orbits_.count(); ++orbit)
      copies[as_index(orbit)] = orbits_.order() / orbits_.size(orbit);
    return copies;
  }

  bool loads_links_in(int slot) const {
    return std::any_of(graph_.collectives.begin(), graph_.collectives.end(), [&](const CostedCollective& each) {
      return each.slot == slot && loads_links(each.call, each.cost, 2);
    });
  }

  int pp_of(int rank) const { return plan_.grid.coordinates(rank)[Axis::pp]; }

  // ---- Communicators -----------------------------------------------------------------------------------------------

  /// A slot's groups: part `part` of the block that begins at rank `begin`.
  struct Group {
    int begin = 0;
    int part = 0;
    bool operator==(const Group&) const = default;
  };

  /// The loads of one group, for all groups with an equivalent placement.
  struct Pattern {
    int first = 0;  ///< rank
    int last = 0;
    /// Groups that rotations map to each other, of which one is added; 0: another one is.
    std::int32_t copies = 1;
    std::vector<LinkUsers::Load> loads;   ///< by link
    std::vector<LinkUsers::Load> orbits;  ///< by orbit of links
    std::vector<FoldedTransfer> shapes;   ///< of its collectives, without loads
  };

  bool add_groups(Slot slot) {
    slot_ = slot;
    offsets_ = groups_.block(0, slot);
    parts_.assign(offsets_.size(), {});
    for (std::size_t i = 0; i < offsets_.size(); ++i)
      parts_[as_index(groups_.part(slot, static_cast<int>(i)))].push_back(offsets_[i]);
    patterns_.clear();
    const std::vector<int> begins = groups_.block_begins(slot);
    std::int64_t found = 0;    // groups that call collectives
    std::int64_t covered = 0;  // by the users that were added and their rotations
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      patterns_of_.assign(graph_.programs.size(), nullptr);
      if (parts_[part].size() < 2) continue;
      for (const int begin : begins) {
        const std::optional<std::int32_t> copies = add_group({begin, static_cast<int>(part)});
        if (!copies) return false;
        found += *copies >= 0 ? 1 : 0;
        covered += std::max(*copies, 0);
      }
    }
    return covered == found;
  }

  int first_rank(const Group& group) const { return group.begin + parts_[as_index(group.part)].front(); }

  /// The collectives that a group calls; null: none.
  const std::vector<std::int32_t>* calls_of(const Group& group) const {
    const Rank& rank = graph_.ranks[as_index(pp_of(first_rank(group)))];
    const auto& called = transfers_.called[as_index(rank.program)];
    const auto found = called.find(static_cast<std::int32_t>(slot_));
    const bool calls = rank.communicators[static_cast<std::size_t>(slot_)] >= 0 && found != called.end();
    return calls ? &found->second : nullptr;
  }

  /// How many groups the group stands for, itself one of them; 0: another one stands for it; -1: it calls nothing.
  /// Nothing if rotations do not map groups to groups.
  std::optional<std::int32_t> add_group(const Group& group) {
    const int first = first_rank(group);
    const Rank& rank = graph_.ranks[as_index(pp_of(first))];
    std::list<Pattern>*& patterns = patterns_of_[as_index(rank.program)];
    if (patterns == nullptr) {
      const std::vector<std::int32_t>* calls = calls_of(group);
      if (calls == nullptr) return -1;
      patterns = &patterns_[{group.part, *calls}];
    }
    const Pattern* pattern = pattern_at(*patterns, first);
    if (pattern == nullptr) pattern = new_pattern(*patterns, group);
    if (pattern == nullptr) return std::nullopt;
    if (pattern->copies == 0) return 0;
    const int domains = links_.domain_of(first) - links_.domain_of(pattern->first);
    moved_.clear();
    for (const LinkUsers::Load& load : pattern->orbits)
      moved_.push_back({orbits_.translated(load.link, domains), load.weights});
    const std::int32_t communicator = rank.communicators[static_cast<std::size_t>(slot_)];
    if (class_shapes_[as_index(communicator)].empty()) class_shapes_[as_index(communicator)] = pattern->shapes;
    add_user(communicator, moved_, 1, pattern->copies);
    return pattern->copies;
  }

  /// The pattern of a group with this first rank; null: not known.
  const Pattern* pattern_at(const std::list<Pattern>& patterns, int first) const {
    for (const Pattern& pattern : patterns) {
      const int domains = links_.domain_of(first) - links_.domain_of(pattern.first);
      if ((first - pattern.first) % links_.gpus() == 0 && links_.is_translation(pattern.first, pattern.last, domains))
        return &pattern;
    }
    return nullptr;
  }

  /// Adds the patterns of a group and of its rotations. Null if a rotation is no group, or has other loads.
  const Pattern* new_pattern(std::list<Pattern>& patterns, const Group& group) {
    Pattern& own = patterns.emplace_back(pattern_of(group));
    own.copies = orbits_.order();
    for (int times = 1; times < orbits_.order(); ++times) {
      const Group rotated = group_of(orbits_.rotated_rank(own.first, times));
      const std::vector<std::int32_t>* calls = calls_of(rotated);
      if (calls == nullptr) return nullptr;
      if (rotated == group) {  // later rotations only repeat these
        own.copies = times;
        return is_rotation(own, own, times) ? &own : nullptr;
      }
      std::list<Pattern>& others = patterns_[{rotated.part, *calls}];
      const int first = first_rank(rotated);
      if (pattern_at(others, first) != nullptr) return nullptr;
      if (keeps_order(group, rotated, times)) {
        others.push_back({first, first + own.last - own.first, 0, {}, {}, {}});
        continue;
      }
      others.push_back(pattern_of(rotated));
      others.back().copies = 0;
      if (!is_rotation(own, others.back(), times)) return nullptr;
    }
    return &own;
  }

  /// True if the members of `to` are the rotated members of `from`, in the same order. Then its loads are the rotated ones:
  /// algorithms know the members of a group by their order and nodes, and ports by their order.
  bool keeps_order(const Group& from, const Group& to, int times) const {
    const std::vector<int>& before = parts_[as_index(from.part)];
    const std::vector<int>& after = parts_[as_index(to.part)];
    if (before.size() != after.size() || *calls_of(from) != *calls_of(to)) return false;
    const int moved = to.begin + after.front() - from.begin - before.front();
    for (std::size_t i = 0; i < before.size(); ++i)
      if (to.begin + after[i] != from.begin + before[i] + moved ||
          to.begin + after[i] != orbits_.rotated_rank(from.begin + before[i], times))
        return false;
    return true;
  }

  Group group_of(int rank) const {
    const int begin = groups_.block_begin(rank, slot_);
    const auto position = std::lower_bound(offsets_.begin(), offsets_.end(), rank - begin) - offsets_.begin();
    return {begin, groups_.part(slot_, static_cast<int>(position))};
  }

  /// True if a rotation maps the loads of one group to those of the other. Groups of one stage call the same collectives, and
  /// with equal loads these are as fast alone.
  bool is_rotation(const Pattern& from, const Pattern& to, int times) const {
    std::vector<LinkUsers::Load> loads = from.loads;
    for (LinkUsers::Load& load : loads) load.link = orbits_.rotated(load.link, times);
    std::sort(loads.begin(), loads.end());
    return loads == to.loads;
  }

  Pattern pattern_of(const Group& group) {
    std::vector<int> ranks = parts_[as_index(group.part)];
    for (int& rank : ranks) rank += group.begin;
    const FlowGroup flow_group = make_flow_group(links_, ranks);
    Pattern pattern{ranks.front(), ranks.back(), 1, {}, {}, {}};
    std::vector<TransferShape> shapes;
    for (const std::int32_t number : *calls_of(group)) {
      const CostedCollective& each = graph_.collectives[as_index(number)];
      shapes.emplace_back();
      if (loads_links(each.call, each.cost, ranks.size()))
        shapes.back() =
            shapes_.shape(each.cost, collective_flows(each.call, each.cost.algorithm, flow_group), flow_group);
      const TransferShape& shape = shapes.back();
      pattern.shapes.push_back({0, number, {shape.latency, shape.moving, shape.limit, {}}});
    }
    pattern.loads = loads_of(shapes, users_);
    for (const LinkUsers::Load& load : pattern.loads)
      pattern.orbits.push_back({orbits_.orbit_of(load.link), load.weights});
    return pattern;
  }

  std::int64_t capacity_of(std::int32_t orbit) {
    std::int64_t& known = capacities_[as_index(orbit)];
    if (known == 0) known = links_.capacity(orbits_.first_link(orbit)).bytes_per_second;
    return known;
  }

  /// `loads`: on orbits of links; `together`: transfers that can be in flight at one time; `copies`: users it stands for.
  void add_user(std::int32_t user_class, const std::vector<LinkUsers::Load>& loads, std::int32_t together,
                std::int32_t copies) {
    for (const LinkUsers::Load& load : loads) capacity_of(load.link);
    users_.add(loads, copies);
    user_class_.push_back(user_class);
    together_.push_back(together);
  }

  // ---- Messages ----------------------------------------------------------------------------------------------------

  /// False if the path of a message is not rotated with its ranks.
  bool add_messages(int pp) {
    const Rank& rank = graph_.ranks[as_index(pp)];
    std::map<std::int32_t, std::vector<FoldedTransfer>> by_receiver;  // messages that load links, by pipeline rank
    for (const auto& [channel, payload] : transfers_.sent[as_index(rank.program)]) {
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
      if (!add_senders(pp, to, transfers, user_class)) return false;
      class_shapes_.push_back(std::move(transfers));
    }
    return true;
  }

  bool add_senders(int pp, int to, const std::vector<FoldedTransfer>& transfers, std::int32_t user_class) {
    std::vector<Bandwidth> limits;
    for (const FoldedTransfer& each : transfers) limits.push_back(each.shape.limit);
    MessageWeights weights(std::move(limits));
    const int ahead = (to - pp) * plan_.grid.stride(Axis::pp);
    const int first = pp * plan_.grid.stride(Axis::pp);
    if (!rotates_path(first, first + ahead)) return false;
    const std::vector<int> ranks = plan_.grid.group(first, {Axis::dp, Axis::cp, Axis::tp});
    for (const int rank : ranks) {
      if (!orbits_.is_first_rank(rank)) continue;
      path_.clear();
      links_.append_route(rank, rank + ahead, -1, path_);
      moved_.clear();
      for (const std::int32_t link : path_) {
        const std::int32_t orbit = orbits_.orbit_of(link);
        moved_.push_back({orbit, weights.on_link_of(capacity_of(orbit), users_)});
      }
      add_user(user_class, moved_, static_cast<std::int32_t>(transfers.size()), orbits_.order());
    }
    return true;
  }

  /// True if rotations of two ranks rotate the path between them.
  bool rotates_path(int from, int to) const {
    LinkPath path;
    links_.append_route(from, to, -1, path);
    for (int times = 1; times < orbits_.order(); ++times) {
      LinkPath expected = path;
      for (std::int32_t& link : expected) link = orbits_.rotated(link, times);
      LinkPath rotated;
      links_.append_route(orbits_.rotated_rank(from, times), orbits_.rotated_rank(to, times), -1, rotated);
      if (rotated != expected) return false;
    }
    return true;
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
        for (LinkWeight& load : transfer.shape.loads) load.link = orbits_.first_link(load.link);
        (communicator ? loads.collectives : loads.messages).push_back(std::move(transfer));
      }
    }
    return loads;
  }

  const StepGraph& graph_;
  const Plan& plan_;
  const Groups& groups_;
  const ClusterLinks& links_;
  const ProgramTransfers& transfers_;
  const LinkOrbits orbits_;
  TransferShapes shapes_;
  std::vector<std::int64_t> capacities_;  ///< [orbit] bytes per second; 0: no user so far
  LinkUsers users_;                       ///< of orbits of links
  std::vector<std::int32_t> user_class_;  ///< communicators of the folded graph, then pipeline ranks towards others
  std::vector<std::int32_t> together_;    ///< [user] transfers that can be in flight at one time
  std::vector<std::vector<FoldedTransfer>> class_shapes_;  ///< [class of users] its transfers, without loads
  // Of the current slot:
  Slot slot_{};
  std::vector<int> offsets_;             ///< of a block's ranks from its first
  std::vector<std::vector<int>> parts_;  ///< [part] offsets of its members
  std::map<std::pair<int, std::vector<std::int32_t>>, std::list<Pattern>> patterns_;  ///< by part and collectives
  std::vector<std::list<Pattern>*> patterns_of_;  ///< [program] for the current part; null: not looked up
  std::vector<LinkUsers::Load> moved_;
  LinkPath path_;
};

/// Requires one rank for each stage, and paths that are not hashed
std::optional<FoldedLoads> find_loads(const StepGraph& folded, const Plan& plan, const Groups& groups,
                                      const ClusterLinks& links, const ProgramTransfers& transfers) {
  for (int step = 1; step <= links.gpus(); ++step) {
    std::optional<LinkOrbits> orbits = links.orbits(step);
    if (!orbits) continue;
    StageLoads loads(folded, plan, groups, links, transfers, std::move(*orbits));
    if (loads.add_users()) return loads.loads();
  }
  TRACECAST_ASSERT(false, "a rotation by all GPUs of a node leaves all users in place");
  return std::nullopt;
}

/// Everything that decides the loads of a graph on one cluster.
class TransferKey {
 public:
  TransferKey(const StepGraph& graph, const Plan& plan, const Groups& groups, const ProgramTransfers& transfers) {
    add({plan.world_size});
    for (const Axis axis : {Axis::tp, Axis::cp, Axis::dp, Axis::pp})
      add({plan.grid.size(axis), plan.grid.stride(axis)});
    const std::vector<std::int64_t> divided = groups.key();
    numbers_.insert(numbers_.end(), divided.begin(), divided.end());
    add_ranks(graph);
    add_transfers(graph);
    add_programs(transfers);
  }

  std::vector<std::int64_t> take() { return std::move(numbers_); }

 private:
  void add(std::initializer_list<std::int64_t> numbers) { numbers_.insert(numbers_.end(), numbers); }
  void add_size(std::size_t size) { add({static_cast<std::int64_t>(size)}); }

  void add_ranks(const StepGraph& graph) {
    add_size(graph.communicators.size());
    add_size(graph.ranks.size());
    for (const Rank& rank : graph.ranks) {
      add({rank.representative, rank.multiplicity, rank.program});
      add_size(rank.communicators.size());
      for (const std::int32_t communicator : rank.communicators) add({communicator});
      add_size(rank.channels.size());
      for (const ChannelEnd& end : rank.channels) add({end.rank, end.channel});
    }
  }

  void add_cost(const CollectiveCost& cost) {
    add({cost.duration.picoseconds, cost.latency.picoseconds, static_cast<std::int64_t>(cost.algorithm)});
  }

  void add_transfers(const StepGraph& graph) {
    add_size(graph.collectives.size());
    for (const CostedCollective& each : graph.collectives) {
      add({each.slot, static_cast<std::int64_t>(each.call.collective), each.call.size.count});
      add_cost(each.cost);
    }
    add_size(graph.messages.size());
    for (const Message& each : graph.messages) {
      add({each.size.count});
      add_cost(each.cost);
    }
  }

  void add_programs(const ProgramTransfers& transfers) {
    for (std::size_t program = 0; program < transfers.called.size(); ++program) {
      add_size(transfers.called[program].size());
      for (const auto& [slot, collectives] : transfers.called[program]) {
        add({slot});
        add_size(collectives.size());
        for (const std::int32_t each : collectives) add({each});
      }
      add_size(transfers.sent[program].size());
      for (const auto& [channel, message] : transfers.sent[program]) add({channel, message});
    }
  }

  std::vector<std::int64_t> numbers_;
};

/// Whether the plan's coordinates may give the classes; hashed: no two paths are equivalent.
bool has_stage_classes(const StepGraph& folded, const Plan& plan, const ClusterLinks& links) {
  return !links.hashed() && one_rank_per_stage(folded, plan);
}

}  // namespace

std::optional<FoldedLoads> loads_by_stage(const StepGraph& folded, const Plan& plan, const Groups& groups,
                                          const ClusterLinks& links) {
  if (!has_stage_classes(folded, plan, links)) return std::nullopt;
  return find_loads(folded, plan, groups, links, ProgramTransfers(folded));
}

std::optional<FoldedLoads> KnownLoads::by_stage(const StepGraph& folded, const Plan& plan, const Groups& groups,
                                                const ClusterLinks& links) {
  if (!has_stage_classes(folded, plan, links)) return std::nullopt;
  const ProgramTransfers transfers(folded);
  std::vector<std::int64_t> key = TransferKey(folded, plan, groups, transfers).take();
  std::vector<std::shared_ptr<const Answer>> answers;
  {
    const std::lock_guard lock(mutex_);
    answers = answers_;
  }
  for (const std::shared_ptr<const Answer>& each : answers)
    if (each->transfers == key) return each->loads;
  auto found =
      std::make_shared<const Answer>(Answer{std::move(key), find_loads(folded, plan, groups, links, transfers)});
  const std::lock_guard lock(mutex_);
  if (answers_.size() < kMost)
    answers_.push_back(found);
  else
    answers_[std::exchange(oldest_, (oldest_ + 1) % kMost)] = found;
  return found->loads;
}

}  // namespace tracecast
