/// \file
/// Parameter servers: W workers send their gradients S to Q servers and take the updated parameters back.
///
///   push = pull = max(W S / (Q b_s), S / b_w)         b_s, b_w: a server's and a worker's link, in each direction
///
/// The servers' links are shared by all workers: against a ring all-reduce of the same gradients (2 (W-1)/W S / b) push
/// and pull take W^2 / (Q (W-1)) times as long. Servers send to some workers while others send to them (full duplex).
/// Leaves out: the servers' own additions.   Source: docs/references.md#parameter-server
#pragma once

#include "sim/base/units.hpp"
#include "sim/network/cluster.hpp"

namespace tracecast {

struct ParameterServers {
  int workers = 1;
  int servers = 1;
  double worker_rate = 0;  ///< bytes/s, one direction
  double server_rate = 0;
};

/// Workers placed as `group`. Between nodes: a worker's share of its host's NICs, a server is a host with NICs of its own.
/// In one node: the servers are GPUs' or host's ports of the same kind, NVLink's or PCIe's.
ParameterServers parameter_servers(const Cluster& cluster, const GroupPlacement& group, int servers);

/// Seconds to send `size` from (or to) every worker.
double push_s(const ParameterServers& setup, Bytes size);
/// Seconds of one worker alone, with the servers to itself.
double lone_push_s(const ParameterServers& setup, Bytes size);
/// Seconds that the servers are busy with one push of every worker.
double service_s(const ParameterServers& setup, Bytes size);

}  // namespace tracecast
