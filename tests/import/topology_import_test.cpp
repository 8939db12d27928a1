#include <fstream>
#include <iterator>

#include <catch2/catch.hpp>

#include "sim/import/importers.hpp"
#include "sim/import/simgrid_export.hpp"
#include "sim/io/files.hpp"
#include "sim/network/routing.hpp"
#include "tests/network/fabrics.hpp"
#include "tests/support/paths.hpp"

namespace tracecast {
namespace {

using namespace literals;
namespace fs = std::filesystem;

const fs::path kFormats = measurements_of_others() / "formats";

std::string content(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

bool samples_missing() {
  if (fs::exists(kFormats)) return false;
  WARN("skipped: no samples of foreign formats at " << kFormats.string());
  return true;
}

ImportedTopology sample(const std::string& name) {
  INFO(name);
  const Result<ImportedTopology> imported = import_as<ImportedTopology>(content(kFormats / name), name);
  if (!imported) FAIL(to_string(imported.error()));
  return *imported;
}

std::int64_t found(const ImportedTopology& imported, const std::string& what) {
  for (const auto& [name, count] : imported.found)
    if (name == what) return count;
  return -1;
}

std::string error_of(std::string_view text, const std::string& file = "f.xml") {
  const Result<ImportedTopology> imported = import_as<ImportedTopology>(text, file);
  return imported ? "" : to_string(imported.error());
}

/// Written as a topology file and read again it is the same node and fabric, and has no fault.
void check_round_trip(const ImportedTopology& imported) {
  const Result<Cluster> again =
      read_topology_text(to_topology_json(imported, "sample"), imported.cluster.name + ".json");
  if (!again) FAIL(to_string(again.error()));
  const NodeSpec& a = imported.cluster.node;
  const NodeSpec& b = again->node;
  CHECK(b.gpus == a.gpus);
  CHECK(b.link == a.link);
  CHECK(b.nics == a.nics);
  CHECK(b.nvls == a.nvls);
  CHECK(b.nvswitches == a.nvswitches);
  CHECK(b.pcie == a.pcie);
  CHECK(b.cpu == a.cpu);
  if (a.link != IntraLink::pcie && a.link != IntraLink::none) CHECK(b.gpu_link == a.gpu_link);
  if (a.nics > 0) CHECK(b.nic_rate == a.nic_rate);
  if (a.nics > 0) CHECK(b.nic_latency == a.nic_latency);
  CHECK(again->gpu == imported.cluster.gpu);
  CHECK(again->fabric == imported.cluster.fabric);
  CHECK(again->shape == imported.cluster.shape);
  CHECK(again->max_nodes == imported.cluster.max_nodes);
  REQUIRE(again->tiers.size() == imported.cluster.tiers.size());
  for (std::size_t i = 0; i < again->tiers.size(); ++i) {
    CHECK(again->tiers[i].nodes == imported.cluster.tiers[i].nodes);
    CHECK(again->tiers[i].oversubscription == imported.cluster.tiers[i].oversubscription);
    CHECK(again->tiers[i].hop_latency == imported.cluster.tiers[i].hop_latency);
  }
}

TEST_CASE("NCCL topology files hold what was counted", "[io][network]") {
  if (samples_missing()) return;
  struct Row {
    const char* file;
    int cpus, pcis, elements, gpus, nic_elements, nets, pci_nics;
  };
  // Counted by an independent script.
  const Row row =
      GENERATE(Row{"ncv4-topo.xml", 4, 4, 4, 4, 1, 1, 0}, Row{"ndv4-topo.xml", 4, 20, 0, 8, 0, 0, 8},
               Row{"p4d-24xl-topo.xml", 2, 16, 0, 8, 0, 0, 4}, Row{"p5.48xl-topo.xml", 1, 48, 8, 8, 32, 32, 32},
               Row{"topo_8p_940.xml", 2, 40, 8, 8, 8, 8, 8}, Row{"topo_a6000x4.xml", 2, 6, 4, 4, 3, 10, 2},
               Row{"topo_h100_ibm_vm.xml", 2, 24, 8, 8, 8, 8, 8}, Row{"topo_h200_excerpt.xml", 1, 9, 3, 3, 3, 3, 3},
               Row{"topo_h200_vm_excerpt.xml", 1, 2, 1, 1, 1, 1, 1}, Row{"topo_h800.xml", 2, 24, 8, 8, 8, 8, 8},
               Row{"topo_rtx4090x4.xml", 4, 5, 4, 4, 5, 61, 1});
  const ImportedTopology imported = sample(std::string("nccl-topo-xml/") + row.file);
  INFO(row.file);
  CHECK(found(imported, "CPUs") == row.cpus);
  CHECK(found(imported, "PCI devices") == row.pcis);
  CHECK(found(imported, "GPU elements") == row.elements);
  CHECK(found(imported, "GPUs") == row.gpus);
  CHECK(found(imported, "NIC elements") == row.nic_elements);
  CHECK(found(imported, "nets") == row.nets);
  CHECK(found(imported, "PCI NICs") == row.pci_nics);
  check_round_trip(imported);
}

TEST_CASE("NCCL topology files become the nodes that they describe", "[oracle][io][network]") {
  if (samples_missing()) return;
  SECTION("H800: 8 NVLinks a GPU to 4 NVSwitches, 400 Gb/s InfiniBand") {
    const Cluster cluster = sample("nccl-topo-xml/topo_h800.xml").cluster;
    CHECK(cluster.gpu == "h800");
    CHECK(cluster.node.link == IntraLink::nvswitch);
    CHECK(cluster.node.gpu_link == 200_GBps);
    CHECK(cluster.node.nvswitches == 4);
    CHECK(cluster.node.nics == 8);
    CHECK(cluster.node.nic_rate == 400_Gbps);
    CHECK(cluster.node.pcie == 53_GBps);
    CHECK(cluster.node.cpu == CpuKind::intel);
  }
  SECTION("H100 in a virtual machine: 18 NVLinks, no credible PCIe") {
    const ImportedTopology imported = sample("nccl-topo-xml/topo_h100_ibm_vm.xml");
    CHECK(imported.cluster.gpu == "h100");
    CHECK(imported.cluster.node.gpu_link == 450_GBps);
    CHECK(imported.cluster.node.nic_rate == 200_Gbps);
    CHECK(imported.cluster.node.pcie == 53_GBps);
    CHECK(imported.notes == std::vector<std::string>{"the file has no credible PCIe rate: taken as 53.0 GB/s"});
  }
  SECTION("a file of a cloud without NVLinks and rates of NICs") {
    const Cluster cluster = sample("nccl-topo-xml/ndv4-topo.xml").cluster;
    CHECK(cluster.gpu == "a100");
    CHECK(cluster.node.gpu_link == 300_GBps);
    CHECK(cluster.node.nic_rate == 200_Gbps);
    CHECK(cluster.node.cpu == CpuKind::amd);
  }
  SECTION("AMD's dialect: 7 xGMI links") {
    const Cluster cluster = sample("nccl-topo-xml/topo_8p_940.xml").cluster;
    CHECK(cluster.gpu == "mi300x");
    CHECK(cluster.node.link == IntraLink::xgmi);
    CHECK(cluster.node.gpu_link == 448_GBps);
  }
  SECTION("no NVLink: PCIe") {
    const Cluster cluster = sample("nccl-topo-xml/topo_rtx4090x4.xml").cluster;
    CHECK(cluster.node.link == IntraLink::pcie);
    CHECK(cluster.gpu == "sm-89");
  }
  SECTION("p5 has 4 EFA NICs a GPU, as our own file of it") {
    const Cluster cluster = sample("nccl-topo-xml/p5.48xl-topo.xml").cluster;
    const Cluster shipped = read_topology(source_dir() / "topologies/aws-p5.json").value();
    CHECK(cluster.node.nics == shipped.node.nics);
    CHECK(cluster.node.nic_rate == shipped.node.nic_rate);
    CHECK(cluster.node.gpu_link == shipped.node.gpu_link);
  }
}

TEST_CASE("An NCCL topology file without classes is rejected", "[io]") {
  if (samples_missing()) return;
  CHECK(error_of(content(kFormats / "nccl-topo-xml/g5.48xl-topo.xml"), "g5.xml") ==
        "g5.xml:12: has 9 PCI devices without class and no <gpu>: which of them are GPUs is not given");
}

TEST_CASE("NCCL's graphs", "[io]") {
  if (samples_missing()) return;
  const ImportedTopology imported = sample("nccl-graph-xml/ncv4-graph.xml");
  CHECK(found(imported, "channels of graph 0") == 2);
  CHECK(found(imported, "channels of graph 1") == 4);
  CHECK(found(imported, "channels of graph 2") == 4);
  CHECK(imported.cluster.node.gpus == 4);
  CHECK(imported.cluster.node.link == IntraLink::pcie);
  CHECK(imported.cluster.node.pcie == 48_GBps);
  check_round_trip(imported);
}

TEST_CASE("nvidia-smi topo -m", "[io]") {
  if (samples_missing()) return;
  struct Row {
    const char* file;
    int nics, nic_rows, near;
  };
  const Row row = GENERATE(Row{"dgx_h200x8_12nic.txt", 12, 12, 8}, Row{"gcp_a3ultra_h200x8.txt", 8, 8, 8},
                           Row{"h100x8_mlx5_columns.txt", 10, 0, 8});
  const ImportedTopology imported = sample(std::string("nvidia-smi-topo/") + row.file);
  CHECK(found(imported, "GPUs") == 8);
  CHECK(found(imported, "NICs") == row.nics);
  CHECK(found(imported, "NIC rows") == row.nic_rows);
  CHECK(found(imported, "NVLinks per GPU") == 18);
  CHECK(imported.cluster.node.nics == row.near);
  CHECK(imported.cluster.node.link == IntraLink::nvswitch);
  check_round_trip(imported);
}

TEST_CASE("SimGrid's clusters", "[io][network]") {
  if (samples_missing()) return;
  SECTION("a fat tree of 4 leaves with 4 hosts and 2 x 2 cables up: no oversubscription") {
    const ImportedTopology imported = sample("simgrid-platform/cluster_fat_tree.xml");
    const Cluster& cluster = imported.cluster;
    CHECK(cluster.max_nodes == 16);
    REQUIRE(cluster.tiers.size() == 2);
    CHECK(cluster.tiers[0].nodes == 4);
    CHECK(cluster.tiers[0].oversubscription == 1);
    CHECK(cluster.tiers[0].hop_latency == 100_us);
    CHECK(cluster.node.nic_rate == Bandwidth{125'000'000});
    check_round_trip(imported);
  }
  SECTION("a torus of 3 x 2 x 2") {
    const ImportedTopology imported = sample("simgrid-platform/cluster_torus.xml");
    CHECK(imported.cluster.shape.dimensions == std::vector<int>{3, 2, 2});
    CHECK(imported.cluster.max_nodes == 12);
    check_round_trip(imported);
  }
  SECTION("one switch with a backbone") {
    const ImportedTopology imported = sample("simgrid-platform/cluster_backbone.xml");
    CHECK(imported.cluster.max_nodes == 100);
    CHECK(imported.notes.back() == "the backbone of 2.25 GB/s that all hosts share is left out");
    check_round_trip(imported);
  }
  SECTION("networks of single links are refused") {
    CHECK(error_of(content(kFormats / "simgrid-platform/two_hosts.xml"), "two.xml") ==
          "two.xml:4: is a network of 2 hosts and 1 links with routes of its own; a topology needs a <cluster>");
    CHECK(error_of(content(kFormats / "simgrid-platform/small_platform.xml"), "small.xml") ==
          "small.xml:4: is a network of 7 hosts and 24 links with routes of its own; a topology needs a <cluster>");
  }
}

TEST_CASE("InfiniBand fabrics: 8 rails, 4 spines, 4 nodes, in four formats", "[io][network]") {
  if (samples_missing()) return;
  const std::string file =
      GENERATE("rail4x8.ibnetdiscover", "rail4x8.ibnetdiscover-p", "rail4x8.iblinkinfo", "rail4x8.iblinkinfo-l");
  const ImportedTopology imported = sample("ib-fabric/" + file);
  INFO(file);
  CHECK(found(imported, "switches") == 12);
  CHECK(found(imported, "adapters") == 32);
  CHECK(found(imported, "hosts") == 4);
  CHECK(found(imported, "leaves") == 8);
  CHECK(found(imported, "cables to adapters") == 32);
  CHECK(found(imported, "cables between switches") == 32);
  const Cluster& cluster = imported.cluster;
  CHECK(cluster.fabric == FabricKind::rail_optimized);
  CHECK(cluster.max_nodes == 4);
  CHECK(cluster.node.nics == 8);
  CHECK(cluster.node.nic_rate == 10_Gbps);  // 4 x SDR
  REQUIRE(cluster.tiers.size() == 2);
  CHECK(cluster.tiers[0].nodes == 4);
  CHECK(cluster.tiers[0].oversubscription == 1);
  check_round_trip(imported);
}

TEST_CASE("A part of a real SuperPOD", "[io][network]") {
  if (samples_missing()) return;
  const ImportedTopology imported = sample("ib-fabric/superpod_ndr_subset.ibnetdiscover");
  CHECK(found(imported, "switches") == 17);
  CHECK(found(imported, "adapters") == 139);
  CHECK(found(imported, "aggregation nodes") == 17);  // of which 8 have a block, which makes 147
  CHECK(imported.cluster.node.nic_rate == 400_Gbps);
  CHECK(imported.cluster.shape.switch_ports == 64);
  // Its adapters are named by host and adapter, but no two by the same host: which belong together is not told.
  CHECK(imported.cluster.node.nics == 1);
  CHECK(imported.cluster.fabric == FabricKind::fat_tree);
  check_round_trip(imported);
}

TEST_CASE("An export to SimGrid comes back as the topology that it was made from", "[io][network]") {
  Cluster cluster = three_tiers(FabricKind::rail_optimized, 20);
  cluster.node.nvswitches = 4;
  const Topology topology(cluster);
  const std::string text = to_simgrid(topology);
  const Result<ImportedTopology> again = import_as<ImportedTopology>(text, "cluster.xml");
  if (!again) FAIL(to_string(again.error()));
  CHECK(found(*again, "hosts") == 160);
  CHECK(found(*again, "hosts") + found(*again, "routers") == topology.vertex_count());
  CHECK(2 * found(*again, "links") == topology.link_count());
  CHECK(found(*again, "routes") == topology.link_count());
  Cluster back = again->cluster;
  back.world_size = cluster.world_size;
  const Topology restored(back);
  REQUIRE(restored.link_count() == topology.link_count());
  for (int id = 0; id < topology.link_count(); ++id) {
    CHECK(restored.link(id).from == topology.link(id).from);
    CHECK(restored.link(id).to == topology.link(id).to);
    CHECK(restored.link(id).capacity == topology.link(id).capacity);
    CHECK(restored.link(id).latency == topology.link(id).latency);
  }
}

TEST_CASE("Damaged files of foreign formats: one sentence with the line", "[error][io]") {
  const std::string nccl = "<system version=\"1\">\n <cpu>\n  <pci busid=\"1\" class=\"0x030200\" link_width=\"16\">\n";
  CHECK(error_of(nccl) == "f.xml:3: is not well-formed XML: start-end tags mismatch");
  CHECK(error_of(nccl + "<gpu sm=\"ninety\"/></pci></cpu></system>") ==
        "f.xml:4: gpu.sm = ninety: must be a whole number from 0 to 1048576");
  CHECK(error_of("<system version=\"1\"/>") == "f.xml:1: has no GPU");
  CHECK(error_of("<platform version=\"3\"/>") == "f.xml:1: platform.version = 3: is not read (allowed: 4, 4.1)");
  CHECK(error_of("<platform version=\"4\">\n<cluster radical=\"0-11\" bw=\"1MBps\" topology=\"TORUS\" "
                 "topo_parameters=\"3,2\"/></platform>") ==
        "f.xml:2: cluster.topo_parameters = 3,2: makes 6 hosts, but radical has 12");
  CHECK(error_of("<platform version=\"4\">\n<cluster radical=\"0-x\" bw=\"1MBps\"/></platform>") ==
        "f.xml:2: cluster.radical = 0-x: must be ranges of numbers such as 0-99");
  CHECK(error_of("<platform version=\"4\">\n\n<zone id=\"z\"><link id=\"a\" bandwidth=\"fast\"/></zone></platform>")
            .starts_with("f.xml:3: link.bandwidth = fast: "));
  CHECK(error_of("<graphs version=\"1\"/>") == "f.xml:1: has no channel with a GPU");
  CHECK(error_of("\tGPU0\tGPU1\nGPU0\t X \tNV4\n", "m.txt") == "m.txt:1: has 2 GPUs in its header and 1 rows of GPUs");
  CHECK(error_of("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\n", "m.txt") == "m.txt:3: GPU1: has 1 cells for 2 columns");
  CHECK(error_of("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tFAR\t X\n", "m.txt") ==
        "m.txt:2: GPU0.GPU1 = NV4: differs from FAR in the other direction");
  CHECK(error_of("switchguid=0x1\nSwitch\t4 \"S-01\"\t# \"a\"\n[1]\t\"H-02\"[1](2)\t# \"b\" lid 1 4xFAST\n", "n.txt") ==
        "n.txt:3: '[1]?\"H-02\"[1](2)?# \"b\" lid 1 4xFAST' has no rate such as 4xNDR or 4X 106.25 Gbps");
  CHECK(error_of("nothing of that kind", "n.txt") ==
        "n.txt: matches none of the formats nccl-topology nccl-graph nvidia-smi ibnetdiscover iblinkinfo simgrid "
        "astra-sim simai-topology");
  CHECK(to_string(import_as<ImportedTopology>("", "n.txt", "visio").error()) ==
        "format = visio: unknown format (allowed: nccl-topology nccl-graph nvidia-smi ibnetdiscover iblinkinfo simgrid "
        "astra-sim simai-topology)");
}

TEST_CASE("Both ends of a cable must agree on its rate", "[error][io]") {
  const std::string text =
      "switchguid=0x1\nSwitch\t4 \"S-01\"\t# \"a\" base\n[1]\t\"S-02\"[2]\t# \"b\" lid 1 4xNDR\n"
      "switchguid=0x2\nSwitch\t4 \"S-02\"\t# \"b\" base\n[2]\t\"S-01\"[1]\t# \"a\" lid 1 4xHDR\n";
  CHECK(error_of(text, "n.txt").find("has another rate than the other end of the same cable in line 3") !=
        std::string::npos);
}

}  // namespace
}  // namespace tracecast
