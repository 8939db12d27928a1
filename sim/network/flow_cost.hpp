/// \file
/// The duration of a collective by its flows on links, beside its siblings: what `tracecast collective --network` prints.
///
/// Protocols, latencies and the rate of a flow are the analytic model's for a group whose fabric is not oversubscribed and
/// whose NICs are its own; what links and siblings do to that is found by sharing links. So the analytic model's ports,
/// shares of NICs and tiers are held against links.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/network/cluster.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

enum class NetworkKind { analytic, fluid, simgrid };
const char* to_string(NetworkKind kind);

/// Flows that SimGrid is asked to simulate at most.
inline constexpr std::int64_t kMostSimgridFlows = 4'000'000;

/// What one collective and its siblings do on a cluster.
struct SiblingCalls {
  CollectiveCall call;
  std::vector<std::vector<int>> groups;  ///< that begin together; the first one's duration is asked for
};

/// Cost of the call by `kind`, which is not analytic: the last end of all groups.
/// Errors: too large for SimGrid, or no SimGrid in this build.
Result<CollectiveCost> flow_cost(NetworkKind kind, const Cluster& cluster, const std::string& architecture,
                                 const SiblingCalls& calls);

}  // namespace tracecast
