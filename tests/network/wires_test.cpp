/// No collective alone is faster than the wires that its flows cross.
#include <filesystem>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "sim/network/collective_flows.hpp"
#include "sim/network/network_model.hpp"
#include "tests/network/clusters.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/paths.hpp"

namespace tracecast {
namespace {

constexpr Collective kCollectives[] = {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                       Collective::broadcast,  Collective::all_to_all, Collective::send_recv};

struct Wire {
  double seconds = 0;
  std::string name;
};

/// Of a GPU's links those that a group in one mesh uses: to one peer, or to all of them.
double share_of_links(const Cluster& cluster, Collective collective, const GroupPlacement& group) {
  if (!is_mesh(cluster.node.link) || group.nodes > 1) return 1;
  const int peers = collective == Collective::send_recv ? 1 : group.ranks - 1;
  return static_cast<double>(peers) / (cluster.node.gpus - 1);
}

/// The busiest link of the flows, at line rate. `share_of_links`: of a GPU's links.
Wire busiest_wire(const Cluster& cluster, const ClusterLinks& links, const FlowGroup& group, const FlowSchedule& flows,
                  double share_of_links) {
  std::vector<double> bytes(static_cast<std::size_t>(links.count()));
  flows.each_round([&](const Round& round) {
    for (const Flow& flow : round.flows) {
      LinkPath path;
      append_route(links, group, flow, path);
      const double sum = static_cast<double>(flow.size.count) * static_cast<double>(round.count);
      for (const std::int32_t link : path) bytes[static_cast<std::size_t>(link)] += sum;
    }
  });
  Wire wire;
  for (std::int32_t link = 0; link < links.count(); ++link) {
    const double sum = bytes[static_cast<std::size_t>(link)];
    if (sum == 0) continue;
    const std::string name = links.name(link);
    const bool gpu = name.find("gpu") != std::string::npos;
    const double rate = gpu ? share_of_links * static_cast<double>(cluster.node.gpu_link.bytes_per_second)
                            : static_cast<double>(links.capacity(link).bytes_per_second) / kWireEfficiency;
    if (sum / rate > wire.seconds) wire = {sum / rate, name};
  }
  return wire;
}

TEST_CASE("No collective alone is faster than its wires, on any shipped machine", "[property][network]") {
  test::EverySeventh selection;
  int compared = 0;
  for (const auto& file : std::filesystem::directory_iterator(source_dir() / "topologies")) {
    const Result<Cluster> read = read_topology(file.path());
    if (!read || read->backend != Backend::nccl || read->node.gpu_link.bytes_per_second == 0) continue;
    for (const int nodes : {1, 2, 3, 4, 16})
      for (const int per_node : {1, 2, 4, 8, 64}) {
        Cluster cluster = *read;
        if (per_node > cluster.node.gpus || nodes * per_node < 2 || (nodes > 1 && cluster.node.nics == 0)) continue;
        if (selection.leaves_out()) continue;
        cluster.world_size = nodes * cluster.node.gpus;
        std::vector<int> ranks;
        for (int node = 0; node < nodes; ++node)
          for (int gpu = 0; gpu < per_node; ++gpu) ranks.push_back(node * cluster.node.gpus + gpu);
        const GroupPlacement placement = place(cluster, ranks, 1);
        const auto network = make_analytic_network(cluster, "Hopper");
        const ClusterLinks links(cluster, "Hopper");
        const FlowGroup group = make_flow_group(links, ranks);
        for (const Collective collective : kCollectives)
          for (const int power : {20, 24, 30, 34}) {
            const std::int64_t size = std::int64_t{1} << power;
            const CollectiveCall call{collective, Bytes{size}};
            const CollectiveCost cost = network->cost(call, placement);
            const Wire wire = busiest_wire(cluster, links, group, collective_flows(call, cost.algorithm, group),
                                           share_of_links(cluster, collective, placement));
            INFO(file.path().stem().string()
                 << ", " << nodes << " x " << per_node << ", collective " << static_cast<int>(collective) << ", "
                 << size << " bytes: " << wire.name);
            CHECK(wire.seconds <= 1e-12 * static_cast<double>(cost.duration.picoseconds));
            ++compared;
          }
      }
  }
  CHECK(compared > test::cases(6600));
}

TEST_CASE("No collective over tiers with less bandwidth is faster than their uplinks", "[property][network][sites]") {
  // Rings leave a unit on one edge, trees on up to four for each of its members.
  const std::vector<FabricTier> two_tiers{{"leaf", 4, 2, {}}, {"pod", 16, 2, {}}, {"core", 0, 1, {}}};
  int compared = 0;
  for (const int units : {0, 2, 3, 4, 8})
    for (const int nodes : {16, 48, 64})
      for (const int stride : {1, 8}) {
        Cluster cluster = dgx_h100(nodes * 8);
        cluster.fabric = FabricKind::fat_tree;
        if (units == 0) cluster.tiers = two_tiers;
        if (units > 0) use_sites(cluster, {units, {50'000'000'000}, {}});
        std::vector<int> ranks;
        for (int rank = 0; rank < nodes * 8; rank += stride) ranks.push_back(rank);
        const GroupPlacement placement = place(cluster, ranks, stride);
        const auto network = make_analytic_network(cluster, "Hopper");
        const ClusterLinks links(cluster, "Hopper");
        const FlowGroup group = make_flow_group(links, ranks);
        for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::nvls_tree}) {
          if (algorithm == Algorithm::nvls_tree && stride == 8) continue;
          const CollectiveCall call{Collective::all_reduce, Bytes{std::int64_t{1} << 32}, algorithm};
          const Wire wire = busiest_wire(cluster, links, group, collective_flows(call, algorithm, group), 1);
          INFO(units << " sites, " << nodes << " nodes, every " << stride << "th rank, algorithm "
                     << static_cast<int>(algorithm) << ": " << wire.name);
          CHECK(wire.seconds <= seconds(network->cost(call, placement).duration));
          ++compared;
        }
      }
  CHECK(compared == 75);
}

}  // namespace
}  // namespace tracecast
