#include <algorithm>
#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>

#include "sim/import/importers.hpp"
#include "sim/io/files.hpp"
#include "sim/io/nearest_profiles.hpp"
#include "tests/import/foreign_topologies.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast {
namespace {

using namespace literals;
namespace fs = std::filesystem;

TEST_CASE("NCCL topology files hold what was counted", "[io][network]") {
  if (foreign::samples_missing()) return;
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
  const ImportedTopology imported = foreign::read_sample(std::string("nccl-topo-xml/") + row.file);
  INFO(row.file);
  CHECK(foreign::found(imported, "CPUs") == row.cpus);
  CHECK(foreign::found(imported, "PCI devices") == row.pcis);
  CHECK(foreign::found(imported, "GPU elements") == row.elements);
  CHECK(foreign::found(imported, "GPUs") == row.gpus);
  CHECK(foreign::found(imported, "NIC elements") == row.nic_elements);
  CHECK(foreign::found(imported, "nets") == row.nets);
  CHECK(foreign::found(imported, "PCI NICs") == row.pci_nics);
  foreign::check_round_trip(imported);
}

TEST_CASE("NCCL topology files become the nodes that they describe", "[oracle][io][network]") {
  if (foreign::samples_missing()) return;
  SECTION("H800: 8 NVLinks a GPU to 4 NVSwitches, 400 Gb/s InfiniBand") {
    const Cluster cluster = foreign::read_sample("nccl-topo-xml/topo_h800.xml").cluster;
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
    const ImportedTopology imported = foreign::read_sample("nccl-topo-xml/topo_h100_ibm_vm.xml");
    CHECK(imported.cluster.gpu == "h100");
    CHECK(imported.cluster.node.gpu_link == 450_GBps);
    CHECK(imported.cluster.node.nic_rate == 200_Gbps);
    CHECK(imported.cluster.node.pcie == 53_GBps);
    CHECK(imported.notes == std::vector<std::string>{"the file has no credible PCIe rate: taken as 53.0 GB/s"});
  }
  SECTION("a file of a cloud without NVLinks and rates of NICs") {
    const Cluster cluster = foreign::read_sample("nccl-topo-xml/ndv4-topo.xml").cluster;
    CHECK(cluster.gpu == "a100");
    CHECK(cluster.node.gpu_link == 300_GBps);
    CHECK(cluster.node.nic_rate == 200_Gbps);
    CHECK(cluster.node.cpu == CpuKind::amd);
  }
  SECTION("AMD's dialect: 7 xGMI links") {
    const Cluster cluster = foreign::read_sample("nccl-topo-xml/topo_8p_940.xml").cluster;
    CHECK(cluster.gpu == "mi300x");
    CHECK(cluster.node.link == IntraLink::xgmi);
    CHECK(cluster.node.gpu_link == 448_GBps);
  }
  SECTION("no NVLink: PCIe") {
    const Cluster cluster = foreign::read_sample("nccl-topo-xml/topo_rtx4090x4.xml").cluster;
    CHECK(cluster.node.link == IntraLink::pcie);
    CHECK(cluster.gpu == "rtx-4090");
  }
  SECTION("p5 has 4 EFA NICs a GPU, as our own file of it") {
    const Cluster cluster = foreign::read_sample("nccl-topo-xml/p5.48xl-topo.xml").cluster;
    const Cluster shipped = shipped_topology("aws-p5");
    CHECK(cluster.node.nics == shipped.node.nics);
    CHECK(cluster.node.nic_rate == shipped.node.nic_rate);
    CHECK(cluster.node.gpu_link == shipped.node.gpu_link);
  }
}

TEST_CASE("An NCCL topology file without classes is rejected", "[io]") {
  if (foreign::samples_missing()) return;
  CHECK(foreign::error_of(content_of(foreign::kFormats / "nccl-topo-xml/g5.48xl-topo.xml"), "g5.xml") ==
        "g5.xml:12: has 9 PCI devices without class and no <gpu>: which of them are GPUs is not given");
}

TEST_CASE("NCCL's graphs", "[io]") {
  if (foreign::samples_missing()) return;
  const ImportedTopology imported = foreign::read_sample("nccl-graph-xml/ncv4-graph.xml");
  CHECK(foreign::found(imported, "channels of graph 0") == 2);
  CHECK(foreign::found(imported, "channels of graph 1") == 4);
  CHECK(foreign::found(imported, "channels of graph 2") == 4);
  CHECK(imported.cluster.node.gpus == 4);
  CHECK(imported.cluster.node.link == IntraLink::pcie);
  CHECK(imported.cluster.node.pcie == 48_GBps);
  foreign::check_round_trip(imported);
}

TEST_CASE("nvidia-smi topo -m", "[io]") {
  if (foreign::samples_missing()) return;
  struct Row {
    const char* file;
    int nics, nic_rows, near;
  };
  const Row row = GENERATE(Row{"dgx_h200x8_12nic.txt", 12, 12, 8}, Row{"gcp_a3ultra_h200x8.txt", 8, 8, 8},
                           Row{"h100x8_mlx5_columns.txt", 10, 0, 8});
  const ImportedTopology imported = foreign::read_sample(std::string("nvidia-smi-topo/") + row.file);
  CHECK(foreign::found(imported, "GPUs") == 8);
  CHECK(foreign::found(imported, "NICs") == row.nics);
  CHECK(foreign::found(imported, "NIC rows") == row.nic_rows);
  CHECK(foreign::found(imported, "NVLinks per GPU") == 18);
  CHECK(imported.cluster.node.nics == row.near);
  CHECK(imported.cluster.node.link == IntraLink::nvswitch);
  foreign::check_round_trip(imported);
}

/// A file of `gpus` GPUs, each with `attributes` of its PCI device and `element` below it ("{}": its number).
std::string nccl_file(int gpus, const std::string& attributes, const std::string& element, const std::string& nics = "",
                      const std::string& cpu = R"(arch="x86_64" vendor="GenuineIntel")") {
  std::string text = "<system version=\"1\">\n <cpu numaid=\"0\" " + cpu + ">\n";
  for (int i = 0; i < gpus; ++i) {
    std::string inside = element;
    for (std::size_t at; (at = inside.find("{}")) != std::string::npos;) inside.replace(at, 2, std::to_string(i));
    text += "  <pci busid=\"0000:0" + std::to_string(i) + ":00.0\" " + attributes + ">" + inside + "</pci>\n";
  }
  return text + nics + " </cpu>\n</system>\n";
}

ImportedTopology imported_text(const std::string& text, const std::string& name = "f.xml") {
  const ImportedTopology imported = value_of(import_as<ImportedTopology>(text, name));
  foreign::check_round_trip(imported);
  return imported;
}

const std::string kNics =
    "  <pci busid=\"1\" class=\"0x020700\" vendor=\"0x15b3\"><nic><net name=\"mlx5_0\" speed=\"200000\"/></nic></pci>\n"
    "  <pci busid=\"2\" class=\"0x020700\" vendor=\"0x15b3\"><nic><net name=\"mlx5_1\" "
    "speed=\"200000\"/></nic></pci>\n";

// Attributes as ncclTopoGetXmlFromSys and RCCL's fork of it write them (docs/references.md#format-nccl).
TEST_CASE("NCCL topology: GPUs of every generation by what the file says", "[io][network]") {
  const std::string full = R"(class="0x030200" vendor="0x10de" device=")";
  const std::string slow = R"(" link_speed="8.0 GT/s PCIe" link_width="16")";
  SECTION("a machine file with vendors and without <gpu>: NVLinks of an A100 board") {
    const ImportedTopology read = imported_text(nccl_file(8, full + "0x20b2" + slow, "", kNics));
    CHECK(read.cluster.gpu == "a100");
    CHECK(read.cluster.node.link == IntraLink::nvswitch);
    CHECK(read.cluster.node.gpu_link == 300_GBps);
    CHECK(read.notes[0] == "the file has no NVLinks: taken as 12 of 25.0 GB/s to an NVSwitch");
  }
  SECTION("the same of A100 cards: PCIe") {
    ImportedTopology cards = imported_text(nccl_file(8, full + "0x20b5" + slow, "", kNics));
    CHECK(cards.cluster.node.link == IntraLink::pcie);
    CHECK(cards.cluster.tuning == unmeasured_pcie());
    cards.cluster.tuning = {};  // as its reader gives it
    CHECK(value_of(read_topology_text(to_topology_json(cards, "x"), "x.json")).tuning == unmeasured_pcie());
  }
  SECTION("the same with <gpu>: a board's NVLinks are there, whether or not the file has them") {
    const ImportedTopology read =
        imported_text(nccl_file(8, full + "0x20b2" + slow, R"(<gpu dev="{}" sm="80"/>)", kNics));
    CHECK(read.cluster.node.link == IntraLink::nvswitch);
    CHECK(read.cluster.node.gpu_link == 300_GBps);
  }
  SECTION("a card whose PCIe link came up with one lane") {
    std::string text = nccl_file(4, full + R"(0x1db5" link_speed="16.0 GT/s PCIe" link_width="16")",
                                 R"(<gpu dev="{}" sm="70"/>)", kNics);
    text.replace(text.rfind("link_width=\"16\""), 15, "link_width=\"1\"");
    const ImportedTopology read = imported_text(text);
    CHECK(read.cluster.node.pcie == 26_GBps);
    const auto lanes = std::find_if(read.notes.begin(), read.notes.end(),
                                    [](const std::string& note) { return note.find(" x1;") != std::string::npos; });
    REQUIRE(lanes != read.notes.end());
    CHECK(lanes->starts_with("not all GPUs have the PCIe link of the first, 16.0 GT/s PCIe x16: "));
    CHECK(lanes->ends_with(" has 16.0 GT/s PCIe x1; all are taken as the first"));
  }
  SECTION("V100 behind PCIe 4") {
    const ImportedTopology read = imported_text(nccl_file(
        4, full + R"(0x1db5" link_speed="16.0 GT/s PCIe" link_width="16")", R"(<gpu dev="{}" sm="70"/>)", kNics));
    CHECK(read.cluster.gpu == "v100");
    CHECK(read.cluster.node.pcie == 26_GBps);
  }
  SECTION("V100 in a DGX-1, by its compute capability") {
    const ImportedTopology read = imported_text(
        nccl_file(2, R"(class="0x030200")",
                  R"(<gpu dev="{}" sm="70"><nvlink target="x" count="6" tclass="0x068000"/></gpu>)", kNics));
    CHECK(read.cluster.gpu == "v100");
    CHECK(read.cluster.node.gpu_link == 150_GBps);
  }
  SECTION("H20 and H800 by links and id") {
    const std::string switched = R"(<gpu dev="{}" sm="90"><nvlink target="s" count="18" tclass="0x068000"/></gpu>)";
    CHECK(imported_text(nccl_file(8, full + "0x2329" + slow, switched, kNics)).cluster.gpu == "h20");
    const ImportedTopology larger = imported_text(nccl_file(8, full + "0x232c" + slow, switched, kNics));
    CHECK(larger.cluster.gpu == "h20-3e");
    REQUIRE_FALSE(larger.notes.empty());
    CHECK(larger.notes[0] == "there is no profile of the GPU h20-3e");
    CHECK(imported_text(nccl_file(1, full + "0x2348" + slow, R"(<gpu dev="{}" sm="90"/>)", kNics)).cluster.gpu ==
          "gh200-144g-hbm3e");
    CHECK(imported_text(nccl_file(8, R"(class="0x030200")", switched, kNics)).cluster.gpu == "h100");
  }
  SECTION("GB200: Grace, NVLink-C2C to the host") {
    const ImportedTopology read = imported_text(nccl_file(
        4, full + R"(0x2941" link_speed="32.0 GT/s PCIe" link_width="16")",
        R"(<gpu dev="{}" sm="100"><nvlink target="fffffff:ff:ff.0" count="18" tclass="0x068000"/><c2c bw="50000" count="5"/></gpu>)",
        kNics, R"(arch="arm64")"));
    CHECK(read.cluster.gpu == "gb200");
    CHECK(read.cluster.node.cpu == CpuKind::grace);
    CHECK(read.cluster.node.gpu_link == 900_GBps);
    CHECK(read.cluster.node.pcie == 225_GBps);
    CHECK(read.notes.back().starts_with("a rack joins the NVSwitches of 18 hosts"));
  }
  SECTION("MI100: sm is the number of its compute units, and two hives are two nodes") {
    std::string text = "<system version=\"2\">\n <cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n";
    for (int i = 0; i < 8; ++i) {
      text += "  <pci busid=\"0000:0" + std::to_string(i) +
              ":00.0\" class=\"0x038000\" vendor=\"0x1002\" device=\"0x738c\" link_speed=\"16 GT/s\" link_width=\"16\">"
              "<gpu dev=\"" +
              std::to_string(i) + "\" sm=\"120\" gcn=\"908\" arch=\"38911\">";
      for (int j = i / 4 * 4; j < i / 4 * 4 + 4; ++j)
        if (j != i) text += "<xgmi target=\"0000:0" + std::to_string(j) + ":00.0\" count=\"1\" tclass=\"0x038000\"/>";
      text += "</gpu></pci>\n";
    }
    const ImportedTopology read = imported_text(text + kNics + " </cpu>\n</system>\n");
    CHECK(read.cluster.gpu == "mi100");
    CHECK(read.cluster.node.link == IntraLink::xgmi);
    CHECK(read.cluster.node.gpus == 4);
    CHECK(read.cluster.node.nics == 1);
    CHECK(read.cluster.node.gpu_link == 138_GBps);
    CHECK(read.notes ==
          std::vector<std::string>{"links join 2 groups of 4 GPUs: each is taken as a node with 1 of the NICs"});
    const ImportedTopology alone = imported_text(text + " </cpu>\n</system>\n");
    CHECK(alone.cluster.node.gpus == 8);
    CHECK(alone.cluster.node.link == IntraLink::pcie);
  }
  SECTION("MI250X and MI355X by architecture") {
    const auto gpu = [&](const std::string& gcn) {
      return imported_text(nccl_file(2, R"(class="0x120000")", "<gpu dev=\"{}\" sm=\"104\" gcn=\"" + gcn + "\"/>"))
          .cluster.gpu;
    };
    CHECK(gpu("gfx90a") == "mi250x");
    CHECK(gpu("910") == "mi250x");
    CHECK(gpu("gfx950") == "mi355x");
    CHECK(gpu("gfx1100") == "gfx1100");
  }
  SECTION("more NVLinks than any GPU has: a file that fuzzing found") {
    CHECK(foreign::error_of(
              nccl_file(2, full + "0x2330" + slow,
                        R"(<gpu dev="{}" sm="90"><nvlink target="s" count="78" tclass="0x068000"/></gpu>)", kNics))
              .starts_with("f.xml:1: node.gpu_link: no GPU has links of 1.95 TB/s in one direction"));
  }
  SECTION("an unknown id that nothing else explains") {
    CHECK(foreign::error_of(nccl_file(2, full + "0xabcd\"", "")) ==
          "f.xml:1: pci.device = 0xabcd: is not a known GPU, and no <gpu> says its compute capability (sm) or "
          "architecture (gcn)");
  }
}

TEST_CASE("nvidia-smi topo -m: GPUs without NVLinks have no rate of a link", "[io]") {
  const ImportedTopology imported = value_of(import_as<ImportedTopology>(
      "GPU 0: NVIDIA GeForce RTX 4090 (UUID: GPU-1)\n\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPHB\t0-15\n"
      "GPU1\tPHB\t X \t0-15\n",
      "n.txt"));
  CHECK_THAT(imported.notes, Catch::VectorContains(std::string("the file has no rates: taken as 26.0 GB/s PCIe")));
}

TEST_CASE("nvidia-smi topo -m: wrapped lines, Grace, and names beside the matrix", "[io]") {
  const std::string rows = "GPU0\t X \tNV18\tPIX\tSYS\t0-55\t0\t\tN/A\nGPU1\tNV18\t X \tSYS\tPIX\t56-111\t1\t\tN/A\n";
  const ImportedTopology wrapped =
      imported_text("\tGPU0\tGPU1\nNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\n" + rows, "m.txt");
  CHECK(foreign::found(wrapped, "GPUs") == 2);
  CHECK(foreign::found(wrapped, "NICs") == 2);
  const ImportedTopology inside_words = imported_text(
      "\tGPU0\nGPU1\tNIC0\nNIC1\tCPU Affinity\nNUMA Affinity\nGPU0\t X \tNV18\nPIX\tSYS\t0-55\t0\nGPU1\tNV18\t "
      "X\nSYS\tPIX\n",
      "m.txt");
  CHECK(foreign::found(inside_words, "GPUs") == 2);
  CHECK(inside_words.cluster.node.nics == 2);
  const ImportedTopology h200 =
      imported_text("GPU 0: NVIDIA H200 (UUID: GPU-1)\n\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\n" + rows, "m.txt");
  CHECK(h200.cluster.gpu == "h200");
  const auto pair_of = [&](const std::string& first, const std::string& second) {
    return imported_text(
        "GPU 0: NVIDIA " + first + " (UUID: GPU-1)\nGPU 1: NVIDIA " + second +
            " (UUID: GPU-2)\n\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNODE\t0-31\nGPU1\tNODE\t X \t0-31\n",
        "m.txt");
  };
  const ImportedTopology card = pair_of("H100 PCIe", "A100-SXM4-40GB");
  CHECK(card.cluster.gpu == "h100-pcie");
  CHECK(card.cluster.max_nodes == 1);  // no NICs
  CHECK(card.notes[0] == "GPUs of 2 kinds: all are taken as the first");
  // By form and memory, as the drivers write them.
  for (const auto& [name, gpu] : {std::pair{"A100-SXM4-40GB", "a100-40gb"},
                                  {"A100-SXM4-80GB", "a100"},
                                  {"A100 80GB PCIe", "a100-pcie"},
                                  {"H100 80GB HBM3", "h100"},
                                  {"H200", "h200"},
                                  {"GH200 480GB", "gh200"},
                                  {"GH200 120GB", "gh200"},
                                  {"H20", "h20"},
                                  {"H100 NVL", "h100-nvl"},
                                  {"H200 NVL", "h200-nvl"},
                                  {"L4", "l4"},
                                  {"GeForce RTX 4090", "rtx-4090"},
                                  {"RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000"}})
    CHECK(pair_of(name, name).cluster.gpu == gpu);
  // A part without a profile keeps its name, and the links of its model.
  for (const auto& [name, gpu] : {std::pair{"A100-PCIE-40GB", "a100-pcie-40gb"},
                                  {"H20-3e", "h20-3e"},
                                  {"GH200 144G HBM3e", "gh200-144g-hbm3e"}}) {
    const ImportedTopology other = pair_of(name, name);
    CHECK(other.cluster.gpu == gpu);
    CHECK(other.notes[0] == fmt::format("there is no profile of the GPU {}", name));
    CHECK_FALSE(nearest_profiles(gpu).empty());
  }
  CHECK(pair_of("A100-PCIE-40GB", "A100-PCIE-40GB").cluster.node.pcie == Bandwidth{26'000'000'000});
  // A name that sentences shorten is one kind, and whole where it is kept.
  const std::string workstation = "RTX PRO 6000 Blackwell Workstation Edition";
  CHECK_FALSE(pair_of(workstation, workstation).notes[0].starts_with("GPUs of"));
  const std::string max_q = "RTX PRO 6000 Blackwell Max-Q Workstation Edition";
  CHECK(pair_of(max_q, max_q).cluster.gpu == "rtx-pro-6000-blackwell-max-q-workstation-edition");
  CHECK(pair_of("RTX 6000 Ada Generation", "RTX 6000 Ada Generation").cluster.gpu == "rtx-6000-ada-generation");
  CHECK(pair_of("GeForce RTX 4090 Laptop GPU", "").cluster.gpu == "geforce-rtx-4090-laptop-gpu");
  const ImportedTopology v100 =
      imported_text("GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-1)\n\tGPU0\tCPU Affinity\nGPU0\t X \t0-31\n", "m.txt");
  CHECK(v100.cluster.gpu == "v100-16gb");
  const ImportedTopology no_profile = pair_of("L20", "L20");
  CHECK(no_profile.cluster.gpu == "l20");
  CHECK(no_profile.notes[0] == "there is no profile of the GPU L20");
  const ImportedTopology bridged = imported_text(
      "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\nGPU0\t X \tNV12\tSYS\tSYS\t0-31\nGPU1\tNV12\t X \tSYS\tSYS\t0-31\n"
      "GPU2\tSYS\tSYS\t X \tNV12\t0-31\nGPU3\tSYS\tSYS\tNV12\t X \t0-31\n",
      "m.txt");
  CHECK(bridged.cluster.node.link == IntraLink::pcie);
  CHECK(bridged.notes[0] ==
        "links join only groups of GPUs (2 groups): taken as PCIe, so groups on links are faster than forecast");
  std::string switched = "\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tCPU Affinity\n";
  for (int i = 0; i < 8; ++i) {
    switched += fmt::format("GPU{}", i);
    for (int j = 0; j < 8; ++j) switched += i == j ? "\t X " : "\tNV12";
    switched += "\t0-31\n";
  }
  const ImportedTopology a100 = imported_text(switched, "m.txt");  // cards have bridges, no switches
  CHECK(a100.cluster.gpu == "a100");
  CHECK(a100.cluster.node.link == IntraLink::nvswitch);
  CHECK_FALSE(a100.cluster.node.nvls);
  const ImportedTopology unequal = imported_text(
      "\tGPU0\tGPU1\tGPU2\tCPU Affinity\nGPU0\t X \tNV2\tNV1\t0-31\nGPU1\tNV2\t X \tNV1\t0-31\n"
      "GPU2\tNV1\tNV1\t X \t0-31\n",
      "m.txt");
  CHECK(unequal.notes[0] == "pairs of GPUs have 1 to 2 links: taken as 3 of each GPU, spread evenly");
  const ImportedTopology unnamed = imported_text("\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\n" + rows, "m.txt");
  CHECK(unnamed.cluster.gpu == "h100");
  CHECK(unnamed.notes[0] ==
        "the file does not name the GPU: 18 NVLinks are taken as a h100; h200 h20 b200 b300 would look the "
        "same, so set \"gpu\"");
  const ImportedTopology gb200 = imported_text(
      "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
      "GPU0\t X \tNV18\tNV18\tNV18\tSYS\t0-71\t0,2-17\t\tN/A\nGPU1\tNV18\t X \tNV18\tNV18\tSYS\t0-71\t0,2-17\t\tN/A\n"
      "GPU2\tNV18\tNV18\t X \tNV18\tSYS\t72-143\t1,18-33\t\tN/A\nGPU3\tNV18\tNV18\tNV18\t X \tSYS\t72-143\t1\t\tN/A\n",
      "m.txt");
  CHECK(gb200.cluster.gpu == "gb200");
  CHECK(gb200.cluster.node.cpu == CpuKind::grace);
  CHECK(gb200.cluster.node.gpu_link == 900_GBps);
  CHECK(gb200.cluster.node.nics == 1);
}

TEST_CASE("Damaged files of foreign formats: one sentence with the line", "[error][io]") {
  const std::string nccl = "<system version=\"1\">\n <cpu>\n  <pci busid=\"1\" class=\"0x030200\" link_width=\"16\">\n";
  CHECK(foreign::error_of(nccl) == "f.xml:3: is not well-formed XML: start-end tags mismatch");
  CHECK(foreign::error_of(nccl + "<gpu sm=\"ninety\"/></pci></cpu></system>") ==
        "f.xml:4: gpu.sm = ninety: must be a whole number from 0 to 1048576");
  CHECK(foreign::error_of("<system version=\"1\"/>") == "f.xml:1: has no GPU");
  CHECK(foreign::error_of("<system version=\"1\">\n</system>rest") ==
        "f.xml:2: is not well-formed XML: something else beside the element <system>");
  CHECK(foreign::error_of("<system version=\"1\"/>\n<system version=\"1\"/>") ==
        "f.xml:2: is not well-formed XML: something else beside the element <system>");
  CHECK(foreign::error_of("<platform version=\"3\"/>") ==
        "f.xml:1: platform.version = 3: is not read (allowed: 4, 4.1)");
  CHECK(foreign::error_of("<platform version=\"4\">\n<cluster radical=\"0-11\" bw=\"1MBps\" topology=\"TORUS\" "
                          "topo_parameters=\"3,2\"/></platform>") ==
        "f.xml:2: cluster.topo_parameters = 3,2: makes 6 hosts, but radical has 12");
  CHECK(foreign::error_of("<platform version=\"4\">\n<cluster radical=\"0-x\" bw=\"1MBps\"/></platform>") ==
        "f.xml:2: cluster.radical = 0-x: must be ranges of numbers such as 0-99");
  CHECK(foreign::error_of(
            "<platform version=\"4\">\n\n<zone id=\"z\"><link id=\"a\" bandwidth=\"fast\"/></zone></platform>")
            .starts_with("f.xml:3: link.bandwidth = fast: "));
  CHECK(foreign::error_of("<graphs version=\"1\"/>") == "f.xml:1: has no channel with a GPU");
  CHECK(foreign::error_of("\tGPU0\tGPU1\nGPU0\t X \tNV4\n", "m.txt") ==
        "m.txt:1: has 2 GPUs in its header and 1 rows of GPUs");
  CHECK(foreign::error_of("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\n", "m.txt") ==
        "m.txt:3: GPU1: has 1 cells for 2 columns");
  CHECK(foreign::error_of("\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tFAR\t X\n", "m.txt") ==
        "m.txt:2: GPU0.GPU1 = NV4: differs from FAR in the other direction");
  CHECK(foreign::error_of("switchguid=0x1\nSwitch\t4 \"S-01\"\t# \"a\"\n[1]\t\"H-02\"[1](2)\t# \"b\" lid 1 4xFAST\n",
                          "n.txt") ==
        "n.txt:3: '[1]?\"H-02\"[1](2)?# \"b\" lid 1 4xFAST' has no rate such as 4xNDR or 4X 106.25 Gbps");
  CHECK(foreign::error_of("nothing of that kind", "n.txt") ==
        "n.txt: matches none of the formats nccl-topology nccl-graph nvidia-smi ibnetdiscover iblinkinfo simgrid "
        "astra-sim simai-topology");
  CHECK(to_string(import_as<ImportedTopology>("", "n.txt", "visio").error()) ==
        "format = visio: unknown format (allowed: nccl-topology nccl-graph nvidia-smi ibnetdiscover iblinkinfo simgrid "
        "astra-sim simai-topology)");
}

TEST_CASE("A scenario's topology in a format of another tool: the error says what to run", "[error][io]") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "foreign.xml";
  std::ofstream(file) << "<system version=\"1\"/>\n";
  const Result<Cluster> read = read_topology(file);
  REQUIRE_FALSE(read);
  CHECK(to_string(read.error()) == file.string() +
                                       ": is not a topology of Tracecast (JSON); for a description of another tool run "
                                       "tracecast import topology " +
                                       file.string() + " -o machine.json first");
}

TEST_CASE("A scenario names a machine in a format of another tool", "[io]") {
  const TemporaryFolder folder;
  fs::copy(source_dir() / "docs/formats/samples/nccl-topology.xml", folder.path() / "node.xml");
  const fs::path scenario = folder.path() / "scenario.json";
  std::ofstream(scenario) << R"({"model": "llama-3.1-8b", "parallel": {"tp": 8},
    "training": {"seq_length": 4096, "global_batch_size": 8}, "cluster": {"topology": "node.xml", "world_size": 8}})";
  const Scenario read = value_of(read_any_scenario(scenario, shipped_data()));
  const Result<Cluster> imported = read_any_topology(folder.path() / "node.xml");
  REQUIRE(imported);
  CHECK(read.cluster.gpu == imported->gpu);
  CHECK(read.cluster.node.gpus == imported->node.gpus);
  CHECK(read.cluster.node.nic_rate == imported->node.nic_rate);
  CHECK(read.profile.name == imported->gpu);
  const Result<Scenario> replaced =
      read_any_scenario(source_dir() / "scenarios/teaching/tensor-parallel.json", shipped_data(),
                        {"cluster.topology=" + (folder.path() / "node.xml").string()});
  REQUIRE(replaced);
  CHECK(replaced->cluster.node.nic_rate == imported->node.nic_rate);
}

}  // namespace
}  // namespace tracecast
