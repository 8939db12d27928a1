// The machines of the requirements, as their topologies have them.
#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "sim/network/routing.hpp"
#include "tests/network/fabrics.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"

namespace tracecast {
namespace {

using namespace literals;

Cluster machine(const std::string& name, int ranks = 0) {
  Cluster cluster = shipped_topology(name);
  cluster.world_size = ranks > 0 ? ranks : cluster.max_nodes * cluster.node.gpus;
  return cluster;
}

/// What a whole node can send into the fabric.
Bandwidth injection(const Cluster& cluster) {
  const Topology topology(cluster);
  std::int64_t sum = 0;
  for (int nic = 0; nic < topology.node().nics; ++nic)
    sum += topology.link(topology.node_link(0, topology.node().nic_cable(nic))).capacity.bytes_per_second;
  return {sum};
}

TEST_CASE("ABCI A: 120 nodes of 8 A100-40GB, 4 x HDR200, NVLink 300 GB/s a direction",
          "[row-0-15][requirements][network]") {
  const Cluster cluster = machine("abci-a");
  CHECK(cluster.world_size == 960);
  CHECK(cluster.gpu == "a100-40gb");
  CHECK(cluster.node.gpu_link == 300_GBps);
  CHECK(injection(cluster) == 100_GBps);
  const Topology topology(cluster);  // two GPUs share a NIC
  for (int gpu = 0; gpu < 8; ++gpu) CHECK(nics_next_to(topology, 0, gpu) == std::vector<int>{gpu / 2});
}

TEST_CASE("mdx: 12 nodes are 96 A100-40GB; the fabric is a parameter", "[row-0-16][requirements][network]") {
  const Cluster cluster = machine("mdx", 96);
  CHECK(cluster.nodes() == 12);
  CHECK(cluster.gpu == "a100-40gb");
  CHECK(cluster.max_nodes == 40);
  Cluster faster = cluster;
  faster.node.nic_rate = 200_Gbps;
  CHECK(injection(faster).bytes_per_second == 2 * injection(cluster).bytes_per_second);
}

TEST_CASE("Frontier: a dragonfly of 74 groups; 37,888 modules are 75,776 dies", "[row-1-9][requirements][network]") {
  const Cluster cluster = machine("frontier");
  CHECK(cluster.world_size == 2 * 37'888);
  const Topology topology(cluster);
  const auto& fabric = std::get<DragonflyFabric>(topology.fabric());
  CHECK(fabric.groups() == 74);
  CHECK(fabric.routers() == 32);
  CHECK(fabric.global_links() == 4);
}

TEST_CASE("LUMI: 2,978 nodes hold the 20,480 dies that are 10,240 modules", "[row-1-10][requirements][network]") {
  const Cluster cluster = machine("lumi");
  CHECK(cluster.max_nodes == 2978);
  CHECK(cluster.node.gpus == 8);
  CHECK(cluster.fabric == FabricKind::dragonfly);
  CHECK(cluster.world_size >= 20'480);
}

TEST_CASE("Aurora: 10,624 nodes of 6 are 63,744 GPUs", "[row-1-11][requirements][network]") {
  const Cluster cluster = machine("aurora");
  CHECK(cluster.world_size == 63'744);
  CHECK(injection(cluster) == 200_GBps);
}

TEST_CASE("Fugaku: 158,976 nodes in a torus of six dimensions", "[row-1-12][requirements][network]") {
  const Cluster cluster = machine("fugaku");
  CHECK(cluster.world_size == 158'976);
  const Topology topology(cluster);
  CHECK(std::get<TorusFabric>(topology.fabric()).lengths() == std::vector<int>{24, 23, 24, 2, 3, 2});
  // The farthest nodes: half of every ring, and across the two short dimensions. 12 + 11 + 12 + 1 + 1 + 1 steps.
  const int farthest = ((((12 * 23 + 11) * 24 + 12) * 2 + 1) * 3 + 1) * 2 + 1;
  CHECK(Routing(topology).route(0, farthest).switches == 1 + 38);
}

TEST_CASE("ABCI: 960 A100 and 4,352 V100", "[row-1-13][requirements][network]") {
  CHECK(machine("abci-a").world_size == 960);
  const Cluster v100 = machine("abci-v");
  CHECK(v100.world_size == 4352);
  CHECK(injection(v100) == 25_GBps);
}

TEST_CASE("AWS P5: 8 H100 with EFA of 3,200 Gb/s, 32 x 100 Gb/s, 4 a GPU", "[row-3-13][requirements][network]") {
  const Cluster cluster = machine("aws-p5", 16);
  CHECK(injection(cluster) == 400_GBps);
  const Topology topology(cluster);
  CHECK(topology.node().nics == 32);
  for (int gpu = 0; gpu < 8; ++gpu) CHECK(nics_next_to(topology, 0, gpu).size() == 4);
  CHECK(bottleneck(topology, Routing(topology).route(0, 8)) == 50_GBps);
}

TEST_CASE("H100: NVLink 4 of 900 GB/s is 450 GB/s a direction", "[row-3-24][requirements][network]") {
  const Topology topology(machine("dgx-h100", 8));
  CHECK(topology.link(topology.node().nvswitch_link(0)).capacity == 450_GBps);
  CHECK(topology.link(topology.node().nvswitch_link(0) + 1).capacity == 450_GBps);
}

}  // namespace
}  // namespace tracecast
