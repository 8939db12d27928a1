/// \file
/// The links of a cluster, numbered by arithmetic, and the path of a flow over them.
///
/// A scale-up domain has a link into and out of each GPU, and one into and out of each port to the fabric. A port is the
/// NICs next to one GPU, or one NIC that several GPUs share: GPU i of g uses port floor(i p / g) of p. Each unit of a tier
/// below the top has one bundle of uplinks and one of downlinks. Traffic is split evenly over equal-cost paths, so all links
/// of a bundle carry the same load, and the bundle is one link with their total capacity. On a rail-optimised fabric every
/// port index has its own leaf switch; rails meet one tier above.
///
/// With RoutingPolicy::ecmp each cable of the fabric is a link (topology.hpp, switch by switch), and a flow takes one path
/// over cables. The flow is divided evenly among the NICs of its ports, as NCCL's channels are. Part i goes from the i-th
/// working NIC of one port to the i-th of the other, through the switches that Routing finds for flow i. Of several cables
/// between two switches the hash selects one. The hash depends only on NICs, so all flows between two NICs take the same
/// path, whatever collective they belong to. Lost uplinks reduce the capacity of every cable of their tier.
///
/// A flow that leaves through the port of another GPU is forwarded to that GPU over NVLink first (PXN).
///
/// Faults: a port has its working NICs, at the rate of the slowest; a port without any is replaced by another one of its
/// host (nics_in_use); lost uplinks reduce their bundles; ranks skip missing GPUs.
///
/// Capacities are what flows can reach: NCCL's share of a GPU's links (nccl_tuning.hpp), and 97.5 % of the line rate.
/// Leaves out: PCIe between GPU and NIC, the single links of a mesh (their sum is the GPU's link), the single NICs of a port;
/// with even splitting also paths of dragonflies and tori beyond their tiers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/network/cluster.hpp"
#include "sim/network/link_orbits.hpp"
#include "sim/network/topology.hpp"

namespace tracecast {

/// Share of the line rate that flows reach: forced rings reached 391 to 393 of 400 GB/s (nccl-tests issue 309).
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

  /// True if each flow takes one path over cables, which are the links from `first_cable()` on.
  bool hashed() const { return hashed_ != nullptr; }
  std::int32_t first_cable() const { return hashed() ? tiers_base_ : count_; }

  int gpus() const { return gpus_; }    ///< of one domain
  int ports() const { return ports_; }  ///< of one domain
  int domain_of(int rank) const { return cluster_.node_of(rank); }
  int port_of(int rank) const { return port_of(cluster_.coord_of(rank)); }
  /// The port that carries the traffic of port_of(rank): itself if it works.   Requires ports
  int working_port_of(int rank) const { return port_in_use(domain_of(rank), port_of(rank)); }

  /// Number of equal parts of a flow that take separate paths: the NICs of its ports if routing is hashed, else 1.
  int parts(int from, int to, int rail) const;
  /// Appends the path of a part from one rank to another. Between domains it uses port `rail` of both; -1: the ports next to
  /// the ranks.   Requires different ranks, and ports if they are in different domains
  void append_route(int from, int to, int rail, LinkPath& route, int part = 0) const;
  /// Links to and from the switch of a rank's domain, which multicasts and reduces (NVLS).
  void append_to_switch(int rank, LinkPath& route) const { route.push_back(gpu_out(cluster_.coord_of(rank))); }
  void append_from_switch(int rank, LinkPath& route) const { route.push_back(gpu_in(cluster_.coord_of(rank))); }
  /// True if moving the ranks `first` to `last` (in ascending domains) by `domains` moves all links of their paths by the
  /// same: domains are equal, and paths only leave units that are mapped to units.
  bool is_translation(int first, int last, int domains) const;
  /// The links up to rotations of all domains by multiples of `step` GPUs. Nothing if these do not map ports to ports that
  /// work alike, or if routing is hashed, unless `step` is gpus(), which leaves all links where they are.
  std::optional<LinkOrbits> orbits(int step) const;

  /// Links to and from the first switch of the fabric, which reduces (SHARP); aggregated traffic above it is small.
  void append_to_network(int rank, int rail, LinkPath& route) const;
  void append_from_network(int rank, int rail, LinkPath& route) const;

 private:
  struct Tier {
    std::string name;
    int nodes = 0;          ///< domains of one unit
    int planes = 1;         ///< switches of a unit without a connection: the rails of a leaf
    std::int32_t base = 0;  ///< number of its first link
    Bandwidth capacity;     ///< of one bundle
  };

  /// The ports of one domain.
  struct Ports {
    std::vector<Bandwidth> capacity;     ///< [port] 0: none of its NICs works
    std::vector<std::int32_t> in_use;    ///< [port] the port that is used instead, itself if it works
    std::vector<std::vector<int>> nics;  ///< [port] its working NICs, numbered within the domain
  };

  /// The ports through which a flow between two domains leaves and arrives.
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
  /// Index of the port within its host: ports of one index share a leaf of a rail-optimised fabric.
  int rail_of(int port) const { return port % ports_per_host_; }
  static std::int32_t up(const Tier& tier, int domain, int port);
  static Ports ports_at(const Topology& topology, int ports, int domain);
  void find_ports();
  const Ports& ports_of(int domain) const;
  bool ports_work_alike() const;
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
    TopologyLink link;  ///< all cables together
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
  std::map<int, Ports> other_ports_;        ///< [domain] domains with a slow or failed NIC
  std::vector<Tier> tiers_;                 ///< empty if routing is hashed
  std::shared_ptr<const Topology> hashed_;  ///< switch by switch; null if traffic is split evenly
  std::vector<std::int32_t> first_cables_;  ///< [fabric link] number of its first cable; last: count()
};

}  // namespace tracecast
