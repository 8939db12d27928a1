/// \file
/// Collectives through gloo or MPI: rings over the hosts, without NVLink and without NCCL's algorithms.
///
///   t = rounds x latency + factor x size / rate + copies
///
/// rounds  2(n-1) all_reduce, n-1 all_gather, reduce_scatter and all_to_all, 1 send_recv, ceil(log2 n) broadcast
/// factor  the bytes that a rank sends per byte of size: 2(n-1)/n, (n-1)/n, 1
/// rate    of the slowest rank. gloo: one TCP connection, also inside a node; mpi: PCIe inside a node; between nodes the NIC of the
///         rank at the end of the node's part of the ring, of which other rings of the node use a share, in an all_to_all a rank's
///         share of the NICs; never more than PCIe
/// copies  gloo works on host memory: size / PCIe down and up. MPI is assumed to be CUDA-aware
///
/// Leaves out: overlapping rounds of several small messages, trees for small messages.
/// Source: gloo's rate is 1.11 GB/s between two p3.2xlarge (their line rate) and 0.58 GB/s between two g4dn.xlarge
/// (a quarter of it), discuss.pytorch.org/t/194008; latencies are assumptions, which the spread includes.
#pragma once

#include "sim/network/network_model.hpp"

namespace tracecast {

/// Requires cluster.backend other than nccl and a group of two ranks or more.
CollectiveCost host_collective(const Cluster& cluster, const CollectiveCall& call, const GroupPlacement& group);

}  // namespace tracecast
