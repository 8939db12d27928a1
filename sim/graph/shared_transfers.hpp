/// \file
/// Which transfers of a step graph share links with others, and the loads of each on its links.
/// A communicator runs one call at a time, a channel one message at a time; so a link that only one of them loads is
/// never a bottleneck, and is dropped. Transfers without other links have the duration in the graph, and the engine
/// does not pass them to the network, unless their own flows collide on cables (TransferShape::collides).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/graph/step_graph.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/network/fluid.hpp"

namespace tracecast {

/// A transfer with the flows that it consists of, and its loads on links that others load too.
struct SharedTransfer {
  const CollectiveCost& cost;
  const FlowSchedule& schedule;
  const FlowGroup& group;
  const TransferShape& shape;
};

/// Numbers of kinds of transfers in a network, by what the engine knows of a transfer; -1: shares no link.
class SharedTransfers {
 public:
  /// Adds a kind to the network that will run it; returns its number.
  using AddKind = std::function<std::int32_t(const SharedTransfer&)>;

  /// Requires a graph of all ranks of the job, one each.
  SharedTransfers(const StepGraph& graph, const ClusterLinks& links, const AddKind& add_kind);

  using AddShape = std::function<std::int32_t(const TransferShape&)>;
  /// Requires a folded graph with its loads.
  SharedTransfers(const StepGraph& folded, const AddShape& add_shape);

  std::int32_t of_collective(std::int32_t communicator, std::int32_t collective) const {
    return collectives_[static_cast<std::size_t>(first_[static_cast<std::size_t>(communicator)] +
                                                 within_slot_[static_cast<std::size_t>(collective)])];
  }
  /// By the sender and its end of the channel.
  std::int32_t of_message(std::int32_t rank, std::int32_t channel) const {
    return messages_[static_cast<std::size_t>(rank) * channels_ + static_cast<std::size_t>(channel)];
  }

  std::int64_t kinds() const { return kinds_; }  ///< that share links

 private:
  class Builder;

  void number_collectives(const StepGraph& graph);
  void number_messages(const StepGraph& graph);
  std::int32_t& collective(std::int32_t communicator, std::int32_t number) {
    return collectives_[static_cast<std::size_t>(first_[static_cast<std::size_t>(communicator)] +
                                                 within_slot_[static_cast<std::size_t>(number)])];
  }

  std::vector<std::int32_t> first_;        ///< [communicator] into collectives_
  std::vector<std::int32_t> within_slot_;  ///< [collective] its number among those of its slot
  std::vector<std::int32_t> collectives_;
  std::vector<std::int32_t> messages_;  ///< [rank x channels + channel]
  std::size_t channels_ = 0;
  std::int64_t kinds_ = 0;
};

}  // namespace tracecast
