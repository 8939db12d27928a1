#include "sim/graph/stage_parts.hpp"

#include <algorithm>
#include <utility>

#include "sim/graph/refinement.hpp"

namespace tracecast {
namespace {

enum Kind : std::size_t { kRanks, kUsers, kLinks };

/// One communicator of each orbit, of all slots that the graph uses.
class CommunicatorOrbits {
 public:
  CommunicatorOrbits(const StepGraph& graph, const Plan& plan, const Groups& groups, const LinkOrbits& orbits)
      : graph_(graph), plan_(plan), groups_(groups), orbits_(orbits) {}

  /// A rank, as one of its orbit, among the members; `times`: how many ranks of the orbit are.
  struct Member {
    std::int32_t communicator = 0;
    std::int32_t rank = 0;  ///< orbit of ranks
    std::int32_t times = 0;
  };

  /// False if rotations do not map groups to groups.
  bool add_all() {
    of_.assign(kSlots, {});
    for (int slot = 0; slot < kSlots; ++slot)
      if (is_used(slot) && !add(static_cast<Slot>(slot))) return false;
    return true;
  }

  std::int32_t count() const { return static_cast<std::int32_t>(label_.size()); }
  /// The communicator of the undivided graph.
  std::int32_t label(std::int32_t communicator) const { return label_[as_index(communicator)]; }
  /// By slot and orbit of ranks; -1: the slot is not used.
  std::int32_t of(int slot, std::int32_t rank) const {
    const std::vector<std::int32_t>& own = of_[as_index(slot)];
    return own.empty() ? -1 : own[as_index(rank)];
  }
  const std::vector<Member>& members() const { return members_; }  ///< by communicator

 private:
  bool is_used(int slot) const {
    return std::any_of(graph_.ranks.begin(), graph_.ranks.end(),
                       [&](const Rank& rank) { return rank.communicators[as_index(slot)] >= 0; });
  }

  /// [rank] its group, by the group's first rank.
  std::vector<std::int32_t> groups_of_ranks(Slot slot) const {
    const std::vector<int> offsets = groups_.block(0, slot);
    std::vector<std::int32_t> group(as_index(plan_.world_size));
    std::vector<std::int32_t> first(offsets.size());  // [part] rank
    for (const int begin : groups_.block_begins(slot)) {
      std::fill(first.begin(), first.end(), -1);
      for (std::size_t i = 0; i < offsets.size(); ++i) {
        const int rank = begin + offsets[i];
        std::int32_t& own = first[as_index(groups_.part(slot, static_cast<int>(i)))];
        if (own < 0) own = rank;
        group[as_index(rank)] = own;
      }
    }
    return group;
  }

  /// True if a symmetry moves ranks of one group to ranks of one group.
  bool keeps_groups(const std::vector<std::int32_t>& group, int symmetry) const {
    for (std::int32_t rank = 0; rank < plan_.world_size; ++rank) {
      const std::int32_t first = group[as_index(rank)];
      if (group[as_index(orbits_.rotated_rank(rank, symmetry))] !=
          group[as_index(orbits_.rotated_rank(first, symmetry))])
        return false;
    }
    return true;
  }

  bool add(Slot slot) {
    const std::vector<std::int32_t> group = groups_of_ranks(slot);
    if (!keeps_groups(group, 1) || !keeps_groups(group, orbits_.rotations())) return false;
    std::vector<std::int32_t>& own = of_[static_cast<std::size_t>(slot)];
    std::vector<std::int32_t> number(as_index(plan_.world_size), -1);  // [group] by its first rank
    for (std::int32_t rank = 0; rank < plan_.world_size; ++rank) {
      if (!orbits_.is_first_rank(rank)) continue;
      std::int32_t known = -1;
      for (int times = 0; times < orbits_.order() && known < 0; ++times)
        known = number[as_index(group[as_index(orbits_.rotated_rank(rank, times))])];
      if (known < 0) {
        known = number[as_index(group[as_index(rank)])] = count();
        first_.push_back(group[as_index(rank)]);
        label_.push_back(stage_of(rank).communicators[static_cast<std::size_t>(slot)]);
      }
      add_member(known, static_cast<std::int32_t>(own.size()), rank, group);
      own.push_back(known);
    }
    return true;
  }

  void add_member(std::int32_t communicator, std::int32_t orbit, std::int32_t rank,
                  const std::vector<std::int32_t>& group) {
    Member member{communicator, orbit, 0};
    for (int times = 0; times < orbits_.order(); ++times)
      member.times += group[as_index(orbits_.rotated_rank(rank, times))] == first_[as_index(communicator)] ? 1 : 0;
    if (member.times > 0) members_.push_back(member);
  }

  const Rank& stage_of(std::int32_t rank) const {
    return graph_.ranks[as_index(plan_.grid.coordinates(rank)[Axis::pp])];
  }

  const StepGraph& graph_;
  const Plan& plan_;
  const Groups& groups_;
  const LinkOrbits& orbits_;
  std::vector<std::vector<std::int32_t>> of_;
  std::vector<std::int32_t> first_;  ///< [communicator] first rank of the group
  std::vector<std::int32_t> label_;
  std::vector<Member> members_;
};

class StageDivision {
 public:
  StageDivision(const StepGraph& graph, const Plan& plan, const StageUsers& users,
                const CommunicatorOrbits& communicators)
      : graph_(graph), plan_(plan), users_(users), communicators_(communicators), node_of_user_(users.owners().size()) {
    for (std::int32_t rank = 0; rank < plan.world_size; ++rank)
      if (users.orbits().is_first_rank(rank)) first_ranks_.push_back(rank);
    for (std::size_t user = 0; user < users.owners().size(); ++user) {
      const StageUsers::User& owner = users.owners()[user];
      node_of_user_[user] = owner.slot >= 0 ? communicator_of(owner) : communicators.count() + add_sender(user);
    }
    find_neighbours();
  }

  StageParts divide() {
    refine_all();
    for (std::size_t orbit = 0; orbit < first_ranks_.size(); ++orbit) count_rank(orbit);
    for (const std::size_t first : first_of_class_) add_rank(first);
    add_members();
    add_loads();
    return std::move(parts_);
  }

 private:
  // ---- Nodes: orbits of ranks; communicators and senders; orbits of links --------------------------------------------

  std::int32_t orbit_of(std::int32_t rank) const { return users_.orbits().orbit_of_rank(rank); }
  int pp_of(std::size_t orbit) const { return plan_.grid.coordinates(first_ranks_[orbit])[Axis::pp]; }

  std::int32_t communicator_of(const StageUsers::User& owner) const {
    return communicators_.of(owner.slot, orbit_of(owner.rank));
  }

  std::int32_t add_sender(std::size_t user) {
    senders_.push_back(user);
    return static_cast<std::int32_t>(senders_.size()) - 1;
  }

  std::int32_t partner(std::size_t orbit, int pp, int other) const {
    return orbit_of(first_ranks_[orbit] + (other - pp) * plan_.grid.stride(Axis::pp));
  }

  /// One channel to each other stage; all ranks of a stage use the same channels to the same ends.
  void find_neighbours() {
    for (const Rank& rank : graph_.ranks) {
      std::vector<std::pair<std::int32_t, std::uint32_t>>& own = neighbours_.emplace_back();
      for (std::size_t channel = 0; channel < rank.channels.size(); ++channel) {
        const std::int32_t other = rank.channels[channel].rank;
        if (other >= 0 && std::none_of(own.begin(), own.end(), [&](const auto& each) { return each.first == other; }))
          own.emplace_back(other, static_cast<std::uint32_t>(channel));
      }
    }
  }

  Nodes nodes() const {
    Nodes nodes;
    for (std::size_t orbit = 0; orbit < first_ranks_.size(); ++orbit)
      nodes.add(static_cast<std::uint64_t>(pp_of(orbit)));
    nodes.end_kind();
    for (std::int32_t i = 0; i < communicators_.count(); ++i)
      nodes.add(static_cast<std::uint64_t>(communicators_.label(i)));
    for (const std::size_t user : senders_) nodes.add(static_cast<std::uint64_t>(users_.classes()[user]));
    nodes.end_kind();
    for (const std::int64_t capacity : users_.capacities()) nodes.add(static_cast<std::uint64_t>(capacity));
    nodes.end_kind();
    return nodes;
  }

  template <class See>
  void each_edge_of_ranks(const See& see) const {
    constexpr std::uint32_t kNeighbours = 1 << 16;  // above the numbers of slots
    const auto ranks = static_cast<std::int32_t>(first_ranks_.size());
    for (std::int32_t orbit = 0; orbit < ranks; ++orbit) {
      for (int slot = 0; slot < kSlots; ++slot)
        if (const std::int32_t own = communicators_.of(slot, orbit); own >= 0)
          see(orbit, ranks + own, static_cast<std::uint32_t>(slot), 1);
      const int pp = pp_of(as_index(orbit));
      for (const auto& [other, channel] : neighbours_[as_index(pp)])
        see(orbit, partner(as_index(orbit), pp, other), kNeighbours + channel, 1);
    }
    for (std::size_t i = 0; i < senders_.size(); ++i) see(sending(i), ranks + sender_node(i), 0, 1);
  }

  template <class See>
  void each_edge_of_users(const See& see) const {
    const auto ranks = static_cast<std::int32_t>(first_ranks_.size());
    for (const CommunicatorOrbits::Member& each : communicators_.members())
      see(ranks + each.communicator, each.rank, 0, each.times);
    for (std::size_t i = 0; i < senders_.size(); ++i) see(ranks + sender_node(i), sending(i), 0, 1);
  }

  template <class See>
  void each_edge(std::size_t kind, const See& see) const {
    if (kind == kRanks) return each_edge_of_ranks(see);
    if (kind == kUsers) each_edge_of_users(see);
    const auto ranks = static_cast<std::int32_t>(first_ranks_.size());
    const auto links = ranks + communicators_.count() + static_cast<std::int32_t>(senders_.size());
    const LinkUsers& users = users_.users();
    for (std::int32_t user = 0; user < users.count(); ++user)
      for (const LinkUsers::Load* load = users.begin(user); load != users.end(user); ++load) {
        const std::int32_t node = ranks + node_of_user_[as_index(user)];
        const auto label = static_cast<std::uint32_t>(load->weights);
        kind == kUsers ? see(node, links + load->link, label, 1)
                       : see(links + load->link, node, label, users.copies(user, load->link));
      }
  }

  std::int32_t sender_node(std::size_t sender) const {
    return communicators_.count() + static_cast<std::int32_t>(sender);
  }
  std::int32_t sending(std::size_t sender) const { return orbit_of(users_.owners()[senders_[sender]].rank); }

  void refine_all() {
    const Nodes all = nodes();
    const NodeClasses classes = refine(all, [&](std::size_t kind, const auto& see) { each_edge(kind, see); });
    rank_class_ = classes.of_kind(all, kRanks);
    user_class_ = classes.of_kind(all, kUsers);
    link_class_ = classes.of_kind(all, kLinks);
    user_classes_ = classes.count(kUsers);
    link_classes_ = classes.count(kLinks);
    communicator_of_class_.assign(as_index(user_classes_), -1);
  }

  // ---- The divided graph ---------------------------------------------------------------------------------------------

  void count_rank(std::size_t orbit) {
    const std::size_t own = as_index(rank_class_[orbit]);
    if (own == first_of_class_.size()) {
      first_of_class_.push_back(orbit);
      size_.push_back(0);
    }
    size_[own] += users_.orbits().order();
  }

  void add_rank(std::size_t orbit) {
    const int pp = pp_of(orbit);
    Rank rank = graph_.ranks[as_index(pp)];
    rank.representative = first_ranks_[orbit];
    rank.multiplicity = size_[parts_.ranks.size()];
    for (ChannelEnd& end : rank.channels)
      if (end.rank >= 0) end.rank = rank_class_[as_index(partner(orbit, pp, end.rank))];
    for (int slot = 0; slot < kSlots; ++slot) {
      std::int32_t& communicator = rank.communicators[as_index(slot)];
      if (communicator >= 0)
        communicator = divided(communicators_.of(slot, static_cast<std::int32_t>(orbit)), communicator);
    }
    parts_.ranks.push_back(std::move(rank));
  }

  /// The number of a communicator in the divided graph, in the order of first use.
  std::int32_t divided(std::int32_t node, std::int32_t undivided) {
    std::int32_t& number = communicator_of_class_[as_index(user_class_[as_index(node)])];
    if (number < 0) {
      number = static_cast<std::int32_t>(parts_.communicators.size());
      parts_.communicators.push_back({undivided, {}});
      node_of_communicator_.push_back(node);
    }
    return number;
  }

  void add_members() {
    std::vector<std::int32_t> number(as_index(communicators_.count()), -1);  // of those that represent their class
    for (std::size_t i = 0; i < node_of_communicator_.size(); ++i)
      number[as_index(node_of_communicator_[i])] = static_cast<std::int32_t>(i);
    for (const CommunicatorOrbits::Member& each : communicators_.members())
      if (const std::int32_t own = number[as_index(each.communicator)]; own >= 0)
        parts_.communicators[as_index(own)].members.push_back(rank_class_[as_index(each.rank)]);
    for (StageParts::Members& each : parts_.communicators) {
      std::sort(each.members.begin(), each.members.end());
      each.members.erase(std::unique(each.members.begin(), each.members.end()), each.members.end());
    }
  }

  /// Of the first user of each class.
  void add_loads() {
    std::vector<std::int32_t> classes;  // [user]
    for (const std::int32_t node : node_of_user_) classes.push_back(user_class_[as_index(node)]);
    FoldedWeights weights = folded_weights(users_.users(), classes, user_classes_, link_class_, link_classes_);
    for (std::size_t user = 0; user < classes.size(); ++user) {
      const StageUsers::User& owner = users_.owners()[user];
      auto own = std::exchange(weights[as_index(classes[user])], {});
      const std::int32_t part = owner.slot >= 0 ? communicator_of_class_[as_index(classes[user])]
                                                : rank_class_[as_index(orbit_of(owner.rank))];
      for (std::size_t k = 0; k < own.size(); ++k) {
        if (own[k].empty()) continue;
        FoldedTransfer transfer = users_.transfers(owner)[k];
        transfer.owner = part;
        transfer.shape.loads = std::move(own[k]);
        for (LinkWeight& load : transfer.shape.loads) load.link = users_.orbits().first_link(load.link);
        (owner.slot >= 0 ? parts_.loads.collectives : parts_.loads.messages).push_back(std::move(transfer));
      }
    }
  }

  const StepGraph& graph_;
  const Plan& plan_;
  const StageUsers& users_;
  const CommunicatorOrbits& communicators_;
  std::vector<std::int32_t> first_ranks_;   ///< [orbit of ranks]
  std::vector<std::size_t> senders_;        ///< users
  std::vector<std::int32_t> node_of_user_;  ///< [user] communicators, then senders
  std::vector<std::vector<std::pair<std::int32_t, std::uint32_t>>>
      neighbours_;                        ///< [pipeline rank] others, and a channel
  std::vector<std::int32_t> rank_class_;  ///< [orbit of ranks]
  std::vector<std::int32_t> user_class_;  ///< [communicator or sender]
  std::vector<std::int32_t> link_class_;  ///< [orbit of links]
  std::int32_t user_classes_ = 0;
  std::int32_t link_classes_ = 0;
  std::vector<std::size_t> first_of_class_;          ///< [class of ranks] orbit
  std::vector<std::int32_t> size_;                   ///< [class of ranks] ranks
  std::vector<std::int32_t> communicator_of_class_;  ///< [class of users] in the divided graph; -1: not used so far
  std::vector<std::int32_t> node_of_communicator_;   ///< [communicator of the divided graph]
  StageParts parts_;
};

}  // namespace

std::optional<StageParts> divide_stages(const StepGraph& folded, const Plan& plan, const Groups& groups,
                                        const StageUsers& users) {
  CommunicatorOrbits communicators(folded, plan, groups, users.orbits());
  if (!communicators.add_all()) return std::nullopt;
  return StageDivision(folded, plan, users, communicators).divide();
}

}  // namespace tracecast
