/// \file
/// The users of a cluster's links: the bipartite graph of transfers and directed links that folding refines.
///
/// A user is a communicator, or a rank as the sender to one other rank. All transfers of a user cross links of one
/// set. Each link of a user has a list of weights, one for each transfer; lists have numbers.
///
/// Under a symmetry that maps users to users and links to links (link_orbits.hpp), one user of each orbit is enough: links
/// are then orbits of links, and copies() tells how often a load occurs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/graph/step_graph.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/network/fluid.hpp"

namespace tracecast {

/// What the programs of a graph transfer.
struct ProgramTransfers {
  explicit ProgramTransfers(const StepGraph& graph);
  std::vector<std::map<std::int32_t, std::vector<std::int32_t>>> called;  ///< [program] collectives by slot
  std::vector<std::map<std::int32_t, std::int32_t>> sent;                 ///< [program] messages by channel
};

/// Transfers up to this size load no link: gradient norms and flags only take their latency.
inline constexpr Bytes kLoadsNothing{4096};
/// True if a transfer can share links at all.
bool loads_links(const CollectiveCall& call, const CollectiveCost& cost, std::size_t ranks);

class LinkUsers {
 public:
  struct Load {
    std::int32_t link = 0;
    std::int32_t weights = 0;  ///< number of its list of weights
    auto operator<=>(const Load&) const = default;
  };
  /// [transfer of the user] its weight on the link; 0: none.
  using Weights = std::vector<std::int64_t>;

  std::int32_t count() const { return static_cast<std::int32_t>(first_.size()) - 1; }
  const Load* begin(std::int32_t user) const { return loads_.data() + first_[static_cast<std::size_t>(user)]; }
  const Load* end(std::int32_t user) const { return loads_.data() + first_[static_cast<std::size_t>(user) + 1]; }
  /// How many loads a load of `user` on `link` stands for, times order() and divided by the links that `link` stands for.
  std::int32_t copies(std::int32_t user, std::int32_t link) const {
    if (order_ == 1) return 1;
    return user_copies_[static_cast<std::size_t>(user)] * link_copies_[static_cast<std::size_t>(link)];
  }
  /// Of the symmetry; 1: every user and every link stands for itself.
  std::int32_t order() const { return order_; }
  const Weights& weights(std::int32_t number) const { return weights_[static_cast<std::size_t>(number)]; }

  std::int32_t number_of(const Weights& weights);
  void reserve(std::size_t users, std::size_t loads) {
    first_.reserve(users + 1);
    loads_.reserve(loads);
  }
  /// To be called before users are added. `link_copies`: [link] order / the links that it stands for
  void use_symmetry(std::int32_t order, std::vector<std::int32_t> link_copies) {
    order_ = order;
    link_copies_ = std::move(link_copies);
  }
  /// Appends a user with loads on the links that its transfers cross; returns its number. `copies`: users that it stands for
  std::int32_t add(const std::vector<Load>& loads, std::int32_t copies = 1);
  /// Drops links that are used by at most one transfer at a time, which are never a bottleneck. `own`: [user] how
  /// many of its transfers can be in flight together.
  void drop_unshared_links(std::int32_t links, const std::vector<std::int32_t>& own);

 private:
  std::vector<std::size_t> first_{0};  ///< [user] into loads_
  std::vector<Load> loads_;
  std::vector<Weights> weights_;
  std::map<Weights, std::int32_t> known_;
  std::int32_t order_ = 1;
  std::vector<std::int32_t> user_copies_;  ///< [user]; empty without symmetry
  std::vector<std::int32_t> link_copies_;  ///< [link]; empty without symmetry
};

/// Lists of weights of the messages from one rank to another, which all take the path between them.
class MessageWeights {
 public:
  /// `limits`: [message] the rate of its flow alone; 0: it loads no link.
  explicit MessageWeights(std::vector<Bandwidth> limits) : limits_(std::move(limits)) {}
  /// True if none loads links.
  bool empty() const {
    return std::all_of(limits_.begin(), limits_.end(), [](Bandwidth limit) { return limit == Bandwidth{}; });
  }
  /// The number of their list of weights on a link.
  std::int32_t on_link_of(std::int64_t capacity, LinkUsers& users);

 private:
  std::vector<Bandwidth> limits_;
  std::vector<std::pair<std::int64_t, std::int32_t>> known_;  ///< lists by capacity, of which there are few
};

/// The combined loads of several shapes: a list of weights for each link.   Requires loads by link, as TransferShapes gives
std::vector<LinkUsers::Load> loads_of(const std::vector<TransferShape>& shapes, LinkUsers& users);

}  // namespace tracecast
