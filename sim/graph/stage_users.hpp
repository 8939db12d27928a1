/// \file
/// The users of links of a step graph with one rank for each stage: the communicators and senders of all ranks of the job, up
/// to rotations of nodes and of blocks of nodes (link_orbits.hpp).
///
/// The loads of a group are computed once for all groups with an equivalent placement, and moved. A user's class is that of the
/// graph: its communicator, or the stage that sends and the one that receives.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/graph/groups.hpp"
#include "sim/graph/link_classes.hpp"
#include "sim/graph/link_users.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/plan/plan.hpp"

namespace tracecast {

/// Numbers of ranks, links and classes are not negative.
inline std::size_t as_index(std::int32_t i) { return static_cast<std::size_t>(i); }

class StageUsers {
 public:
  /// Requires one rank for each stage, and paths that are not hashed
  StageUsers(const StepGraph& graph, const Plan& plan, const Groups& groups, const ClusterLinks& links,
             const ProgramTransfers& transfers, LinkOrbits orbits)
      : graph_(graph),
        plan_(plan),
        groups_(groups),
        links_(links),
        transfers_(transfers),
        orbits_(std::move(orbits)),
        shapes_(links),
        capacities_(static_cast<std::size_t>(orbits_.count())),
        list_of_class_(graph.communicators.size(), -1) {}

  /// Adds all users, and drops the links that only one of them loads. False if a rotation does not map users to users with the
  /// same loads.
  bool add();

  /// One of each orbit of users.
  struct User {
    std::int32_t rank = 0;   ///< the first of the group, or the sender
    std::int32_t slot = -1;  ///< of the group; -1: a sender
    std::int32_t to = -1;    ///< pipeline rank that the sender sends to
    std::int32_t list = 0;   ///< of its transfers
  };
  const std::vector<User>& owners() const { return owners_; }  ///< [user]
  const LinkUsers& users() const { return users_; }            ///< of orbits of links
  const LinkOrbits& orbits() const { return orbits_; }
  /// [user] communicators of the graph, then pipeline ranks towards others.
  const std::vector<std::int32_t>& classes() const { return user_class_; }
  std::int32_t communicators() const { return static_cast<std::int32_t>(graph_.communicators.size()); }
  std::int32_t class_count() const { return static_cast<std::int32_t>(list_of_class_.size()); }
  /// [orbit of links] bytes per second; 0: no user
  const std::vector<std::int64_t>& capacities() const { return capacities_; }
  /// The transfers of a user, without loads.
  const std::vector<FoldedTransfer>& transfers(const User& user) const {
    return lists_[static_cast<std::size_t>(user.list)];
  }
  /// The transfers of a class, of which all users have the same; none of a class without users.
  const std::vector<FoldedTransfer>& transfers_of_class(std::int32_t user_class) const;

 private:
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
    std::int32_t list = -1;               ///< of its collectives, without loads
  };

  /// By the place of their first rank (place_of); groups that are moved by whole blocks have one place.
  using Patterns = std::vector<std::list<Pattern>>;

  bool rotations_keep_stages() const;
  std::vector<std::int32_t> link_copies() const;
  bool loads_links_in(int slot) const;
  int pp_of(int rank) const { return rank / plan_.grid.stride(Axis::pp) % plan_.parallel.pp; }

  bool add_groups(Slot slot);
  int first_rank(const Group& group) const {
    return group.begin + parts_[static_cast<std::size_t>(group.part)].front();
  }
  const std::vector<std::int32_t>* calls_of(const Group& group) const;
  std::optional<std::int32_t> add_group(const Group& group);
  /// Within a block of nodes.
  std::size_t place_of(int first) const {
    return static_cast<std::size_t>(links_.domain_of(first) % orbits_.block() * links_.gpus() + first % links_.gpus());
  }
  Patterns& patterns_of(const Group& group, const std::vector<std::int32_t>& calls);
  const Pattern* pattern_at(const Patterns& patterns, int first) const;
  const Pattern* new_pattern(Patterns& patterns, const Group& group);
  std::optional<std::vector<int>> distinct_images(const Pattern& pattern, const Group& group) const;
  bool keeps_order(const Group& from, const Group& to, int times) const;
  Group group_of(int rank) const;
  bool is_rotation(const Pattern& from, const Pattern& to, int times) const;
  Pattern pattern_of(const Group& group);

  std::int64_t capacity_of(std::int32_t orbit);
  void add_user(const User& user, std::int32_t user_class, const std::vector<LinkUsers::Load>& loads,
                std::int32_t copies);
  std::int32_t add_list(std::vector<FoldedTransfer> transfers);

  bool add_messages(int pp);
  bool add_senders(int pp, int to, std::int32_t list, std::int32_t user_class);
  bool rotates_path(int from, int to) const;

  const StepGraph& graph_;
  const Plan& plan_;
  const Groups& groups_;
  const ClusterLinks& links_;
  const ProgramTransfers& transfers_;
  const LinkOrbits orbits_;
  TransferShapes shapes_;
  std::vector<std::int64_t> capacities_;  ///< [orbit]
  LinkUsers users_;
  std::vector<User> owners_;
  std::vector<std::int32_t> user_class_;
  std::vector<std::int32_t> together_;              ///< [user] transfers that can be in flight at one time
  std::vector<std::vector<FoldedTransfer>> lists_;  ///< transfers without loads
  std::vector<std::int32_t> list_of_class_;         ///< -1: no user
  // Of the current slot:
  Slot slot_{};
  std::vector<int> offsets_;                                                ///< of a block's ranks from its first
  std::vector<std::vector<int>> parts_;                                     ///< [part] offsets of its members
  std::map<std::pair<int, std::vector<std::int32_t>>, Patterns> patterns_;  ///< by part and collectives
  std::vector<Patterns*> patterns_of_program_;  ///< for the current part; null: not looked up
  std::vector<LinkUsers::Load> moved_;
  std::vector<int> senders_;  ///< of pipeline rank 0, one of each orbit; those of the others are as many strides higher
  LinkPath path_;
};

}  // namespace tracecast
