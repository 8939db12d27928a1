/// \file
/// The fabrics above the NICs: their switches, how these are connected, and which links a message loads.
///
/// Switches and links are numbered from 0 within the fabric; Topology numbers them after those of the nodes. Every link is
/// one direction. Nothing is stored per pair of nodes; links of trees are stored per plane of switches.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/network/cluster.hpp"

namespace tracecast {

/// A flow of weight kWholeFlow loads each link with the share of it that passes there. Even splits are exact while the
/// product of the branches divides 2^12 3^2 5 7 11; others are rounded down, equally for all branches.
inline constexpr std::int64_t kWholeFlow = std::int64_t{4096} * 9 * 5 * 7 * 11;

struct LinkLoad {
  int link = 0;
  std::int64_t weight = 0;
  bool operator==(const LinkLoad&) const = default;
};

/// How a flow uses equally short paths: all of them evenly, or one that is selected by a hash.
struct PathSelector {
  bool hashed = false;
  std::uint64_t key = 0;  ///< the flow's hash
  /// One of `paths` for decision number `hop` of the flow.
  int pick(int paths, int hop) const;
};

/// A NIC, numbered within its scale-up domain.
struct NicId {
  int node = 0;
  int nic = 0;
};

/// Selects one path by a hash, the same for every flow with this number from one NIC to another. Switches hash the addresses
/// of the NICs, and a port number for each flow between them.
PathSelector hashed_selector(std::uint64_t seed, NicId from, NicId to, std::uint64_t flow);

/// The path of a message between two NICs.
struct FabricPath {
  std::vector<LinkLoad> loads;
  Duration latency;  ///< of its longest branch, without NIC cables
  int switches = 0;  ///< on its longest branch
  bool connected = true;
};

struct FabricSwitch {
  int tier = 0;     ///< 0: NICs are connected to it
  int unit = 0;     ///< of its tier; group of a dragonfly
  int group = 0;    ///< rail, or block of connected planes
  int index = 0;    ///< within its plane
  int devices = 1;  ///< physical switches that it represents
};

struct FabricLink {
  int from = 0;
  int to = 0;
  int tier = 0;        ///< below the link
  int cables = 1;      ///< in parallel, with equal load
  Bandwidth capacity;  ///< of all cables
  Duration latency;
};

/// bundles   one switch and one bundle of uplinks for each unit of a tier and, at the leaves of a rail-optimised fabric, for
///           each port of a host; whatever the fabric. Exact for trees with even splitting. Dragonflies and tori are taken
///           as their tiers, and FabricShape is not used. The links of the solver (cluster_links.hpp)
/// planes    one switch represents all switches of a plane. Exact with even splitting, where they carry the same load
/// switches  each switch by itself, as hashing needs it
enum class FabricDetail { bundles, planes, switches };

/// The tiers that a job of this size uses, at least one. Rails meet above the leaves, so a rail-optimised fabric uses at least two.
std::vector<FabricTier> used_tiers(const Cluster& cluster, FabricDetail detail);

/// Fat trees of any height and oversubscription, rail-optimised or plain, and the single switch of a fabric of unknown
/// structure.
///
/// A plane is the set of switches that the same NICs, or the same planes below, are connected to: one leaf; the spines of a
/// unit. Planes form a tree. With rails, a leaf plane has the NICs of one index of all hosts of a unit. A plane of S switches
/// is connected to one of T switches above all to all, or, if one number divides the other, in groups as in k-port fat
/// trees. If FabricShape::switch_ports gives the size of switches, planes of one unit connect to several blocks, rails first.
/// Source: docs/references.md#dgx-superpod, docs/references.md#fat-tree (Al-Fares, Loukissas, Vahdat 2008)
class TreeFabric {
 public:
  TreeFabric(const Cluster& cluster, FabricDetail detail);

  struct Plane {
    int tier = 0;
    int unit = 0;
    int group = 0;
    int devices = 1;   ///< physical switches
    int switches = 1;  ///< modelled: `devices`, or one for all
    int first_switch = 0;
    int parent = -1;     ///< plane above
    int first_link = 0;  ///< links to the parent: number 2k goes up, 2k + 1 comes down
  };

  int switch_count() const { return switch_count_; }
  int link_count() const { return static_cast<int>(links_.size()); }
  FabricSwitch fabric_switch(int index) const;
  FabricLink link(int index) const { return links_[static_cast<std::size_t>(index)]; }
  /// The switch that a NIC of a domain is connected to.
  int attached(int node, int nic) const;
  FabricPath path(int from, int to, const PathSelector& selector) const;
  /// The switch of the ports with this index in their host.   Requires FabricDetail::bundles
  int leaf(int node, int rail) const { return node / unit_nodes_ * leaf_groups_ + (leaf_groups_ == 1 ? 0 : rail); }
  /// Appends the links from one switch to another, each plus `base`.   Requires the same
  void append_bundles(int from, int to, std::int32_t base, std::vector<std::int32_t>& links) const {
    while (from != to) {
      const Plane& left = planes_[static_cast<std::size_t>(from)];
      const Plane& right = planes_[static_cast<std::size_t>(to)];
      links.push_back(base + left.first_link);
      links.push_back(base + right.first_link + 1);
      from = left.parent;
      to = right.parent;
    }
  }
  const std::vector<Plane>& planes() const { return planes_; }

  /// One tier, from the leaves up.
  struct Level {
    int nodes = 0;  ///< below a unit
    int units = 1;
    int groups = 1;  ///< planes of a unit
    int devices = 1;
    double up_cables = 0;  ///< of one plane; 0: the top
    double up = 0;         ///< the same, bytes per second
    Duration hop_latency;
  };
  const std::vector<Level>& levels() const { return levels_; }

 private:
  void add_levels(const Cluster& cluster, FabricDetail detail);
  void add_planes(FabricDetail detail);
  void add_links();
  const Plane& plane_of(int fabric_switch) const;

  std::vector<Level> levels_;
  std::vector<Plane> planes_;
  std::vector<FabricLink> links_;
  int switch_count_ = 0;
  int unit_nodes_ = 1;
  int leaf_groups_ = 1;
  int nics_per_host_ = 1;
};

/// Groups of routers: all to all inside a group, and `global_links` cables between any two groups. Paths are minimal: local,
/// global, local. NICs fill routers in order; the i-th global link of a group leaves its router i mod routers.
/// Source: Kim, Dally, Scott, Abts 2008, docs/references.md#dragonfly, docs/references.md#frontier
class DragonflyFabric {
 public:
  explicit DragonflyFabric(const Cluster& cluster);

  int switch_count() const { return groups_ * routers_; }
  int link_count() const { return local_links() + groups_ * (groups_ - 1) * global_; }
  FabricSwitch fabric_switch(int index) const { return {0, index / routers_, 0, index % routers_, 1}; }
  FabricLink link(int index) const;
  int attached(int node, int nic) const;
  FabricPath path(int from, int to, const PathSelector& selector) const;
  int groups() const { return groups_; }
  int routers() const { return routers_; }
  int global_links() const { return global_; }

 private:
  int local_links() const { return groups_ * routers_ * (routers_ - 1); }
  int local_link(int from, int to) const;
  int global_link(int from_group, int to_group, int i) const;
  /// Router of `group` at which its i-th link to `other` ends.
  int port(int group, int other, int i) const;

  int groups_ = 1;
  int routers_ = 1;
  int global_ = 1;
  int group_nodes_ = 1;
  int nics_ = 1;  ///< of a domain
  int nics_per_router_ = 1;
  Bandwidth rate_;
  Duration local_latency_;
  Duration global_latency_;
};

/// One router per domain in a torus. A dimension of length 2 has one link between its two routers; longer ones are rings.
/// A smaller job has a torus of the last dimensions and as much of the next one as it needs. Paths go dimension by dimension
/// in the shorter direction, half in each direction if both have the same length.
/// Source: docs/references.md#tofud
class TorusFabric {
 public:
  explicit TorusFabric(const Cluster& cluster);

  int switch_count() const { return routers_; }
  int link_count() const { return routers_ * ports_; }
  FabricSwitch fabric_switch(int index) const { return {0, 0, 0, index, 1}; }
  FabricLink link(int index) const;
  int attached(int node, int) const { return node; }
  FabricPath path(int from, int to, const PathSelector& selector) const;
  const std::vector<int>& lengths() const { return lengths_; }

 private:
  struct Dimension {
    int length = 1;
    int stride = 1;  ///< routers between adjacents
    int port = 0;    ///< its link forwards; backwards is the next one, if it is longer than 2
  };
  int adjacent(int router, const Dimension& dimension, int step) const;
  void travel(const Dimension& dimension, int& router, int target, const PathSelector& selector,
              FabricPath& path) const;
  void walk(const Dimension& dimension, int router, int steps, int direction, std::int64_t weight,
            FabricPath& path) const;

  std::vector<int> lengths_;
  std::vector<Dimension> dimensions_;
  int routers_ = 1;
  int ports_ = 0;
  Bandwidth rate_;
  Duration hop_latency_;
};

using Fabric = std::variant<TreeFabric, DragonflyFabric, TorusFabric>;

/// Builds the cluster's fabric. A dragonfly without groups or a torus without dimensions is one switch.
Fabric make_fabric(const Cluster& cluster, FabricDetail detail);

/// "each flow takes one path through the fabric, by a hash with seed 3 (ECMP)"; empty if traffic is split evenly.
std::string path_text(const Cluster& cluster);

}  // namespace tracecast
