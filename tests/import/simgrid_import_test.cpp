// Platforms of SimGrid, read and written.
#include <string>

#include <catch2/catch.hpp>

#include "sim/import/importers.hpp"
#include "sim/import/simgrid_export.hpp"
#include "sim/io/files.hpp"
#include "sim/network/routing.hpp"
#include "tests/import/foreign_topologies.hpp"
#include "tests/network/fabrics.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"

namespace tracecast {
namespace {

using namespace literals;

// docs/references.md#format-simgrid
TEST_CASE("SimGrid's clusters: how links are shared, and what the backbone adds", "[io][network]") {
  const auto cluster = [](const std::string& more) {
    return R"(<?xml version='1.0'?><platform version="4"><AS id="world" routing="Full"><cluster id="c" prefix="n" )"
           R"(radical="0-7" suffix="" speed="1Gf" bw="10Gbps" lat="2us" )" +
           more + "/></AS></platform>";
  };
  const auto read = [&](const std::string& more) {
    return value_of(import_as<ImportedTopology>(cluster(more), "c.xml"));
  };
  const ImportedTopology plain = read("");
  CHECK(plain.cluster.node.nic_rate == Bandwidth{1'250'000'000});
  CHECK(plain.cluster.node.nic_latency == 4_us);
  CHECK(plain.notes.size() == 1);
  CHECK(read(R"(sharing_policy="SPLITDUPLEX")").cluster.node.nic_rate == Bandwidth{1'250'000'000});
  const ImportedTopology shared = read(R"(sharing_policy="SHARED")");
  CHECK(shared.cluster.node.nic_rate == Bandwidth{625'000'000});
  CHECK(shared.notes.back() == "sharing_policy SHARED: both directions share it, half is taken for each");
  CHECK(
      foreign::error_of(cluster(R"(sharing_policy="FATPIPE")"), "c.xml") ==
      "c.xml:1: cluster.sharing_policy = FATPIPE: is not a link of a machine (allowed: SPLITDUPLEX FULLDUPLEX SHARED)");
  CHECK(read(R"(limiter_link="30Gbps")").cluster.node.nic_rate == Bandwidth{1'250'000'000});
  const ImportedTopology limited = read(R"(limiter_link="12Gbps")");
  CHECK(limited.cluster.node.nic_rate == Bandwidth{750'000'000});
  CHECK(limited.notes.back() == "limiter_link: both directions share it, half is taken for each");
  const ImportedTopology backbone = read(R"(bb_bw="40Gbps" bb_lat="500ns")");
  CHECK(backbone.cluster.node.nic_latency == 4'500_ns);
  CHECK(backbone.notes.back() == "the backbone of 5.00 GB/s that all hosts share is left out");
  // SimGrid 3.32 has one link from host 0 to host 2, two to host 4 and three to host 5: the first dimension is numbered fastest.
  CHECK(read(R"(topology="TORUS" topo_parameters="2,4")").cluster.shape.dimensions == std::vector<int>{4, 2});
  const ImportedTopology pipe = read(R"(bb_bw="4Gbps" bb_lat="500ns" bb_sharing_policy="FATPIPE")");
  CHECK(pipe.cluster.node.nic_rate == Bandwidth{500'000'000});
  CHECK(pipe.notes.size() == 1);
}

TEST_CASE("SimGrid's clusters", "[io][network]") {
  if (foreign::samples_missing()) return;
  SECTION("a fat tree of 4 leaves with 4 hosts and 2 x 2 cables up: no oversubscription") {
    const ImportedTopology imported = foreign::read_sample("simgrid-platform/cluster_fat_tree.xml");
    const Cluster& cluster = imported.cluster;
    CHECK(cluster.max_nodes == 16);
    REQUIRE(cluster.tiers.size() == 2);
    CHECK(cluster.tiers[0].nodes == 4);
    CHECK(cluster.tiers[0].oversubscription == 1);
    CHECK(cluster.tiers[0].hop_latency == 100_us);
    CHECK(cluster.node.nic_rate == Bandwidth{125'000'000});
    foreign::check_round_trip(imported);
  }
  SECTION("a torus of 3 x 2 x 2") {
    const ImportedTopology imported = foreign::read_sample("simgrid-platform/cluster_torus.xml");
    CHECK(imported.cluster.shape.dimensions == std::vector<int>{2, 2, 3});  // there the first is numbered fastest
    CHECK(imported.cluster.max_nodes == 12);
    foreign::check_round_trip(imported);
  }
  SECTION("one switch with a backbone") {
    const ImportedTopology imported = foreign::read_sample("simgrid-platform/cluster_backbone.xml");
    CHECK(imported.cluster.max_nodes == 100);
    CHECK(imported.notes.back() == "the backbone of 2.25 GB/s that all hosts share is left out");
    foreign::check_round_trip(imported);
  }
  SECTION("networks of single links are refused") {
    CHECK(foreign::error_of(content_of(foreign::kFormats / "simgrid-platform/two_hosts.xml"), "two.xml") ==
          "two.xml:4: is a network of 2 hosts and 1 links with routes of its own; a topology needs a <cluster>");
    CHECK(foreign::error_of(content_of(foreign::kFormats / "simgrid-platform/small_platform.xml"), "small.xml") ==
          "small.xml:4: is a network of 7 hosts and 24 links with routes of its own; a topology needs a <cluster>");
  }
}

TEST_CASE("An export to SimGrid comes back as the topology that it was made from", "[io][network]") {
  Cluster cluster = three_tiers(FabricKind::rail_optimized, 20);
  cluster.node.nvswitches = 4;
  const Topology topology(cluster);
  const std::string text = to_simgrid(topology);
  const ImportedTopology again = value_of(import_as<ImportedTopology>(text, "cluster.xml"));
  CHECK(foreign::found(again, "hosts") == 160);
  CHECK(foreign::found(again, "hosts") + foreign::found(again, "routers") == topology.vertex_count());
  CHECK(2 * foreign::found(again, "links") == topology.link_count());
  CHECK(foreign::found(again, "routes") == topology.link_count());
  Cluster back = again.cluster;
  back.name = cluster.name;
  back.world_size = cluster.world_size;
  back.reference = cluster.reference;
  CHECK(back == cluster);
}

TEST_CASE("Each shipped machine comes back from an export to SimGrid", "[io][network]") {
  for (const auto& entry : std::filesystem::directory_iterator(shipped_data().topologies)) {
    if (entry.path().extension() != ".json") continue;
    INFO(entry.path().filename());
    Cluster cluster = value_of(read_topology(entry.path()));
    cluster.world_size = cluster.node.gpus;
    const std::string text = to_simgrid(Topology(cluster));
    const ImportedTopology imported = value_of(import_as<ImportedTopology>(text, cluster.name + ".xml"));
    CHECK(to_topology_json(imported, "x").find(cluster.source.substr(0, 20)) != std::string::npos);
    Cluster back = imported.cluster;
    back.world_size = cluster.world_size;
    CHECK(back == cluster);
  }
}

TEST_CASE("An export to SimGrid leaves out links that have failed", "[io][network]") {
  Cluster cluster = three_tiers(FabricKind::rail_optimized, 20);
  cluster.faults.lost_rails = {3};
  const Topology topology(cluster);
  int working = 0;
  for (int id = 0; id < topology.link_count(); ++id) working += topology.link(id).capacity.bytes_per_second > 0 ? 1 : 0;
  REQUIRE(working < topology.link_count());
  const std::string text = to_simgrid(topology);
  CHECK(text.find("bandwidth=\"0Bps\"") == std::string::npos);
  int links = 0;
  for (std::size_t at = text.find("<link id="); at != std::string::npos; at = text.find("<link id=", at + 1)) ++links;
  CHECK(2 * links == working);
}

}  // namespace
}  // namespace tracecast
