/// \file
/// The links of a cluster, numbered by arithmetic, and the way of a flow over them.
///
/// A scale-up domain has a link into and out of each GPU, and one into and out of each port towards the fabric. A port is
/// the NICs next to one GPU (or the GPUs that share one NIC): GPU i of g with p ports uses port floor(i p / g). Each unit of
/// a tier below the top has one bundle of uplinks and one of downlinks: traffic is split evenly over equal-cost paths, so all
/// links of a bundle carry the same, and the bundle is one link of their summed capacity. On a rail-optimised fabric every
/// port index has a leaf switch of its own; rails meet one tier above.
///
/// With RoutingPolicy::ecmp every single cable of the fabric is a link instead (sim/network/topology.hpp, switch by switch), and
/// a flow takes one way over them. It is divided evenly among the NICs of its ports, as NCCL's channels are: part i goes
/// from the i-th working NIC of the one to the i-th of the other, by the switches that Routing finds for flow i; of several cables
/// between two switches the hash takes one. It knows NICs only, so all flows between two of them go one way, whatever
/// collective they belong to. Lost uplinks are taken off every cable of their tier alike.
///
/// A flow that has to leave by another GPU's port is forwarded over NVLink to that GPU first (PXN).
///
/// Faults of the cluster act here: a port is as many of its NICs as work, at the rate of the slowest of them; a port without any is
/// the next one of its host; lost uplinks are missing from their bundles; ranks leave out missing GPUs.
///
/// Capacities are what flows can reach: of a GPU's links NCCL's share (nccl_tuning.hpp), of the wire 97.5 % (cluster.hpp).
/// Leaves out: PCIe between GPU and NIC, the single links of a mesh (their sum is the GPU's link), the single NICs of a port;
/// with even splitting also routes of dragonflies and tori beyond their tiers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/network/cluster.hpp"
#include "sim/network/topology.hpp"

namespace tracecast {

/// Of the line rate: forced rings reached 391 to 393 of 400 GB/s (nccl-tests issue 309).
inline constexpr double kWireEfficiency = 0.975;

using LinkPath = std::vector<std::int32_t>;

class ClusterLinks {
 public:
  /// `architecture` is the profile's: it selects NCCL's share of a GPU's links.
  ClusterLinks(const Cluster& cluster, const std::string& architecture);

  std::int32_t count() const { return count_; }
  Bandwidth capacity(std::int32_t link) const;
  /// "node 3 gpu 2 out", "leaf 0 rail 5 up", "leaf0.5.0 to spine0.1.3", "leaf0.5.0 to spine0.1.3 cable 2"
  std::string name(std::int32_t link) const;

  /// Flows take one way each over cables of the fabric: links from `first_cable()` on.
  bool hashed() const { return hashed_ != nullptr; }
  std::int32_t first_cable() const { return hashed() ? tiers_base_ : count_; }

  int gpus() const { return gpus_; }    ///< of one domain
  int ports() const { return ports_; }  ///< of one domain
  int domain_of(int rank) const { return cluster_.node_of(rank); }
  int port_of(int rank) const { return port_of(cluster_.coord_of(rank)); }

  /// Parts of a flow from one rank to another that go ways of their own, equally much each: the NICs of its ports where
  /// routing is hashed, else 1.
  int parts(int from, int to, int rail) const;
  /// The way of a part from one rank to another; between domains over port `rail` of both, -1: over the ports next to them.
  /// Requires different ranks, and ports where they lie in different domains
  void append_route(int from, int to, int rail, LinkPath& route, int part = 0) const;
  /// Into and out of the switch of a rank's domain, that multicasts and reduces (NVLS).
  void append_to_switch(int rank, LinkPath& route) const { route.push_back(gpu_out(cluster_.coord_of(rank))); }
  void append_from_switch(int rank, LinkPath& route) const { route.push_back(gpu_in(cluster_.coord_of(rank))); }
  /// Ranks from `first` to `last` (ascending domains) have the same ways over links moved by `domains` once they are moved by
  /// so many: domains are alike, and no way leaves a unit that the move does not map to a unit.
  bool is_translation(int first, int last, int domains) const;
  /// The link of the same place that many domains further.   Requires is_translation(), of a way that crosses it
  std::int32_t translated(std::int32_t link, int domains) const;

  /// To and from the first switch of the fabric, where the network reduces (SHARP): aggregates above it are small.
  void append_to_network(int rank, int rail, LinkPath& route) const;
  void append_from_network(int rank, int rail, LinkPath& route) const;

 private:
  struct Tier {
    std::string name;
    int nodes = 0;          ///< domains of one unit
    int planes = 1;         ///< switches that do not meet inside a unit: the rails of a leaf
    std::int32_t base = 0;  ///< number of its first link
    Bandwidth capacity;     ///< of one bundle
  };

  /// The ports of one domain.
  struct Ports {
    std::vector<Bandwidth> capacity;     ///< [port] 0: none of its NICs works
    std::vector<std::int32_t> in_use;    ///< [port] the port that does its work
    std::vector<std::vector<int>> nics;  ///< [port] those that work, numbers of the domain
  };

  /// The ports that a flow between two domains leaves and arrives by.
  struct PortPair {
    GpuCoord source;
    GpuCoord target;
    int from_port = 0;
    int to_port = 0;
    int from_in_use = 0;
    int to_in_use = 0;
  };

  std::int32_t gpu_out(GpuCoord coord) const { return domain_base(coord.node) + coord.gpu; }
  std::int32_t gpu_in(GpuCoord coord) const { return gpu_out(coord) + gpus_; }
  std::int32_t port_out(int domain, int port) const { return domain_base(domain) + 2 * gpus_ + port; }
  std::int32_t port_in(int domain, int port) const { return port_out(domain, port) + ports_; }
  std::int32_t domain_base(int domain) const { return domain * 2 * (gpus_ + ports_); }
  int port_of(GpuCoord coord) const { return coord.gpu * ports_ / gpus_; }
  /// Number of the port among those of its host: ports of one number share a leaf of a rail-optimised fabric.
  int rail_of(int port) const { return port % ports_per_host_; }
  static std::int32_t up(const Tier& tier, int domain, int port);
  static Ports ports_at(const Topology& topology, int ports, int domain);
  void find_ports();
  const Ports& ports_of(int domain) const;
  int port_in_use(int domain, int port) const { return ports_of(domain).in_use[static_cast<std::size_t>(port)]; }
  const std::vector<int>& nics_of(int domain, int port) const {
    return ports_of(domain).nics[static_cast<std::size_t>(port)];
  }
  /// The GPU next to a port.
  GpuCoord gpu_next_to(int domain, int port) const;
  PortPair port_pair(GpuCoord source, GpuCoord target, int rail) const;
  void append_climb(const PortPair& flow, LinkPath& route) const;
  void append_cables(const PortPair& flow, int part, LinkPath& route) const;
  void number_cables();
  /// One of the cables between two switches.
  struct Cable {
    TopologyLink link;  ///< all of them
    std::int32_t place = 0;
  };
  Cable cable(std::int32_t link) const;
  void append_forward(GpuCoord from, GpuCoord to, LinkPath& route) const;
  void append_departure(GpuCoord from, int port, LinkPath& route) const;
  void append_arrival(GpuCoord to, int port, LinkPath& route) const;

  Cluster cluster_;
  int gpus_ = 1;
  int ports_ = 0;
  int ports_per_host_ = 1;
  bool rail_optimized_ = false;
  std::int32_t tiers_base_ = 0;
  std::int32_t count_ = 0;
  Bandwidth gpu_capacity_;
  Ports usual_ports_;
  std::map<int, Ports> other_ports_;        ///< [domain] where a NIC is slow or gone
  std::vector<Tier> tiers_;                 ///< none where routing is hashed
  std::shared_ptr<const Topology> hashed_;  ///< switch by switch; none where traffic is split evenly
  std::vector<std::int32_t> first_cables_;  ///< [fabric link] number of its first cable; last: count()
};

}  // namespace tracecast
