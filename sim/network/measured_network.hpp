/// \file
/// Measured collectives, which take precedence over a model.
///
/// A recorded profile holds times of collectives by number of ranks and size, on one scale-up domain or host. A call on
/// a group inside one domain takes its time from those with as many ranks:
///
///   between two sizes   log t is linear in log size
///   below the smallest  as long as the smallest
///   above the largest   at the bandwidth of the largest
///
/// Other calls (number of ranks not measured, several domains, an algorithm asked for) use the model.
#pragma once

#include <memory>

#include "sim/cost/profile.hpp"
#include "sim/network/cluster.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

std::unique_ptr<NetworkModel> with_measurements(std::unique_ptr<NetworkModel> model,
                                                std::vector<MeasuredCollective> measured);

/// The analytic model of the cluster, with precedence for the profile's measured collectives.
std::unique_ptr<NetworkModel> make_network(const Cluster& cluster, const Profile& profile);

}  // namespace tracecast
