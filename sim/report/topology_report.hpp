/// \file
/// The report of `tracecast topology`: a cluster's parts, links by level, distances, bisection, and findings.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/base/units.hpp"
#include "sim/network/routing.hpp"
#include "sim/network/topology.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

/// Vertices or links of one kind.
struct TopologyPart {
  std::string name;        ///< "GPU", "leaf", "GPU - NVSwitch", "leaf - spine"
  std::int64_t count = 0;  ///< physical ones; a cable with its two directions is one
  Bandwidth each;          ///< links only: one direction of one cable
  Bandwidth total;         ///< links only: one direction of all of them
  Duration latency;        ///< links only
};

/// Ranks at the same distance from rank 0.
struct TopologyDistance {
  int switches = 0;        ///< of the fabric
  std::int64_t ranks = 0;  ///< at this distance
  Duration latency;        ///< the longest among them
  Bandwidth lone_flow;     ///< the slowest of them, without other traffic
};

/// The path between two ranks, for --hops.
struct TopologyPath {
  struct Stop {
    std::string vertex;
    Bandwidth rate;  ///< of the link to it
    double share = 1;
    Duration latency;
  };
  int from = 0;
  int to = 0;
  bool connected = true;
  int switches = 0;
  Duration latency;
  Bandwidth lone_flow;
  std::vector<Stop> stops;
};

struct TopologyFinding {
  bool is_error = false;  ///< false: only a warning
  std::string sentence;
};

struct TopologyReport {
  std::string name;
  std::string gpu;
  std::string fabric;
  int ranks = 0;
  int nodes = 0;
  int gpus = 0;  ///< of the nodes: all of them, also those without a rank
  std::vector<TopologyPart> vertices;
  std::vector<TopologyPart> links;
  std::vector<TopologyDistance> distances;
  Bandwidth bisection;            ///< 0: the cluster has only one GPU
  int half_gpus = 0;              ///< of the half that sends: all of its nodes, whose NICs the bisection counts
  std::vector<TopologyPart> cut;  ///< links by level that limit it, count of one direction
  /// With broken parts, which the bisection above leaves out.
  struct Broken {
    std::vector<std::string> names;
    Bandwidth whole_bisection;         ///< of the machine with all its parts
    std::vector<std::string> cut_off;  ///< nodes that do not reach the others
  };
  std::optional<Broken> broken;
  std::vector<TopologyFinding> findings;
  bool has_errors() const;
};

/// "75,776".
std::string grouped(std::int64_t count);

/// Takes time linear in the size of the cluster, apart from the maximum flow. `broken`: names of vertices (Topology::name)
/// that do not work; bisection, cut and connected parts are those without them.
/// Errors: a name that no switch has; broken parts of a machine of one node.
Result<TopologyReport> describe(const Topology& topology, const std::vector<std::string>& broken);
TopologyReport describe(const Topology& topology);
TopologyPath path_between(const Topology& topology, int from, int to, RoutingOptions options = {});

/// Impossible or doubtful numbers of a cluster: NICs faster than PCIe, switches with too few ports, tiers that do not
/// nest, rates that no product has.
std::vector<TopologyFinding> check_cluster(const Cluster& cluster);

std::string to_terminal(const TopologyReport& report, const TextStyle& style);
std::string to_terminal(const TopologyPath& path, const TextStyle& style);
std::string to_json(const TopologyReport& report, const std::optional<TopologyPath>& path);

/// Draws the cluster: one node with its GPUs, switches and NICs, and the fabric above it, tier by tier. Repeated parts
/// are drawn once with their count. A complete document, readable on light and dark pages.
std::string topology_svg(const Topology& topology, const TopologyReport& report);

}  // namespace tracecast
