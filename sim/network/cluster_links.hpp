/// \file
/// The links of a cluster that flows share: a numbering of the links of its topology, and the path of a flow over them.
///
/// A scale-up domain has a link into and out of each GPU, and one into and out of each port to the fabric (nic_ports.hpp),
/// which stands for the cables of its NICs. The links of the fabric follow in the order of the topology. With even routing
/// that is a topology of bundles (FabricDetail::bundles): traffic is split evenly over equal-cost paths, so all links of a
/// bundle carry the same load, and the bundle is one link with their total capacity.
///
/// With RoutingPolicy::ecmp each cable of the fabric is a link (FabricDetail::switches), and a flow takes one path over
/// cables. The flow is divided evenly among the NICs of its ports, as NCCL's channels are. Part i goes from the i-th working
/// NIC of one port to the i-th of the other, on the path that the fabric selects for flow i. Of several cables between two
/// switches the hash selects one. The hash depends only on NICs, so all flows between two NICs take the same path, whatever
/// collective they belong to. Lost uplinks reduce the capacity of every cable of their tier.
///
/// Faults: a port has its working NICs, at the rate of the slowest; lost uplinks reduce their bundles; ranks skip missing GPUs.
///
/// Capacities are what flows can reach: NCCL's share of a GPU's links (nccl_tuning.hpp), and 97.5 % of the line rate.
/// Leaves out: PCIe between GPU and NIC, the single links of a mesh (their sum is the GPU's link), the single NICs of a port.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/base/units.hpp"
#include "sim/network/cluster.hpp"
#include "sim/network/link_orbits.hpp"
#include "sim/network/topology.hpp"

namespace tracecast {

/// Share of the line rate that flows reach: forced rings reached 391 to 393 of 400 GB/s, 0.978 to 0.983. Chosen a little below, and all
/// tunings were fitted with it (docs/references.md#wire-efficiency).
inline constexpr double kWireEfficiency = 0.975;

using LinkPath = std::vector<std::int32_t>;

/// Errors of hashed routing on a fabric whose rails no tier connects.
Result<void> check_routing(const Cluster& cluster);

class ClusterLinks {
 public:
  /// `architecture` is the profile's: it selects NCCL's share of a GPU's links.
  ClusterLinks(const Cluster& cluster, const std::string& architecture);

  std::int32_t count() const { return count_; }
  Bandwidth capacity(std::int32_t link) const;
  /// "node 3 gpu 2 out", "leaf 0 rail 5 up", "leaf0.5.0 to spine0.1.3", "leaf0.5.0 to spine0.1.3 cable 2"
  std::string name(std::int32_t link) const;

  /// True if each flow takes one path over cables, which are the links from `first_cable()` on.
  bool hashed() const { return bundles_ == nullptr; }
  std::int32_t first_cable() const { return hashed() ? fabric_base_ : count_; }

  int gpus() const { return gpus_; }    ///< of one domain
  int ports() const { return ports_; }  ///< of one domain
  int domain_of(int rank) const { return coord_of(rank).node; }
  int port_of(int rank) const { return topology_->ports().of_gpu(coord_of(rank).gpu); }
  /// The port that carries the traffic of port_of(rank): itself if it works.   Requires ports
  int working_port_of(int rank) const { return exit_of(coord_of(rank), -1).port; }

  /// Number of equal parts of a flow that take separate paths: the NICs of its ports if routing is hashed, else 1.
  int parts(int from, int to, int rail) const;
  /// Appends the path of a part from one rank to another. Between domains it uses port `rail` of both; -1: the ports next to
  /// the ranks.   Requires different ranks, and ports if they are in different domains
  void append_route(int from, int to, int rail, LinkPath& route, int part = 0) const;
  /// Links to and from the switch of a rank's domain, which multicasts and reduces (NVLS).
  void append_to_switch(int rank, LinkPath& route) const { route.push_back(gpu_out(coord_of(rank))); }
  void append_from_switch(int rank, LinkPath& route) const { route.push_back(gpu_in(coord_of(rank))); }
  /// True if all domains are the same: no slow NIC or missing GPU in some of them.
  bool equal_domains() const;
  /// True if moving the ranks `first` to `last` (in ascending domains) by `domains` moves all links of their paths by the
  /// same: domains are equal, and paths only leave units that are mapped to units.
  bool is_translation(int first, int last, int domains) const;
  /// The links up to rotations of all domains by multiples of `step` GPUs, and of blocks of `block` domains. Nothing if these do not
  /// map ports to ports that work alike, or units of the fabric to themselves, or if routing is hashed, unless `step` is gpus() and
  /// `block` 1, which leaves all links where they are.
  std::optional<LinkOrbits> orbits(int step, int block = 1) const;

  /// Links to and from the first switch of the fabric, which reduces (SHARP); aggregated traffic above it is small.
  void append_to_network(int rank, int rail, LinkPath& route) const;
  void append_from_network(int rank, int rail, LinkPath& route) const;

 private:
  GpuCoord coord_of(int rank) const { return topology_->cluster().coord_of(rank); }
  NicPorts::Exit exit_of(GpuCoord coord, int rail) const { return topology_->ports().exit(coord, rail); }
  std::int32_t gpu_out(GpuCoord coord) const { return domain_base(coord.node) + coord.gpu; }
  std::int32_t gpu_in(GpuCoord coord) const { return gpu_out(coord) + gpus_; }
  std::int32_t port_out(int domain, int port) const { return domain_base(domain) + 2 * gpus_ + port; }
  std::int32_t port_in(int domain, int port) const { return port_out(domain, port) + ports_; }
  std::int32_t domain_base(int domain) const { return domain * 2 * (gpus_ + ports_); }
  /// The topology's link of a link of the fabric, and which of its cables it is; -1: all.
  std::pair<TopologyLink, std::int32_t> fabric_link(std::int32_t link) const;
  void append_cables(NicId from, NicId to, int part, LinkPath& route) const;
  void append_departure(GpuCoord source, NicPorts::Exit exit, LinkPath& route) const;
  void append_arrival(GpuCoord target, NicPorts::Exit exit, LinkPath& route) const;

  std::shared_ptr<const Topology> topology_;
  const TreeFabric* bundles_ = nullptr;  ///< of the topology; null: hashed
  int gpus_;
  int ports_;
  Bandwidth gpu_capacity_;
  std::int32_t fabric_base_ = 0;  ///< number of the fabric's first link
  std::int32_t count_ = 0;
  std::vector<std::int32_t> first_cables_;  ///< [fabric link] number of its first cable; last: count(); only if hashed
};

}  // namespace tracecast
