/// \file
/// Who loads which links of a cluster: the bipartite graph of transfers and directed links that folding refines.
///
/// A user is a communicator, or a rank towards one of the ranks that it sends to. All transfers of a user cross links of
/// one set; what each of them puts on a link is a list of weights, one for each transfer, known by a number.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/graph/step_graph.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/network/fluid.hpp"

namespace tracecast {

/// Messages that a program sends: [channel] -> index into StepGraph::messages.
std::map<std::int32_t, std::int32_t> sent_messages(const StepGraph& graph, std::size_t program);

/// Collectives that a program calls, by slot.
using CalledCollectives = std::map<std::int32_t, std::vector<std::int32_t>>;
/// [program]
std::vector<CalledCollectives> called_collectives(const StepGraph& graph);

/// So few bytes load no link: gradient norms and flags take their latency.
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
  /// One list: what each transfer of the user puts on the link; 0: nothing.
  using Weights = std::vector<std::int64_t>;

  std::int32_t count() const { return static_cast<std::int32_t>(first_.size()) - 1; }
  const Load* begin(std::int32_t user) const { return loads_.data() + first_[static_cast<std::size_t>(user)]; }
  const Load* end(std::int32_t user) const { return loads_.data() + first_[static_cast<std::size_t>(user) + 1]; }
  const Weights& weights(std::int32_t number) const { return weights_[static_cast<std::size_t>(number)]; }

  std::int32_t number_of(const Weights& weights);
  void reserve(std::size_t users, std::size_t loads) {
    first_.reserve(users + 1);
    loads_.reserve(loads);
  }
  /// Appends a user with loads on the links that its transfers cross; returns its number.
  std::int32_t add(const std::vector<Load>& loads);
  /// Leaves out links that one transfer at a time loads: `own[user]` transfers of a user can be in flight together.
  void leave_unshared_out(std::int32_t links, const std::vector<std::int32_t>& own);

 private:
  std::vector<std::size_t> first_{0};  ///< [user] into loads_
  std::vector<Load> loads_;
  std::vector<Weights> weights_;
  std::map<Weights, std::int32_t> known_;
};

/// The loads of several shapes together, as lists of weights by link.
std::vector<LinkUsers::Load> loads_of(const std::vector<TransferShape>& shapes, LinkUsers& users);

}  // namespace tracecast
