/// The cluster as the collective models see it: nodes, their links and NICs, and the fabric between them.
///
/// Read from topologies/<name>.json (docs/formats/topology.md) and sized by the scenario. Bandwidths are one direction.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/base/units.hpp"

namespace tracecast {

enum class IntraLink { nvswitch, nvlink_mesh, pcie, xgmi, none };

/// Inside one scale-up domain (a node, or an NVL72 rack).
struct NodeSpec {
  int gpus = 8;                  ///< GPUs of the scale-up domain
  int gpus_per_host = 8;         ///< GPUs that share a host, its CPU and NICs
  IntraLink link = IntraLink::nvswitch;
  Bandwidth gpu_link;            ///< per GPU and direction, as the vendor states it (H100: 450 GB/s)
  Duration link_latency;
  bool nvls = false;             ///< multicast and in-switch reduction
  int nics = 8;                  ///< per host
  Bandwidth nic_rate;            ///< line rate of one NIC
  Duration nic_latency;          ///< per message, NIC to NIC through one switch
  Bandwidth pcie;                ///< host to device, per GPU and direction
  std::string cpu;               ///< "intel", "amd", "grace": NCCL's constants differ
};

/// One level of the fabric above the nodes: units of `nodes` nodes, whose uplinks are oversubscribed by `oversubscription`.
struct FabricTier {
  std::string name;              ///< "leaf", "pod", …
  int nodes = 0;                 ///< nodes below one unit of this tier; 0: all
  double oversubscription = 1;   ///< downlink / uplink bandwidth at the top of the tier
  Duration hop_latency;          ///< added by crossing it
};

/// Corrections of NCCL's own model per fabric, fitted to measured collectives.
struct CollectiveTuning {
  double intra_bandwidth = 1;    ///< factor on the ring bandwidth inside a node at large sizes
  double nvls_bandwidth = 1;
  double net_bandwidth = 1;      ///< achieved / line rate of a NIC at large sizes
  double mid_size = 1;           ///< factor on the bandwidth term between 256 KiB and 64 MiB
  double base_latency = 1;       ///< factor on NCCL's base latencies
  double net_latency_us = 0;     ///< added per network hop
  std::string data;              ///< fitted on
  double residual = 0;           ///< mean |log error|
};

struct Cluster {
  std::string name;
  std::string gpu;               ///< name of the profile
  std::string source;
  NodeSpec node;
  std::string fabric;            ///< "rail-optimized", "fat-tree", "dragonfly", "torus"
  std::vector<FabricTier> tiers;  ///< from the nodes up
  CollectiveTuning tuning;
  int world_size = 0;

  int nodes() const { return (world_size + node.gpus - 1) / node.gpus; }
  int node_of(int rank) const { return rank / node.gpus; }
};

/// How a group of ranks lies in the cluster: all that a symmetric collective needs to know.
struct GroupPlacement {
  int ranks = 1;
  int nodes = 1;                 ///< scale-up domains touched
  int ranks_per_node = 1;        ///< in the fullest domain
  double nics = 0;               ///< NICs that this group can call its own in each node, sibling groups taken off
  double oversubscription = 1;   ///< of the highest tier it crosses
  int network_hops = 0;          ///< switches between two of its nodes, at most
  Duration extra_latency;        ///< of the tiers it crosses
  bool operator==(const GroupPlacement&) const = default;
};

/// Where `ranks` lie. `sharing` says how many sibling groups of the same kind communicate at the same time in the same
/// node and so share its NICs (the dp groups of the 8 tensor ranks of a node: 8).
GroupPlacement place(const Cluster& cluster, std::span<const int> ranks, int sharing);

}  // namespace tracecast
