#include "sim/network/topology.hpp"

#include <map>

#include <catch2/catch.hpp>

#include "tests/network/fabrics.hpp"

namespace tracecast {
namespace {

using namespace literals;

/// Physical switches by tier.
std::vector<int> switches_by_tier(const Topology& topology) {
  std::vector<int> counts(topology.cluster().tiers.size(), 0);
  for (int id = topology.first_switch(); id < topology.vertex_count(); ++id) {
    const Vertex vertex = topology.vertex(id);
    counts[static_cast<std::size_t>(vertex.fabric_switch.tier)] += vertex.devices;
  }
  return counts;
}

TEST_CASE("switches of a rail-optimised SuperPOD of 64-port switches", "[oracle][network]") {
  struct Row {
    int units, nodes, leaves, spines, cores;
  };
  const Row row = GENERATE(Row{2, 64, 16, 8, 0}, Row{4, 128, 32, 16, 0}, Row{8, 256, 64, 32, 0},
                           Row{16, 512, 128, 128, 64}, Row{32, 1024, 256, 256, 128}, Row{64, 2048, 512, 512, 256});
  Cluster cluster = dgx_h100(8 * row.nodes);
  cluster.shape.switch_ports = 64;
  const auto detail = GENERATE(FabricDetail::planes, FabricDetail::switches);
  const Topology topology(cluster, detail);
  CHECK(row.nodes == 32 * row.units);
  CHECK(switches_by_tier(topology) == std::vector<int>{row.leaves, row.spines, row.cores});
  int cables = 0;  // from the leaves up: as many as from the nodes to the leaves
  std::vector<double> rate(2);
  for (int id = topology.first_fabric_link(); id < topology.link_count(); id += 2) {
    const TopologyLink link = topology.link(id);
    if (link.tier == 0) cables += link.cables;
    rate.at(static_cast<std::size_t>(link.tier)) += static_cast<double>(link.capacity.bytes_per_second);
  }
  CHECK(cables == 8 * row.nodes);
  // Not oversubscribed: each tier takes what all NICs send.
  CHECK(rate[0] == Approx(8.0 * row.nodes * 50e9).epsilon(1e-6));
  CHECK(rate[1] == Approx(row.cores > 0 ? rate[0] : 0).epsilon(1e-6));
}

TEST_CASE("Frontier's dragonfly", "[oracle][network]") {
  const Topology topology(frontier_like(9472));
  const auto& fabric = std::get<DragonflyFabric>(topology.fabric());
  CHECK(fabric.groups() == 74);
  CHECK(fabric.routers() == 32);
  CHECK(fabric.global_links() == 4);
  std::int64_t injection = 0;
  std::int64_t local = 0;
  std::int64_t global = 0;
  for (int id = topology.first_fabric_link(); id < topology.link_count(); ++id) {
    const TopologyLink link = topology.link(id);
    const FabricSwitch from = topology.vertex(link.from).fabric_switch;
    const FabricSwitch to = topology.vertex(link.to).fabric_switch;
    CHECK((link.tier == 0) == (from.unit == to.unit));
    if (from.unit != 5) continue;
    (link.tier == 0 ? local : global) += link.capacity.bytes_per_second;
  }
  for (int node = 5 * 128; node < 6 * 128; ++node)
    for (int nic = 0; nic < 4; ++nic) {
      const TopologyLink cable = topology.link(topology.node_link(node, topology.node().nic_cable(nic)));
      CHECK(topology.vertex(cable.to).fabric_switch.unit == 5);
      injection += cable.capacity.bytes_per_second;
    }
  CHECK(8 * injection == 102'400'000'000'000);  // 102.4 Tb/s
  CHECK(8 * global == 58'400'000'000'000);      // 58.4 Tb/s
  CHECK(static_cast<double>(injection) / static_cast<double>(global) == Approx(1.753).epsilon(1e-3));
  CHECK(local == 32 * 31 * 25'000'000'000);
}

TEST_CASE("Fugaku's torus", "[oracle][network]") {
  const std::vector<int> lengths{24, 23, 24, 2, 3, 2};
  const Topology topology(torus(158'976, lengths));
  CHECK(24 * 23 * 24 * 12 == 158'976);
  CHECK(std::get<TorusFabric>(topology.fabric()).lengths() == lengths);
  CHECK(topology.vertex_count() - topology.first_switch() == 158'976);
  // X, Y, Z and B are rings, A and C have one link: 10 ports.
  CHECK(topology.link_count() - topology.first_fabric_link() == 10 * 158'976);
}

TEST_CASE("A smaller job has the inner dimensions of a torus, and as much of the next as it needs", "[network]") {
  const auto lengths = [](int nodes) {
    return std::get<TorusFabric>(Topology(torus(nodes, {24, 23, 24, 2, 3, 2})).fabric()).lengths();
  };
  CHECK(lengths(1) == std::vector<int>{1, 1, 1, 1, 1, 1});
  CHECK(lengths(12) == std::vector<int>{1, 1, 1, 2, 3, 2});
  CHECK(lengths(13) == std::vector<int>{1, 1, 2, 2, 3, 2});
  CHECK(lengths(288) == std::vector<int>{1, 1, 24, 2, 3, 2});
  CHECK(lengths(13'824) == std::vector<int>{3, 23, 24, 2, 3, 2});
}

TEST_CASE("A DGX H100 node", "[network]") {
  Cluster cluster = dgx_h100(16);
  cluster.node.nvswitches = 4;
  const Topology topology(cluster);
  std::map<VertexKind, int> vertices;
  for (int id = 0; id < topology.first_switch(); ++id) ++vertices[topology.vertex(id).kind];
  CHECK(vertices == std::map<VertexKind, int>{{VertexKind::gpu, 16},
                                              {VertexKind::nic, 16},
                                              {VertexKind::pcie_switch, 16},
                                              {VertexKind::host, 2},
                                              {VertexKind::nvswitch, 2}});
  CHECK(topology.vertex(topology.node().nvswitch()).devices == 4);
  CHECK(topology.name(topology.gpu(11)) == "node1/gpu3");
  CHECK(topology.name(topology.first_switch() + 3) == "leaf0.3");
  CHECK(topology.attached(1, 3) == 3);
}

/// Every link of a node leads where its pair comes from.
TEST_CASE("Links come in two directions", "[property][network]") {
  const auto cluster = GENERATE(three_tiers(FabricKind::rail_optimized, 40), three_tiers(FabricKind::fat_tree, 40),
                                frontier_like(300), torus(60, {5, 3, 4}));
  for (const auto detail : {FabricDetail::planes, FabricDetail::switches}) {
    const Topology topology(cluster, detail);
    std::map<std::pair<int, int>, std::int64_t> rates;
    for (int id = 0; id < topology.link_count(); ++id) {
      const TopologyLink link = topology.link(id);
      CHECK(link.capacity.bytes_per_second > 0);
      CHECK(link.from != link.to);
      rates[{link.from, link.to}] += link.capacity.bytes_per_second;
    }
    for (const auto& [ends, rate] : rates) CHECK(rates.at({ends.second, ends.first}) == rate);
  }
}

TEST_CASE("NICs and GPUs that are next to each other share a PCIe switch", "[network]") {
  const int gpus = GENERATE(1, 2, 4, 6, 8);
  const int nics = GENERATE(1, 2, 3, 4, 6, 8, 16, 32);
  Cluster cluster = dgx_h100(2 * gpus);
  cluster.node.gpus = cluster.node.gpus_per_host = gpus;
  cluster.node.nics = nics;
  const Topology topology(cluster);
  std::map<int, int> users;
  for (int gpu = 0; gpu < gpus; ++gpu)
    for (const int nic : nics_next_to(topology, 1, gpu)) {
      CHECK(topology.pcie_switch_of_nic(nic) == topology.pcie_switch_of_gpu(gpu));
      ++users[nic];
    }
  if (nics >= gpus) CHECK(users.size() == static_cast<std::size_t>(nics));
}

TEST_CASE("A fabric with oversubscription has that much less above", "[network]") {
  const Topology topology(three_tiers(FabricKind::fat_tree, 64));
  std::int64_t below = 0;
  std::int64_t leaf = 0;
  std::int64_t spine = 0;
  for (int id = 0; id < topology.link_count(); ++id) {
    const TopologyLink link = topology.link(id);
    if (link.kind == LinkKind::nic && link.from < link.to) below += link.capacity.bytes_per_second;
    if (link.kind == LinkKind::fabric && link.from < link.to)
      (link.tier == 0 ? leaf : spine) += link.capacity.bytes_per_second;
  }
  CHECK(below == 2 * leaf);
  CHECK(leaf == 4 * spine);
}

TEST_CASE("A slow cable and a failed NIC", "[network]") {
  Cluster cluster = dgx_h100(8 * 64);
  cluster.shape.switch_ports = 64;
  SECTION("at half speed in both directions") {
    cluster.faults.slow_nics = {{3, 2, 0.5}};
    const Topology topology(cluster);
    const int cable = topology.node_link(3, topology.node().nic_cable(2));
    CHECK(topology.link(cable).capacity == 25_GBps);
    CHECK(topology.link(cable + 1).capacity == 25_GBps);
    CHECK(topology.link(cable + 2).capacity == 50_GBps);
  }
  SECTION("the GPU of a failed NIC uses the next one") {
    cluster.faults.slow_nics = {{3, 7, 0}};
    const Topology topology(cluster);
    CHECK(nics_next_to(topology, 3, 7) == std::vector<int>{0});
    CHECK(nics_next_to(topology, 4, 7) == std::vector<int>{7});
    CHECK(topology.link(topology.node_link(3, topology.node().nic_cable(7))).capacity == Bandwidth{0});
  }
}

TEST_CASE("A topology has the faults of its cluster", "[network]") {
  Cluster cluster = dgx_h100(8 * 64);
  cluster.tiers[0].nodes = 32;
  cluster.faults.slow_nics = {{3, 2, 0.5}, {4, 1, 0}};
  cluster.faults.lost_rails = {6};
  cluster.faults.lost_uplinks = {{"leaf", 0.25}};
  cluster.faults.missing_gpus = {{0, 2}};
  cluster.world_size = 8 * 64 - 2;
  const Topology topology(cluster);
  CHECK(topology.link(topology.node_link(3, topology.node().nic_cable(2))).capacity == 25_GBps);
  CHECK(nics_next_to(topology, 4, 1) == std::vector<int>{2});
  CHECK(nics_next_to(topology, 63, 6) == std::vector<int>{7});
  CHECK(topology.link(topology.first_fabric_link()).capacity == 1200_GBps);
  CHECK(topology.name(topology.gpu(5)) == "node0/gpu5");
  CHECK(topology.name(topology.gpu(6)) == "node1/gpu0");  // the node's last two GPUs are missing
}

TEST_CASE("Uplinks of a dragonfly's groups are the cables between groups", "[network]") {
  Cluster cluster = frontier_like(300);
  cluster.faults.lost_uplinks = {{"group", 0.5}};
  const Topology topology(cluster);
  for (int id = topology.first_fabric_link(); id < topology.link_count(); ++id) {
    const TopologyLink link = topology.link(id);
    CHECK(2 * link.capacity.bytes_per_second == (link.tier == 1 ? 25'000'000'000 : 50'000'000'000));
  }
}

}  // namespace
}  // namespace tracecast
