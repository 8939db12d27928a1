/// Parameter servers: W workers send their gradients S to Q servers and take the updated parameters back.
///
///   push = pull = max(W S / (Q b_s), S / b_w)         b_s, b_w: a server's and a worker's link, each way
///   synchronous step = slowest worker's compute + push + pull
///   asynchronous     = min(sum over workers 1 / (c_i + 2 S / b_w), Q b_s / S) updates a second
///
/// The servers' links are shared by all workers: against a ring all-reduce of the same gradients (2 (W-1)/W S / b) push
/// and pull take W^2 / (Q (W-1)) times as long. Servers send to some workers while others send to them (full duplex).
/// Leaves out: the servers' own additions.   Source: DOMAIN.md 3.2; test T-C2
#pragma once

#include <span>

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

/// Push and pull overlapping each other, bucket by bucket.
double pipelined_push_pull_s(const ParameterServers& setup, Bytes size);

/// Updates per second of all workers together; `compute_s` of each worker.
double async_updates_per_s(const ParameterServers& setup, std::span<const double> compute_s, Bytes size);

/// Updates by others between a worker's pull and its push, when all are equally fast.
double mean_staleness(int workers);

/// Push and pull over a ring all-reduce on links of the same rate.
double server_over_ring(int workers, int servers);

}  // namespace tracecast
