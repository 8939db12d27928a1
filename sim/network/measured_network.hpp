/// \file
/// Measured collectives, which take precedence over a model.
///
/// A profile may hold times of collectives by number of ranks and hosts, and size. A call on a group inside one scale-up domain
/// takes its time from those on one host with as many ranks, unless they were measured on GPUs with links of another rate; a call
/// between hosts from those with as many ranks and hosts, if
///
///   - they were measured with NICs of the same rate in each host, and every host of the cluster is a scale-up domain of its own;
///   - the group has as many ranks on each host, and the NICs next to them for itself;
///   - no tier that slows it lies between its hosts, and no NIC has a fault.
///
/// A message (send_recv) takes the time of one measured over any number of ranks, each of which sent one: on one host if it stays on
/// one, else on several.
///
///   between two sizes   log t is linear in log size
///   beyond them         t = model(size) (1 + (r - 1) s)   with the spread of the model
///
/// r = measured / model at the smallest or largest measured size, s = 1 - |difference of the two sizes' shares of latency in the
/// model's time|. So t is continuous. Where the same part of the time dominates, latency or bandwidth, the model is scaled by r; a
/// measured latency says little about bandwidth, and the reverse, so there the model holds.
///
/// Other calls (numbers not measured, an algorithm asked for) use the model.
#pragma once

#include <memory>

#include "sim/cost/profile.hpp"
#include "sim/network/cluster.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

/// `cluster`: whose links and NICs decide which measurements hold; nullptr: all of one host, none between hosts.
std::unique_ptr<NetworkModel> with_measurements(std::unique_ptr<NetworkModel> model,
                                                std::vector<MeasuredCollective> measured,
                                                const Cluster* cluster = nullptr);

/// Rate of all NICs of a host, one direction; 0: no NICs, or a scale-up domain has several hosts.
Bandwidth network_of_host(const NodeSpec& node);

/// Rate of a GPU's link to the others of its host, one direction: NVLink or xGMI, else PCIe.
Bandwidth link_of_gpu(const NodeSpec& node);
/// Whether a measurement on one host was made on GPUs with links of this rate, as far as known.
bool is_of_link(const MeasuredCollective& measured, Bandwidth link);

/// The analytic model of the cluster, with precedence for the profile's measured collectives.
std::unique_ptr<NetworkModel> make_network(const Cluster& cluster, const Profile& profile);

}  // namespace tracecast
