/// \file
/// How long transfers occupy links: the part of a lower bound that shared links give.
///
/// A transfer that moves b bytes over a link of capacity c, and takes the time t for moving alone, occupies the link for
/// min(b / c, t) (fluid.hpp limits its weight). Transfers over one link take at least the sum of these times:
///
///   step >= sum over the transfers of a link of  min(b / c, t)
///
/// Bytes, with n ranks, k of them in each domain, and a buffer of S bytes:
///
///   algorithm         from and to each GPU inside its domain             from a domain, per rank of the group
///   ring              (k-1)/k of s                                       s / k        s: bus_bandwidth's factor x S
///   nvls, one domain  S on the way that carries all, S/k on the other    -
///   tree, nvls_tree   not counted                                        S / k: every node sends at least its own part
///   pat               -                                                  (n-1)/n S
///   direct            (k-1)/n S                                          (n-k)/n S    all_to_all
///   others            not counted: reduction in the network
#pragma once

#include <string>

#include "sim/network/cluster.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

/// Picoseconds. Means over the members of a group; so some link is occupied for at least as long.
struct LinkTime {
  double gpu_out = 0;
  double gpu_in = 0;
  double port = 0;  ///< of the ports of a domain whose GPUs all have the same traffic
  LinkTime& operator+=(const LinkTime& other) {
    gpu_out += other.gpu_out;
    gpu_in += other.gpu_in;
    port += other.port;
    return *this;
  }
  friend LinkTime operator*(const LinkTime& a, double count) {
    return {a.gpu_out * count, a.gpu_in * count, a.port * count};
  }
};

/// The capacities of one cluster's links, for occupation times.
class LinkTimes {
 public:
  LinkTimes(const Cluster& cluster, const std::string& architecture);

  /// A call that takes `cost` alone.
  LinkTime of(const CollectiveCall& call, const CollectiveCost& cost, const GroupPlacement& group) const;
  /// A message from each GPU of a domain to one of another domain; its time alone is that of the isolated network.
  LinkTime of_message(Bytes size) const;

 private:
  double gpu_ps_ = 0;      ///< picoseconds per byte of one GPU inside its domain
  double port_ps_ = 0;     ///< picoseconds per byte that each GPU of a domain sends through its ports; 0: no ports
  double message_ps_ = 0;  ///< the same at the rate of messages
};

}  // namespace tracecast
