/// \file
/// The cluster as a directed graph: GPUs, NVSwitches, PCIe switches, hosts, NICs and the switches of the fabric, joined by
/// links with a rate and a latency.
///
/// Nothing is stored per node: all nodes are equal, and vertices and links are numbered by arithmetic. So the memory of a
/// topology of a million GPUs is that of its switches.
///
///   vertices   node 0, node 1, …, then the switches of the fabric; in a node GPUs, NICs, PCIe switches, hosts, NVSwitch
///   links      node 0, node 1, …, then those of the fabric; a NIC's cable belongs to its node
///
/// One direction is one link. Links with equal load (the NVLinks of a GPU to all NVSwitches, the cables of a leaf to all
/// spines of a plane) are one link with the sum of their rates, unless FabricDetail::switches separates them.
/// Latencies add up to those of `place`: nic_latency from NIC to NIC through one switch, and hop_latency of each tier that a
/// path goes above. NVLink and mesh hops have link_latency; nic_latency includes PCIe next to a NIC.
/// Leaves out: the links between sockets of a host, and between GPU and its memory.
#pragma once

#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/network/cluster.hpp"
#include "sim/network/fabric.hpp"
#include "sim/network/nic_ports.hpp"

namespace tracecast {

enum class VertexKind { gpu, nic, pcie_switch, host, nvswitch, fabric_switch };
template <>
struct EnumNames<VertexKind> {
  static constexpr NamedValue<VertexKind> table[] = {
      {VertexKind::gpu, "gpu"},   {VertexKind::nic, "nic"},           {VertexKind::pcie_switch, "pcie switch"},
      {VertexKind::host, "host"}, {VertexKind::nvswitch, "nvswitch"}, {VertexKind::fabric_switch, "fabric switch"}};
};

struct Vertex {
  VertexKind kind = VertexKind::gpu;
  int node = -1;               ///< scale-up domain; -1: of the fabric
  int index = 0;               ///< within the node and kind
  FabricSwitch fabric_switch;  ///< where node is -1
  int devices = 1;             ///< physical devices that it represents
};

enum class LinkKind { nvlink, pcie, nic, fabric };
template <>
struct EnumNames<LinkKind> {
  static constexpr NamedValue<LinkKind> table[] = {
      {LinkKind::nvlink, "nvlink"}, {LinkKind::pcie, "pcie"}, {LinkKind::nic, "nic"}, {LinkKind::fabric, "fabric"}};
};

struct TopologyLink {
  LinkKind kind = LinkKind::nvlink;
  int tier = -1;  ///< of the fabric: the tier below it
  int from = 0;
  int to = 0;
  int cables = 1;      ///< that it represents
  Bandwidth capacity;  ///< of all cables; 0: failed
  Duration latency;
};

/// Numbers within one node. NIC k of the domain is NIC k mod nics of host k / nics. A PCIe switch joins one GPU with the NICs
/// next to it, or one NIC with the GPUs next to it, whichever are more.
struct NodeLayout {
  int gpus = 0;
  int nics = 0;
  int pcie_switches = 0;
  int hosts = 0;
  int nvswitches = 0;  ///< 0 or 1, which represents all

  int vertices() const { return gpus + nics + pcie_switches + hosts + nvswitches; }
  int nic(int i) const { return gpus + i; }
  int pcie_switch(int i) const { return gpus + nics + i; }
  int host(int i) const { return gpus + nics + pcie_switches + i; }
  int nvswitch() const { return gpus + nics + pcie_switches + hosts; }

  /// Pairs of links, first up (towards switch or host), then down: GPU to NVSwitch or other GPUs, GPU to PCIe, NIC to PCIe,
  /// PCIe switch to host, NIC to fabric.
  bool mesh = false;
  int nvlinks() const { return nvswitches > 0 ? 2 * gpus : mesh ? gpus * (gpus - 1) : 0; }
  int gpu_pcie(int gpu) const { return nvlinks() + 2 * gpu; }
  int nic_pcie(int nic) const { return nvlinks() + 2 * gpus + 2 * nic; }
  int host_pcie(int pcie_switch) const { return nvlinks() + 2 * gpus + 2 * nics + 2 * pcie_switch; }
  int nic_cable(int nic) const { return nvlinks() + 2 * gpus + 2 * nics + 2 * pcie_switches + 2 * nic; }
  int links() const { return nvlinks() + 2 * gpus + 4 * nics + 2 * pcie_switches; }
  int nvswitch_link(int gpu) const { return 2 * gpu; }
  int mesh_link(int from, int to) const { return from * (gpus - 1) + to - (to > from ? 1 : 0); }
};

class Topology {
 public:
  /// Sized by the cluster's world_size, with its `faults`.   Requires a cluster as read_topology returns it, and at most
  /// max_nodes
  explicit Topology(const Cluster& cluster, FabricDetail detail = FabricDetail::planes);

  const Cluster& cluster() const { return cluster_; }
  const NodeLayout& node() const { return layout_; }
  const Fabric& fabric() const { return fabric_; }
  FabricDetail detail() const { return detail_; }
  int nodes() const { return nodes_; }
  int vertex_count() const { return first_switch() + switch_count_; }
  int link_count() const { return first_fabric_link() + fabric_links_; }
  Vertex vertex(int id) const;
  TopologyLink link(int id) const;
  /// "node3/gpu5", "node0/nic2", "leaf 1 rail 3", "spine 0 #4".
  std::string name(int vertex) const;

  int gpu(int rank) const {
    const GpuCoord coord = cluster_.coord_of(rank);
    return coord.node * layout_.vertices() + coord.gpu;
  }
  int node_link(int node, int link) const { return node * layout_.links() + link; }
  int first_switch() const { return nodes_ * layout_.vertices(); }
  int first_fabric_link() const { return nodes_ * layout_.links(); }

  const NicPorts& ports() const { return ports_; }
  /// The PCIe switch, numbered within the domain, that a GPU or a NIC is connected to.
  int pcie_switch_of_gpu(int gpu) const;
  int pcie_switch_of_nic(int nic) const;
  /// Fabric number of the switch that a NIC is connected to.
  int attached(int node, int nic) const;
  /// The path through the fabric; its links are numbered within the fabric.
  FabricPath path(NicId from, NicId to, const PathSelector& selector) const;

 private:
  TopologyLink node_local_link(int link) const;
  TopologyLink nic_cable(int node, int nic, bool up) const;

  Cluster cluster_;
  FabricDetail detail_;
  NodeLayout layout_;
  int nodes_ = 1;
  NicPorts ports_;
  Fabric fabric_;
  int switch_count_ = 0;
  int fabric_links_ = 0;
  std::vector<double> kept_;  ///< [tier below a fabric link] share of its rate that lost uplinks leave
};

}  // namespace tracecast
