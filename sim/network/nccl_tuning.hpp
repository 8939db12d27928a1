/// \file
/// NCCL's own model of its collectives: latency and bandwidth per algorithm and protocol, from which it chooses.
///
///   time = latency + size / bandwidth          latency = base + hops inside nodes + hops between nodes
///
/// Source: NCCL 2.30 graph/tuning.cc and topo.h, docs/references.md#nccl-tuning
/// Leaves out: aggregation of several calls, user-buffer registration, symmetric kernels.
#pragma once

#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/network/cluster.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

/// Selects the constants. GPUs unknown to NCCL use those of Ampere.
enum class NcclArchitecture { volta, ampere, hopper, blackwell };
NcclArchitecture nccl_architecture(std::string_view name);
/// The architecture of a GPU by the name of its profile: "h100-96gb" is "Hopper"; "" if unknown.
std::string_view architecture_of_gpu(std::string_view gpu);

/// Result of NCCL's graph search for one algorithm: channels, and GB/s of each inside and between nodes.
struct NcclGraph {
  int channels = 0;  ///< before NCCL doubles them; 0: the algorithm cannot be used
  double intra = 0;
  double inter = 0;
};

/// The properties of a communicator that NCCL's model uses.
struct NcclCommunicator {
  NcclArchitecture architecture = NcclArchitecture::hopper;
  int ranks = 8;
  int nodes = 1;
  int ranks_per_node = 8;
  bool pcie = false;  ///< GPUs of a node are connected by PCIe, not NVLink
  bool amd_cpu = false;
  double plugin_latency_us = 0;  ///< of the NIC plugin
  bool ll128 = true;             ///< NVLink and NICs keep 128-byte stores atomic
  bool pat = false;
  NcclGraph ring;
  /// Over several nodes: GB/s of a ring inside one of them. Its GPUs do not pass more on where the ring goes further. 0: not known
  /// (a mesh, whose rings take several links at once), or one rank per node.
  double ring_inside = 0;
  NcclGraph tree;
  NcclGraph nvls;
  NcclGraph collnet;
};

/// Channels and speeds as NCCL's search finds them: of the steps of its speed ladder the one with the largest total, with at
/// least 12 channels if the total stays the same. 12 x 20 on A100, 12 x 30 on H100, 8 x 45 over 8 NDR NICs.
NcclCommunicator nccl_communicator(const Cluster& cluster, const GroupPlacement& group, NcclArchitecture architecture);

/// GB/s into and out of one GPU towards the other ranks of its domain, in NCCL's model; on a mesh, over the links
/// to these ranks.
double nccl_gpu_rate(const NodeSpec& node, const GroupPlacement& group, NcclArchitecture architecture);

/// GPUs of a scale-up domain, at most, where the factors between nodes were fitted (CollectiveTuning).
inline constexpr int kGpusOfANode = 8;

/// One algorithm with one protocol. `bandwidth` is algorithm bandwidth in GB/s; 0: not available for this collective.
struct NcclCost {
  Algorithm algorithm = Algorithm::ring;
  Protocol protocol = Protocol::simple;
  double base_us = 0;
  double intra_us = 0;  ///< sum of hops inside nodes
  double inter_us = 0;  ///< sum of hops between nodes
  int intra_hops = 0;   ///< number of hops inside nodes
  int inter_hops = 0;   ///< number of hops between nodes
  double bandwidth = 0;
  double inside =
      0;  ///< of NVLS, rings and (PCIe) trees over several nodes: the bandwidth that the links in the nodes allow; 0: not known
  int channels = 0;
  double latency_us() const { return base_us + intra_us + inter_us; }
};

NcclCost nccl_cost(const NcclCommunicator& communicator, Collective collective, Algorithm algorithm, Protocol protocol);

/// NCCL's factor on the latency by size: for large rings over the network 1.4, before Ampere 1.9.
double nccl_latency_factor(const NcclCommunicator& communicator, const NcclCost& cost, Collective collective,
                           Bytes size);
/// NCCL's factor on the bandwidth by size: for trees, a table.
double nccl_bandwidth_factor(const NcclCost& cost, Bytes size);

/// NCCL's estimate in microseconds, by which it chooses.
double nccl_time_us(const NcclCommunicator& communicator, const NcclCost& cost, Collective collective, Bytes size);

/// The combinations that NCCL considers for a collective, restricted to a requested algorithm and protocol (as with
/// NCCL_ALGO and NCCL_PROTO). None for all_to_all and send_recv.
std::vector<NcclCost> nccl_candidates(const NcclCommunicator& communicator, Collective collective,
                                      Algorithm algorithm = Algorithm::automatic,
                                      Protocol protocol = Protocol::automatic);

/// Channels in use: twice those of the search, and fewer for small messages, since each thread needs some bytes to move.
int nccl_channels(const NcclCost& cost, Bytes size);

}  // namespace tracecast
