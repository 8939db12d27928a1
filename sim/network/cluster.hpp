/// \file
/// The cluster as the collective models see it: nodes, their links and NICs, and the fabric between them.
///
/// Read from topologies/NAME.json (docs/formats/topology.md) and sized by the scenario. Bandwidths are one direction.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/base/units.hpp"

namespace tracecast {

enum class IntraLink { nvswitch, nvlink_mesh, pcie, xgmi, none };

/// Inside one scale-up domain (a node, or an NVL72 rack).
struct NodeSpec {
  int gpus = 8;           ///< GPUs of the scale-up domain
  int gpus_per_host = 8;  ///< GPUs that share a host, its CPU and NICs
  IntraLink link = IntraLink::nvswitch;
  Bandwidth gpu_link;  ///< per GPU and direction, as the vendor states it (H100: 450 GB/s)
  Duration link_latency;
  bool nvls = false;     ///< multicast and in-switch reduction
  int nics = 8;          ///< per host
  Bandwidth nic_rate;    ///< line rate of one NIC
  Duration nic_latency;  ///< per message, NIC to NIC through one switch
  Bandwidth pcie;        ///< host to device, per GPU and direction
  std::string cpu;       ///< "intel", "amd", "grace": NCCL's constants differ
  int nvswitches = 1;    ///< switch chips of the domain, where link is nvswitch
};

/// One level of the fabric above the nodes: units of `nodes` nodes, whose uplinks are oversubscribed by `oversubscription`.
struct FabricTier {
  std::string name;             ///< "leaf", "pod", …
  int nodes = 0;                ///< nodes below one unit of this tier; 0: all
  double oversubscription = 1;  ///< downlink / uplink bandwidth at the top of the tier
  Duration hop_latency;         ///< added by crossing it
};

/// What the fabric is built of, where it is known; it decides which switches a message meets (sim/network/topology.hpp).
struct FabricShape {
  int switch_ports = 0;  ///< of every switch above the leaves; 0: as many as it takes for all below to meet
  int routers = 0;       ///< dragonfly: routers of a group; 0: one for 16 NICs
  int global_links = 0;  ///< dragonfly: cables between two groups; 0: what the oversubscription of the group leaves
  std::vector<int> dimensions;  ///< torus: its lengths, the last one numbered fastest
  bool operator==(const FabricShape&) const = default;
};

/// Corrections of NCCL's own model per fabric, fitted to measured collectives (tools/accuracy/fit).
/// NCCL chooses by its uncorrected numbers; the duration of what it chose is then
///
///   base_latency base + hop_latency inside + net latency between + size / bandwidth + fill + copy
///
/// bandwidth  NCCL's times the factor below. Inside a domain LL and LL128 keep NCCL's: their limits were measured
/// fill       (mid_size - 1) min(size, mid_limit) / bandwidth: Simple and NVLS move whole slices and fill their pipeline
///            slowly, which NCCL's model leaves out (it is 15-30 % too fast from 0.25 to 64 MiB). Not for trees: NCCL's
///            own table of factors has it
/// copy       one rank's share passes its own memory once: size / ranks / copy_bandwidth (all_gather, reduce_scatter,
///            all_to_all), half of it for all_reduce
struct CollectiveTuning {
  double intra_bandwidth = 1;  ///< of Simple rings and trees inside a domain
  double nvls_bandwidth = 1;   ///< of NVLS inside a domain
  double net_bandwidth = 1;    ///< of everything that crosses NICs
  double mid_size = 1;         ///< inside a domain
  Bytes mid_limit{64 << 20};
  double net_mid_size = 1;  ///< between domains
  Bytes net_mid_limit{64 << 20};
  double base_latency = 1;     ///< factor on NCCL's base latencies
  double hop_latency = 1;      ///< factor on NCCL's latencies of hops inside a domain
  double net_hop_latency = 1;  ///< factor on NCCL's latencies of hops between domains, Simple
  double net_ll_latency = 1;   ///< the same for LL and LL128
  double net_latency_us = 0;   ///< added per network hop: what the NIC plugin reports (EFA 35 to 150 us)
  /// Largest cost of a ring's step when each node has one rank, where NCCL reckons with up to 14 us and 1.4 times that.
  /// 2.8 (2 to 4.4) was found on published training runs of 8 to 16,384 GPUs (docs/references.md#ring-hop). 0: NCCL's.
  double ring_step_us = 2.8;
  Bandwidth copy_bandwidth;     ///< 0: no such cost
  double direct_link = 1;       ///< send_recv and all_to_all: achieved / NCCL's rate of a GPU's links
  double direct_bandwidth = 1;  ///< the same: achieved / line rate of the NICs
  bool ll128 = true;            ///< NICs and their plugin keep 128-byte stores together
  bool pat = false;             ///< NCCL 2.23 and later: PAT where each node has one rank
  bool sharp = false;           ///< reduction in the network: CollNet
  std::string data;             ///< fitted on; empty: NCCL's own numbers
  double residual = 0.15;       ///< mean |log error|
  bool operator==(const CollectiveTuning&) const = default;
};

/// What is broken in the network, or taken from the job: the scenario's `perturb` (docs/formats/scenario.md).
struct NetworkFaults {
  /// A NIC at a part of its rate; 0: it is gone. `nic` counts over the hosts of the domain.
  struct SlowNic {
    int node = 0;
    int nic = 0;
    double speed = 1;
    bool operator==(const SlowNic&) const = default;
  };
  std::vector<SlowNic> slow_nics;
  std::vector<int> lost_rails;                 ///< NICs of this number are gone on every host
  std::map<std::string, double> lost_uplinks;  ///< [tier] share of the uplinks above its units that are gone, below 1
  std::map<int, int> missing_gpus;             ///< [node] GPUs that the job does without: its ranks skip them
  bool operator==(const NetworkFaults&) const = default;

  /// Every node is like every other one.
  bool uniform() const { return slow_nics.empty() && missing_gpus.empty(); }
};

/// Where a rank sits: scale-up domain, and GPU in it.
struct GpuSeat {
  int node = 0;
  int gpu = 0;
};

/// The file system that checkpoints go to, all ranks together.
struct StorageSpec {
  Bandwidth write;  ///< 0: not known
  Bandwidth read;
  bool operator==(const StorageSpec&) const = default;
};

/// How flows choose among equally short ways of the fabric.
/// even   over all of them alike; keeps symmetry, so that the ranks of a step fold
/// ecmp   each flow goes one way over single cables, chosen by a hash of (seed, the NICs of its ends, its number), as
///        switches with static hashing do. One way of a dragonfly is minimal, of a torus in the order of its dimensions
enum class RoutingPolicy { even, ecmp };

/// The library that runs collectives; see host_collectives.hpp.
enum class Backend { nccl, gloo, mpi };

struct Cluster {
  std::string name;
  std::string gpu;  ///< name of the profile
  std::string source;
  NodeSpec node;
  std::string fabric;             ///< "rail-optimized", "fat-tree", "dragonfly", "torus"
  std::vector<FabricTier> tiers;  ///< from the nodes up
  CollectiveTuning tuning;
  StorageSpec storage;
  Backend backend = Backend::nccl;
  RoutingPolicy routing = RoutingPolicy::even;
  std::int64_t routing_seed = 1;  ///< of ecmp; not negative
  int world_size = 0;
  int max_nodes = 0;  ///< scale-up domains that the machine has; 0: any number
  NetworkFaults faults;
  FabricShape shape;

  int nodes() const { return node_of(world_size - 1) + 1; }
  int node_of(int rank) const { return seat(rank).node; }
  /// Ranks fill the nodes one after the other; of a node with missing GPUs they leave out the last ones.
  GpuSeat seat(int rank) const {
    if (faults.missing_gpus.empty()) return {rank / node.gpus, rank % node.gpus};
    return seat_beside_missing(rank);
  }

 private:
  GpuSeat seat_beside_missing(int rank) const;
};

/// How a group of ranks lies in the cluster: all that a symmetric collective needs to know.
struct GroupPlacement {
  int ranks = 1;
  int nodes = 1;                ///< scale-up domains touched
  int ranks_per_node = 1;       ///< in the fullest domain
  double nics = 0;              ///< NICs that this group can call its own in each node, sibling groups taken off
  double oversubscription = 1;  ///< of the tier that slows it most
  double crossing = 0;          ///< share of the nodes below that tier whose next member lies outside
  int network_hops = 0;         ///< switches between two of its nodes, at most
  Duration extra_latency;       ///< of the tiers it crosses
  bool operator==(const GroupPlacement&) const = default;
};

/// Where `ranks` lie. `sharing` says how many sibling groups of the same kind communicate at the same time in the same
/// node and so share its NICs (the dp groups of the 8 tensor ranks of a node: 8). A group uses the NICs next to its own
/// GPUs (GPU i of h on a host with c NICs: from floor(i c / h) on), at most its share of the domain's.
///
/// Crossing: every group of the cluster is taken to do the same, shifted. If neighbours are d nodes apart, min(d, u) of
/// the u nodes below a unit send across its uplinks: rings of adjacent nodes hardly load a 7:1 tier, strided ones do.
/// Nodes that another job has (all of their GPUs missing) send nothing.
///
/// Faults: of the NICs that a group uses in a domain, the slowest decides, since rings load them evenly; a GPU whose NIC is
/// gone uses the next one of its host, and shares it with whoever has it. Lost uplinks raise a tier's oversubscription.
/// Requires   ranks not empty, all below world_size; sharing >= 1; every host keeps a NIC
GroupPlacement place(const Cluster& cluster, std::span<const int> ranks, int sharing);

}  // namespace tracecast
