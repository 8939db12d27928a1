// Fabrics of InfiniBand as its tools print them.
#include <algorithm>
#include <string>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "sim/io/files.hpp"
#include "tests/import/foreign_topologies.hpp"
#include "tests/support/results.hpp"

namespace tracecast {
namespace {

using namespace literals;

TEST_CASE("InfiniBand fabrics: 8 rails, 4 spines, 4 nodes, in four formats", "[io][network]") {
  if (foreign::samples_missing()) return;
  const std::string file =
      GENERATE("rail4x8.ibnetdiscover", "rail4x8.ibnetdiscover-p", "rail4x8.iblinkinfo", "rail4x8.iblinkinfo-l");
  const ImportedTopology imported = foreign::read_sample("ib-fabric/" + file);
  INFO(file);
  CHECK(foreign::found(imported, "switches") == 12);
  CHECK(foreign::found(imported, "adapters") == 32);
  CHECK(foreign::found(imported, "hosts") == 4);
  CHECK(foreign::found(imported, "leaves") == 8);
  CHECK(foreign::found(imported, "cables to adapters") == 32);
  CHECK(foreign::found(imported, "cables between switches") == 32);
  const Cluster& cluster = imported.cluster;
  CHECK(cluster.fabric == FabricKind::rail_optimized);
  CHECK(cluster.max_nodes == 4);
  CHECK(cluster.node.nics == 8);
  CHECK(cluster.node.nic_rate == 10_Gbps);  // 4 x SDR
  REQUIRE(cluster.tiers.size() == 2);
  CHECK(cluster.tiers[0].nodes == 4);
  CHECK(cluster.tiers[0].oversubscription == 1);
  foreign::check_round_trip(imported);
}

TEST_CASE("A part of a real SuperPOD", "[io][network]") {
  if (foreign::samples_missing()) return;
  const ImportedTopology imported = foreign::read_sample("ib-fabric/superpod_ndr_subset.ibnetdiscover");
  CHECK(foreign::found(imported, "switches") == 17);
  CHECK(foreign::found(imported, "adapters") == 139);
  CHECK(foreign::found(imported, "aggregation nodes") == 17);  // of which 8 have a block, which makes 147
  CHECK(imported.cluster.node.nic_rate == 400_Gbps);
  CHECK(imported.cluster.shape.switch_ports == 64);
  // Its adapters are named by host and adapter, but no two by the same host: which belong together is not told.
  CHECK(imported.cluster.node.nics == 1);
  CHECK(imported.cluster.fabric == FabricKind::fat_tree);
  foreign::check_round_trip(imported);
}

TEST_CASE("InfiniBand: links that came up slower than the others are counted", "[io][network]") {
  const std::string text =
      "switchguid=0x1\nSwitch\t4 \"S-01\"\t# \"leaf\" base\n"
      "[1]\t\"H-11\"[1](11)\t# \"a HCA-1\" lid 1 4xNDR\n[2]\t\"H-12\"[1](12)\t# \"b HCA-1\" lid 2 4xNDR\n"
      "[3]\t\"H-13\"[1](13)\t# \"c HCA-1\" lid 3 1xNDR\n";
  const ImportedTopology read = value_of(import_as<ImportedTopology>(text, "n.txt"));
  CHECK(read.cluster.node.nic_rate == 400_Gbps);
  CHECK(
      std::count(read.notes.begin(), read.notes.end(),
                 "1 of 3 cables are slower than most of their kind, down to 12.5 GB/s: the topology has the usual rate "
                 "everywhere (perturbations of a scenario degrade links)") == 1);
}

TEST_CASE("iblinkinfo: an adapter is joined by its name where a line has no GUID, whatever the name", "[io][network]") {
  const std::string host = GENERATE("n0", "n0x2f");
  const std::string text =
      "CA: " + host +
      " mlx5_0:\n      0x0000000000000010      4    1[  ] ==( 4X         106.25 Gbps Active/  "
      "LinkUp)==>       1    1[  ] \"leaf-0\" ( )\nSwitch: 0x0000000000000001 leaf-0:\n           1"
      "    1[  ] ==( 4X         106.25 Gbps Active/  LinkUp)==>       4    1[  ] \"" +
      host + " mlx5_0\" ( )\n";
  const ImportedTopology read = value_of(import_as<ImportedTopology>(text, "n.txt"));
  CHECK(foreign::found(read, "adapters") == 1);
  CHECK(foreign::found(read, "cables to adapters") == 1);
}

TEST_CASE("iblinkinfo: switches of the same name are told apart by their LIDs", "[io][network]") {
  const auto block = [](int guid, int lid, int port, int peer_lid, const std::string& peer) {
    return fmt::format(
        "Switch: 0x{:016x} MF0;switch:\n {} {}[  ] ==( 4X 106.25 Gbps Active/ LinkUp)==> {} 1[  ] \"{}\" ( )\n", guid,
        lid, port, peer_lid, peer);
  };
  const auto adapter = [](int guid, int lid, const std::string& name, const std::string& switch_lid) {
    return fmt::format(
        "CA: {} mlx5_0:\n 0x{:016x} {} 1[  ] ==( 4X 106.25 Gbps Active/ LinkUp)==> {} 1[  ] \"MF0;switch\" ( )\n", name,
        guid, lid, switch_lid);
  };
  const std::string switches = block(1, 1, 1, 11, "n0 mlx5_0") + block(2, 2, 1, 12, "n1 mlx5_0");
  const ImportedTopology by_lid = value_of(
      import_as<ImportedTopology>(adapter(0x11, 11, "n0", "1") + adapter(0x12, 12, "n1", "2") + switches, "n.txt"));
  CHECK(foreign::found(by_lid, "cables to adapters") == 2);
  CHECK(foreign::found(by_lid, "leaves") == 2);
  // Switches without lines of their own have no LID here; one of them is called so as well.
  const ImportedTopology by_name = value_of(
      import_as<ImportedTopology>(adapter(0x11, 11, "n0", "1") + adapter(0x12, 12, "n1", "7") + switches, "n.txt"));
  CHECK(std::ranges::count(by_name.notes,
                           "1 ends of cables were left out: several switches or adapters have the name of their peer, "
                           "and its LID is not in the file") == 1);
}

TEST_CASE("InfiniBand: hosts with most adapters are the nodes, others are counted", "[io][network]") {
  // Hosts with `adapters` each on leaves of their own, from leaf 0 on.
  const auto fabric = [](std::initializer_list<std::pair<int, int>> kinds) {
    std::vector<std::string> leaves(8);
    int id = 0x100;
    for (const auto& [hosts, adapters] : kinds)
      for (int host = 0; host < hosts; ++host, ++id)
        for (int each = 0; each < adapters; ++each)
          leaves[static_cast<std::size_t>(each)] +=
              fmt::format("[{0}]\t\"H-{0:x}{1}\"[1]({0:x}{1})\t# \"h{0} mlx5_{1}\" lid 1 4xNDR\n", id, each);
    std::string text;
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf)
      if (!leaves[leaf].empty())
        text +=
            fmt::format("switchguid=0x{0}\nSwitch\t64 \"S-{0}\"\t# \"leaf{0}\" base\n{1}\n", leaf + 1, leaves[leaf]);
    return value_of(import_as<ImportedTopology>(text, "n.txt"));
  };
  const ImportedTopology storage = fabric({{16, 8}, {20, 2}});
  CHECK(storage.cluster.node.nics == 8);
  CHECK(storage.cluster.max_nodes == 16);
  CHECK(storage.cluster.fabric == FabricKind::rail_optimized);
  CHECK(std::ranges::count(storage.notes,
                           "nodes are the hosts with 8 adapters, which have most of all adapters; other hosts are left "
                           "out: 20 with 2") == 1);
  const ImportedTopology login = fabric({{4, 8}, {5, 1}});
  CHECK(login.cluster.node.nics == 8);
  CHECK(login.cluster.max_nodes == 4);
  CHECK(fabric({{4, 8}}).notes.size() == 2);
  CHECK(fabric({{2, 2}, {20, 1}}).cluster.node.nics == 1);
}

TEST_CASE("Both ends of a cable must agree on its rate", "[error][io]") {
  const std::string text =
      "switchguid=0x1\nSwitch\t4 \"S-01\"\t# \"a\" base\n[1]\t\"S-02\"[2]\t# \"b\" lid 1 4xNDR\n"
      "switchguid=0x2\nSwitch\t4 \"S-02\"\t# \"b\" base\n[2]\t\"S-01\"[1]\t# \"a\" lid 1 4xHDR\n";
  CHECK(foreign::error_of(text, "n.txt").find("has another rate than the other end of the same cable in line 3") !=
        std::string::npos);
}

}  // namespace
}  // namespace tracecast
