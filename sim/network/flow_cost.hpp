/// \file
/// The duration of a collective from its flows on links, concurrent with its siblings: what `tracecast collective --network`
/// prints.
///
/// Protocols, latencies and the rate of a flow are those of the analytic model for a group that has its NICs for itself and a
/// fabric without oversubscription. The effect of links and siblings comes from sharing links. This checks the analytic
/// model's ports, NIC shares and tiers against links.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/network/cluster.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

/// Most flows that SimGrid is asked to simulate.
inline constexpr std::int64_t kMaxSimgridFlows = 4'000'000;
/// Most pairs of ranks whose paths an all-to-all is asked for: half a minute.
inline constexpr std::int64_t kMaxFluidPairs = 1'000'000'000;

/// A collective and its concurrent siblings.
struct SiblingCalls {
  CollectiveCall call;
  std::vector<std::vector<int>> groups;  ///< start together; the call's own group first
};

/// Cost of the call by the network model `kind`; its duration ends with the last group.   Requires a kind other than isolated
/// Errors: too large for fluid or SimGrid, or no SimGrid in this build.
Result<CollectiveCost> flow_cost(NetworkKind kind, const Cluster& cluster, const std::string& architecture,
                                 const SiblingCalls& calls);

}  // namespace tracecast
