/// \file
/// The cluster as the network models see it: nodes, their links and NICs, and the fabric between them.
///
/// Read from topologies/NAME.json (docs/formats/topology.md) and sized by the scenario. Bandwidths are per direction.
/// Leaves out: storage networks, and traffic of other jobs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// How the GPUs of a scale-up domain are connected.
enum class IntraLink { nvswitch, nvlink_mesh, pcie, xgmi, none };
template <>
struct EnumNames<IntraLink> {
  static constexpr NamedValue<IntraLink> table[] = {{IntraLink::nvswitch, "nvswitch"},
                                                    {IntraLink::nvlink_mesh, "nvlink-mesh"},
                                                    {IntraLink::pcie, "pcie"},
                                                    {IntraLink::xgmi, "xgmi"},
                                                    {IntraLink::none, "none"}};
};

/// True if every pair of GPUs has links of its own.
constexpr bool is_mesh(IntraLink link) { return link == IntraLink::nvlink_mesh || link == IntraLink::xgmi; }

/// The CPU of the hosts. NCCL's constants are different for AMD.
enum class CpuKind { intel, amd, grace, a64fx };
template <>
struct EnumNames<CpuKind> {
  static constexpr NamedValue<CpuKind> table[] = {
      {CpuKind::intel, "intel"}, {CpuKind::amd, "amd"}, {CpuKind::grace, "grace"}, {CpuKind::a64fx, "a64fx"}};
};

/// The fabric between the nodes.
enum class FabricKind { rail_optimized, fat_tree, dragonfly, torus, none };
template <>
struct EnumNames<FabricKind> {
  static constexpr NamedValue<FabricKind> table[] = {{FabricKind::rail_optimized, "rail-optimized"},
                                                     {FabricKind::fat_tree, "fat-tree"},
                                                     {FabricKind::dragonfly, "dragonfly"},
                                                     {FabricKind::torus, "torus"},
                                                     {FabricKind::none, "none"}};
};

inline constexpr int kMostGpus = 1 << 24;  ///< of a job or a machine

/// Inside one scale-up domain (a node, or an NVL72 rack).
struct NodeSpec {
  int gpus = 8;            ///< GPUs of the scale-up domain that the job uses
  int installed_gpus = 0;  ///< of a rack; 0: the job uses all of them (rack_use.hpp)
  int gpus_per_host = 8;   ///< GPUs that share a host, its CPU and NICs
  IntraLink link = IntraLink::nvswitch;
  Bandwidth gpu_link;  ///< per GPU and direction, as the vendor states it (H100: 450 GB/s)
  Duration link_latency;
  bool nvls = false;     ///< multicast and in-switch reduction
  int nics = 8;          ///< per host
  Bandwidth nic_rate;    ///< line rate of one NIC
  Duration nic_latency;  ///< per message, NIC to NIC through one switch
  Bandwidth pcie;        ///< host to device, per GPU and direction
  CpuKind cpu = CpuKind::intel;
  int nvswitches = 1;     ///< switch chips of the domain, where link is nvswitch
  double gpu_watts = 0;   ///< rated power of one GPU; 0: not known
  double host_watts = 0;  ///< most that a host draws beside its GPUs; 0: not known
  Bytes host_memory;      ///< of one host; 0: not known

  int hosts() const { return gpus > gpus_per_host ? gpus / gpus_per_host : 1; }  ///< of the domain
  bool operator==(const NodeSpec&) const = default;
};

/// One level of the fabric above the nodes: units of `nodes` nodes with oversubscribed uplinks.
struct FabricTier {
  std::string name;             ///< "leaf", "pod", …
  int nodes = 0;                ///< nodes below one unit of this tier; 0: all
  double oversubscription = 1;  ///< downlink / uplink bandwidth at the top of the tier
  Duration hop_latency;         ///< added by a path that crosses the tier
  bool operator==(const FabricTier&) const = default;
};

/// Places that a job is spread over, with equally many nodes and a fabric each, and the long links between them (sites.hpp).
struct Sites {
  int count = 1;
  Bandwidth wan_rate;    ///< of one site to all others together, per direction
  Duration wan_latency;  ///< one way
  bool operator==(const Sites&) const = default;
};

/// The switches and cables of the fabric, where known. They decide which switches a message passes (topology.hpp).
struct FabricShape {
  int switch_ports = 0;         ///< of every switch above the leaves; 0: enough to connect everything below
  int routers = 0;              ///< dragonfly: routers of a group; 0: one for 16 NICs
  int global_links = 0;         ///< dragonfly: cables between two groups; 0: from the oversubscription of the group
  std::vector<int> dimensions;  ///< torus: its lengths; the last dimension varies fastest
  bool operator==(const FabricShape&) const = default;
};

/// Corrections of NCCL's own model per fabric, fitted to measured collectives (tools/accuracy/fit).
/// NCCL chooses an algorithm by its uncorrected numbers. The duration of that choice is
///
///   base_latency base + hop_latency inside + net latency between + size / bandwidth + fill + copy
///
/// hops       NCCL's constants and these factors hold for the latencies of Cluster::reference. Each hop takes as much longer
///            or shorter as the cluster's link_latency or nic_latency differs from them
/// bandwidth  NCCL's times the factor below. Inside a domain LL and LL128 keep NCCL's, which are measured limits
/// fill       (mid_size - 1) min(size, mid_limit) / bandwidth: Simple and NVLS move whole slices and fill their pipeline
///            slowly. NCCL's model leaves this out and is 15-30 % too fast from 0.25 to 64 MiB. Not for trees, where
///            NCCL's own table of factors includes it. Between domains, net_mid_limit is that of whole nodes of 8 ranks: a group
///            with fewer NICs has fewer channels to fill, and of more than 8 ranks the pipeline is longer (two full racks of
///            GB200: docs/references.md#published-collectives)
/// copy       one rank's share passes through its own memory once: size / ranks / copy_bandwidth (all_gather,
///            reduce_scatter, all_to_all), half of it for all_reduce
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
  double net_latency_us = 0;   ///< added per network hop: as the NIC plugin reports it (EFA 35 to 150 us)
  double net_call_us = 0;      ///< added once to a collective between domains, beside its hops
  /// Largest latency of a ring's round when each node has one rank, where NCCL assumes up to 14 us and 1.4 times that, but no less
  /// than nic_latency. 2.8 (2 to 4.4) was found on published training runs of 8 to 16,384 GPUs (docs/references.md#ring-hop). It grows
  /// in proportion to the further ranks in a node up to NCCL's, which was measured on whole nodes. 0: NCCL's.
  double ring_step_us = 2.8;
  Bandwidth copy_bandwidth;     ///< 0: no copy
  double direct_link = 1;       ///< send_recv and all_to_all: achieved / NCCL's rate of a GPU's links
  double direct_bandwidth = 1;  ///< the same: achieved / line rate of the NICs
  bool ll128 = true;            ///< NICs and their plugin keep 128-byte stores atomic
  bool pat = false;             ///< NCCL 2.23 and later: PAT where each node has one rank
  bool sharp = false;           ///< reduction in the network: CollNet
  std::string data;             ///< fitted on; empty: NCCL's own numbers
  double residual = 0.15;       ///< mean |log error|
  bool operator==(const CollectiveTuning&) const = default;
};

/// Faults of the network, and GPUs that the job does not have: the scenario's `perturb` (docs/formats/scenario.md).
struct NetworkFaults {
  /// A NIC at a fraction of its rate; 0: failed. `nic` counts over the hosts of the domain.
  struct SlowNic {
    int node = 0;
    int nic = 0;
    double speed = 1;
    bool operator==(const SlowNic&) const = default;
  };
  std::vector<SlowNic> slow_nics;
  std::vector<int> lost_rails;  ///< NICs with this index have failed on every host
  std::map<std::string, double>
      lost_uplinks;                 ///< [tier] share of the uplinks above its units that have failed, below 1
  std::map<int, int> missing_gpus;  ///< [node] number of its GPUs that the job does not use
  bool operator==(const NetworkFaults&) const = default;

  /// True if all nodes are the same.
  bool uniform() const { return slow_nics.empty() && missing_gpus.empty(); }
};

/// The location of a rank: scale-up domain, and GPU in it.
struct GpuCoord {
  int node = 0;
  int gpu = 0;
};

/// The file system that checkpoints are written to; rates of all ranks together.
struct StorageSpec {
  Bandwidth write;  ///< 0: unknown
  Bandwidth read;
  bool operator==(const StorageSpec&) const = default;
};

/// How flows use the shortest paths of the fabric.
/// even   each flow is split evenly over all of them; this keeps the symmetry that folding needs
/// ecmp   each flow takes one path over single cables, chosen by a hash of (seed, the NICs of its ends, its number), as
///        switches with static hashing do. Paths are minimal in a dragonfly, and dimension by dimension in a torus
enum class RoutingPolicy { even, ecmp };
template <>
struct EnumNames<RoutingPolicy> {
  static constexpr NamedValue<RoutingPolicy> table[] = {{RoutingPolicy::even, "even"}, {RoutingPolicy::ecmp, "ecmp"}};
};

/// The library that runs collectives; see host_collectives.hpp.
enum class Backend { nccl, gloo, mpi };
template <>
struct EnumNames<Backend> {
  static constexpr NamedValue<Backend> table[] = {
      {Backend::nccl, "nccl"}, {Backend::gloo, "gloo"}, {Backend::mpi, "mpi"}};
};

/// Latencies of the machine that the collectives were measured on; none: those of the cluster.
struct ReferenceLatencies {
  std::optional<Duration> link;  ///< NodeSpec::link_latency
  std::optional<Duration> nic;   ///< NodeSpec::nic_latency
  bool operator==(const ReferenceLatencies&) const = default;
};

struct Cluster {
  std::string name;
  std::string gpu;  ///< name of the profile
  std::string source;
  NodeSpec node;
  FabricKind fabric = FabricKind::fat_tree;
  std::vector<FabricTier> tiers;  ///< from the nodes upwards
  CollectiveTuning tuning;
  ReferenceLatencies reference;
  StorageSpec storage;
  Backend backend = Backend::nccl;
  RoutingPolicy routing = RoutingPolicy::even;
  std::int64_t routing_seed = 1;  ///< for ecmp; not negative
  int world_size = 0;
  int max_nodes = 0;  ///< scale-up domains that the machine, or all sites together, have; 0: any number
  NetworkFaults faults;
  FabricShape shape;
  Sites sites;

  int nodes() const { return node_of(world_size - 1) + 1; }
  int node_of(int rank) const { return coord_of(rank).node; }
  /// Ranks fill the nodes in order, and skip missing GPUs, which are the last ones of their node.
  GpuCoord coord_of(int rank) const {
    if (faults.missing_gpus.empty()) return {rank / node.gpus, rank % node.gpus};
    return coord_with_missing_gpus(rank);
  }
  bool operator==(const Cluster&) const = default;

 private:
  GpuCoord coord_with_missing_gpus(int rank) const;
};

/// NICs first … last - 1 of a domain.
struct NicRange {
  int first = 0;
  int last = 0;
};
/// The NICs next to a GPU, both numbered within the domain: GPU i of h on a host with c NICs has those from floor(i c / h) on,
/// at least one.   Requires NICs
NicRange nics_of_gpu(const NodeSpec& node, int gpu);

inline constexpr int kNoNode = -1;
/// [NIC of the domain] rates of the NICs of a node, relative to a healthy NIC; 0: failed. `kNoNode`: of a node without faults
/// of its own.
std::vector<double> nic_speeds(const Cluster& cluster, int node);

/// [NIC of a host] the NIC that carries its traffic: itself if it works. All NICs of a host are equally far from a GPU whose own
/// NIC has failed, and NCCL distributes such GPUs over them: each failed NIC, in ascending order, is replaced by the working one
/// with the fewest users, of several the next one after it, cyclically.
/// Source: ncclTopoGetLocalNet of NCCL 2.30 (graph/topo.cc), docs/references.md#nccl-tuning
/// Requires   at least one NIC that works
std::vector<int> nics_in_use(const std::vector<bool>& works);

/// A value that no machine has, by its key in a topology file.
struct ImpossibleValue {
  std::string key;  ///< "node.nic_rate"
  std::string message;
};

/// Rates above those of the fastest hardware, which are usually in bits or sums of several links; and several nodes without a
/// network.
std::vector<ImpossibleValue> impossible_values(const Cluster& cluster);

/// How a group of ranks is placed in the cluster: what the cost of a symmetric collective depends on.
struct GroupPlacement {
  int ranks = 1;
  int nodes = 1;             ///< scale-up domains touched
  int ranks_per_node = 1;    ///< in the fullest domain
  double nics = 0;           ///< NICs available to this group in each node; the rest is for sibling groups
  int working_nics = 0;      ///< distinct ones among them, where that is fewest; 0: as many as `nics`
  double nics_per_rank = 0;  ///< of the rank that has fewest, while all of the group and its siblings send: all_to_all
  double ring_end_nics = 0;  ///< of the rank at which a ring of send_recv enters a node, while only such ranks send
  /// Ranks outside of its domain to which a rank sends in an all-to-all, in the domain whose NICs that takes longest; where they are
  /// more than nics_per_rank for each rank, that much fewer.
  double outside_peers = 0;
  double oversubscription = 1;  ///< of the tiers up to the one that slows the group most, multiplied
  double crossing = 0;          ///< share of the nodes below that tier whose next member is outside of the unit
  Duration extra_latency;       ///< of the tiers it crosses
  /// Line rate of its NICs over its share of the fabric's uplinks, at least 1. What leaves a node has the lower of what the library
  /// reaches over NICs and that share.
  double uplink_slowdown() const { return std::max(1.0, oversubscription * crossing); }
  double tree_slowdown = 1;        ///< the same of NCCL's double tree, which may leave a unit on more edges than a ring
  double all_to_all_slowdown = 1;  ///< and of traffic to all members alike
  bool operator==(const GroupPlacement&) const = default;
};

/// The placement of `ranks`. `sharing`: how many sibling groups of the same kind communicate in a node at the same time
/// and share its NICs (the dp groups of the 8 tensor ranks of a node: 8). A group uses the NICs next to its own GPUs,
/// at most its share of the domain's.
///
/// Crossing: assumes that all groups of the cluster communicate in the same way, shifted. If consecutive members are d nodes
/// apart, min(d, u) of the u nodes below a unit send across its uplinks: rings of adjacent nodes hardly load a 7:1 tier,
/// strided ones do. Nodes of other jobs (all of their GPUs missing) send nothing.
///
/// Unequal NICs: in `nics` the slowest one that a group uses in a domain decides, since rings load NICs evenly. In an all-to-all
/// every rank sends over its own NICs, and the rank with the smallest share of them decides. A GPU whose NIC has failed shares
/// another one of its host (nics_in_use). Lost uplinks raise a tier's oversubscription.
/// Requires   ranks not empty, all below world_size; sharing >= 1; every host keeps a NIC
GroupPlacement place(const Cluster& cluster, std::span<const int> ranks, int sharing);
/// The same for the group of all ranks, which has no siblings: visits domains, not ranks.   Requires no missing GPUs
GroupPlacement place_world(const Cluster& cluster);

}  // namespace tracecast
