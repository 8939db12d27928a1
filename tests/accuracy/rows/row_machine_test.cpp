#include "tools/accuracy/rows/row_machine.hpp"

#include <catch2/catch.hpp>

#include "tools/accuracy/rows/gpu_names.hpp"
#include "tools/accuracy/rows/network_words.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;

namespace {

std::string part(const char* reported) {
  const GpuName name = gpu_name(reported);
  return name.part + " " + std::to_string(static_cast<int>(name.memory_gb));
}

/// "8 x 400 nic"
std::string network(const char* words) {
  const auto reported = reported_network(words);
  if (!reported) return "nothing";
  const char* of = reported->of == ReportedNetwork::Rate::nic    ? "nic"
                   : reported->of == ReportedNetwork::Rate::gpu  ? "gpu"
                   : reported->of == ReportedNetwork::Rate::rack ? "rack"
                                                                 : "node";
  return std::to_string(reported->nics) + " x " + std::to_string(reported->rate.bytes_per_second / 125'000'000) + " " +
         of;
}

std::string machine(ReportedMachine reported) {
  const MachineClass* found = find_machine(reported);
  return found == nullptr ? "none" : std::string(found->topology) + " " + found->profile;
}

/// Eight GPUs with eight NICs of 400 Gb/s.
Cluster eight() {
  Cluster cluster;
  cluster.name = "eight";
  cluster.node.nic_rate = Bandwidth{50'000'000'000};
  cluster.node.nvls = true;
  return cluster;
}

std::string fitted(Cluster cluster, int gpus, const char* words, bool by_network = false) {
  ReportedMachine reported;
  reported.gpus_per_node = gpus;
  reported.links_between_nodes = words;
  const bool told = !adapt_node(cluster, reported, by_network).empty();
  return std::to_string(cluster.node.gpus) + "/" + std::to_string(cluster.node.gpus_per_host) + " " +
         std::to_string(cluster.node.nics) + " x " +
         std::to_string(cluster.node.nic_rate.bytes_per_second / 125'000'000) + (told ? " told" : "");
}

}  // namespace

TEST_CASE("row machine: a GPU's name without maker, board and memory", "[accuracy]") {
  CHECK(part("A100") == "A100 0");
  CHECK(part("NVIDIA A100-SXM4-80GB") == "A100 80");
  CHECK(part("NVIDIA H100 80GB HBM3") == "H100 80");
  CHECK(part("a100 40 GB") == "A100 40");
  CHECK(part("H100 PCIe") == "H100-PCIE 0");
  CHECK(part("AMD Instinct MI300X") == "MI300X 0");
  CHECK(part("MI250X-GCD") == "MI250X-GCD 0");
  CHECK(part("GB200 NVL72") == "GB200 0");
  CHECK(part("NVIDIA RTX PRO 6000 Blackwell Server Edition") == "RTX-PRO-6000 0");
  CHECK(part("NVIDIA B300 SXM6 AC") == "B300 0");
  CHECK(part("A100-80G") == "A100 80");
  CHECK(part("A100-SXM4-80GB (400 W)") == "A100 80");
  CHECK(part("Grace Hopper GH200") == "GH200 0");
  CHECK(part("p5.48xlarge (H100)") == "H100 0");
  CHECK(part("H100 NVL 94GB") == "H100-NVL 94");
  CHECK(part("H200 NVL") == "H200-PCIE 0");
  CHECK(part("MI250X (1 GCD)") == "MI250X-GCD 0");
  CHECK(part("Intel Data Center GPU Max 1550") == "MAX-1550 0");
  CHECK(part("A800 PCIe") == "A800-PCIE 0");
  CHECK(part("A100X") == "A100X 0");
  CHECK(part("") == " 0");
}

TEST_CASE("row machine: short, glued and counted names", "[accuracy]") {
  const std::pair<const char*, const char*> names[] = {{"8xH100", "H100 0"},
                                                       {"8x H100 80GB", "H100 80"},
                                                       {"H100SXM5 80GB", "H100 80"},
                                                       {"2 x MI300", "MI300X 0"},
                                                       {"MI325", "MI325X 0"},
                                                       {"RTX PRO 6000 Blackwell Workstation Edition", "RTX-PRO-6000 0"},
                                                       {"NVIDIA GeForce RTX 4090 24GB", "RTX-4090 24"},
                                                       {"RTX4090", "RTX-4090 0"},
                                                       {"4090", "RTX-4090 0"},
                                                       {"MI210", "MI210 0"},
                                                       {"B200 NVL72", "GB200 0"},
                                                       {"B300 NVL72", "GB300 0"},
                                                       {"B200 (GB200 NVL72)", "GB200 0"},
                                                       {"B200 (GB200)", "GB200 0"},
                                                       {"B300 NVL16", "B300 0"},
                                                       {"NVIDIA Vera Rubin NVL72", "VR200 0"},
                                                       {"H100 (DGX, not H200)", "H100 0"},
                                                       {"H100x8", "H100 0"},
                                                       {"H100s", "H100 0"},
                                                       {"MI300X x8", "MI300X 0"},
                                                       {"A100X", "A100X 0"}};
  for (const auto& [reported, expected] : names) CHECK(part(reported) == expected);
}

TEST_CASE("row machine: a GPU's memory, not its CPU's or the GPUs of an instance", "[accuracy]") {
  const std::pair<const char*, const char*> names[] = {{"NVIDIA GH200 120GB", "GH200 0"},
                                                       {"NVIDIA GH200 480GB", "GH200 0"},
                                                       {"GH200 144G HBM3e", "GH200 144"},
                                                       {"GH200 (96GB HBM3 + 480GB LPDDR5X)", "GH200 96"},
                                                       {"GH200 (480 GB LPDDR5X, 96 GB HBM3)", "GH200 96"},
                                                       {"GB200 (480GB LPDDR5X, 186GB HBM3e)", "GB200 186"},
                                                       {"a3-ultragpu-8g (H200)", "H200 0"},
                                                       {"V100-SXM2-16G", "V100 16"}};
  for (const auto& [reported, expected] : names) CHECK(part(reported) == expected);
  CHECK(memory_of({"GH200", 480, 0, "", "", ""}) == 0);
  CHECK(memory_of({"GH200", 96, 0, "", "", ""}) == 96);
  CHECK(memory_of({"H100 80GB", 64, 0, "", "", ""}) == 64);
}

TEST_CASE("row machine: the network between nodes, as sources print it", "[accuracy]") {
  CHECK(network("8x NDR InfiniBand 400Gb/s per node") == "8 x 400 node");
  CHECK(network("4x HDR 200Gb/s per node (repo config: 800 Gb/s total)") == "4 x 200 node");
  CHECK(network("8 x 200 Gbps RoCE") == "8 x 200 nic");
  CHECK(network("RDMA 400Gb/s per GPU (CX-7)") == "0 x 400 gpu");
  CHECK(network("1600Gb/s RoCE per node") == "0 x 1600 node");
  CHECK(network("2Tb/s RoCE per node") == "0 x 2000 node");
  CHECK(network("EFA 50 GB/s per node") == "0 x 400 node");
  CHECK(network("100GbE") == "0 x 100 nic");
  CHECK(network("4x Slingshot-11") == "4 x 200 nic");
  CHECK(network("8x HDR100") == "8 x 100 nic");
  CHECK(network("InfiniBand HDR 200Gb/s, 8 NICs per node") == "8 x 200 node");
  CHECK(network("4 HCAs of 400Gb/s") == "4 x 400 nic");
  for (const char* eight : {"8\xc3\x97"
                            "200Gb/s per node",
                            "8 * 200Gb/s HDR per node", "200Gb/s x8 per node", "200 Gb/s HDR x 8 per node",
                            "eight 200Gb/s HDR per node", "8 rails of 200Gb/s per node", "200Gb/s HDR (8 per node)"})
    CHECK(network(eight) == "8 x 200 node");
  CHECK(network("200Gb/s per NIC (1.6Tb/s per node)") == "0 x 200 nic");
  CHECK(network("200 Gb/s HDR per NIC, 8 per node") == "8 x 200 nic");
  CHECK(network("8x HDR, 200 GB/s per node") == "8 x 200 node");
  CHECK(network("3.2 Tbps EFA") == "0 x 3200 nic");
  CHECK(network("4x100G RoCE") == "4 x 100 nic");
  CHECK(network("PCIe 5G class") == "nothing");
  CHECK(network("3200Gb/s RoCE, 8 ports") == "8 x 400 nic");
  CHECK(network("8x InfiniBand per node (400Gb/s class)") == "8 x 400 node");
  CHECK(network("8x2x200Gb/s") == "16 x 200 nic");
  CHECK(network("8 x 2 x 200 Gb/s RoCE") == "16 x 200 nic");
  CHECK(network("28.8 Tb/s per rack") == "0 x 28800 rack");
  for (const char* one : {"one 200 Gb/s NIC", "single HDR NIC", "1 HDR200 HCA", "single-rail HDR"})
    CHECK(network(one) == "1 x 200 nic");
  CHECK(network("4 HDR NICs per node") == "4 x 200 nic");
  CHECK(network("quad-rail HDR200") == "4 x 200 nic");
  for (const char* two : {"2 NDR NICs", "dual-rail NDR", "two 400Gb/s InfiniBand adapters", "2 ConnectX-7 NICs, NDR"})
    CHECK(network(two) == "2 x 400 nic");
  CHECK(network("8 dual-port HDR NICs") == "8 x 200 nic");
  CHECK(network("400Gb/s NICs") == "0 x 400 nic");
  for (const char* unsure : {"", "not printed (DGX H100 class, 8x NDR 400Gb/s assumed)", "none (single node)",
                             "RoCE v2, about 500GB/s per node aggregate", "8x InfiniBand", "PCIe Gen4 x16", "x Gb/s",
                             "99999999999999999999999Gb/s"})
    CHECK(network(unsure) == "nothing");
}

TEST_CASE("row machine: a node has the GPUs and NICs that are reported, or its share of them", "[accuracy]") {
  CHECK(fitted(eight(), 8, "8x NDR InfiniBand 400Gb/s per node") == "8/8 8 x 400");
  CHECK(fitted(eight(), 0, "") == "8/8 8 x 400");
  CHECK(fitted(eight(), 4, "") == "4/4 4 x 400 told");
  CHECK(fitted(eight(), 4, "4x HDR 200Gb/s per node") == "4/4 4 x 200 told");
  CHECK(fitted(eight(), 8, "1600Gb/s RoCE per node") == "8/8 8 x 200 told");
  CHECK(fitted(eight(), 4, "200Gb/s per GPU") == "4/4 4 x 200 told");
  CHECK(fitted(eight(), 8, "2x 100Gb/s per GPU") == "8/8 16 x 100 told");
  CHECK(fitted(eight(), 8, "8x 200Gb/s per GPU") == "8/8 8 x 200 told");
  CHECK(fitted(eight(), 8, "4x 400 Gb/s NICs (200 Gb/s per GPU)") == "8/8 4 x 400 told");
  CHECK(fitted(eight(), 8, "200Gb/s InfiniBand") == "8/8 8 x 200 told");
  CHECK(fitted(eight(), 8, "EFA 3200Gb/s") == "8/8 8 x 400");
  CHECK(fitted(eight(), 8, "EFA 800 Gb/s") == "8/8 8 x 100 told");
  CHECK(fitted(eight(), 16, "8x 400Gb/s") == "16/16 8 x 400 told");
  CHECK(fitted(eight(), 1000, "") == "8/8 8 x 400");  // a misprint
  Cluster rack = eight();
  rack.node.gpus = 72;
  rack.node.gpus_per_host = 4;
  rack.node.nics = 4;
  CHECK(fitted(rack, 4, "4x NDR InfiniBand 400Gb/s per 4-GPU tray") == "72/4 4 x 400");
  CHECK(fitted(rack, 72, "") == "72/4 4 x 400");
  CHECK(fitted(rack, 4, "28.8 Tb/s per rack") == "72/4 4 x 400");
  CHECK(fitted(rack, 4, "14.4 Tb/s per rack") == "72/4 4 x 200 told");
  Cluster alone = eight();
  alone.node.nics = 0;
  CHECK(fitted(alone, 8, "") == "8/8 0 x 400");
  CHECK(fitted(alone, 8, "2x 100Gb/s") == "8/8 2 x 100 told");
  CHECK(fitted(alone, 8, "100GbE") == "8/8 1 x 100 told");
  CHECK(fitted(alone, 8, "200Gb/s per node") == "8/8 1 x 200 told");
  CHECK(fitted(eight(), 8, "4x Omni-Path 100Gb/s per node") == "8/8 4 x 100 told");
  CHECK(fitted(eight(), 8, "4x Omni-Path 100Gb/s per node", true) == "8/8 8 x 400");  // the machine's own network
}

TEST_CASE("row machine: up to four GPUs of a node are cabled to each other", "[accuracy]") {
  Cluster cluster = eight();
  ReportedMachine reported;
  reported.gpus_per_node = 4;
  adapt_node(cluster, reported, false);
  CHECK(cluster.node.link == IntraLink::nvlink_mesh);
  CHECK_FALSE(cluster.node.nvls);
}

TEST_CASE("row machine: by GPU, network, framework and node", "[accuracy]") {
  CHECK(machine({"NVIDIA A100-SXM4-40GB", 0, 0, "", "", ""}) == "dgx-a100 a100-40gb");
  CHECK(machine({"A100", 80, 8, "NVLink3 600GB/s", "4x Omni-Path 100Gb/s per node (Jean Zay)", ""}) == "jean-zay ");
  CHECK(machine({"A100", 80, 8, "PCIe Gen4", "", ""}) == "rtx-pro-6000-pcie a100-pcie");
  CHECK(machine({"A100", 80, 8, "NVLink bridges, PCIe Gen4", "", ""}) == "dgx-a100 ");
  CHECK(machine({"V100", 32, 16, "", "", ""}) == "dgx-2h ");
  CHECK(machine({"V100", 32, 8, "", "", ""}) == "dgx-v100 ");
  CHECK(machine({"MI250X", 0, 4, "", "", ""}) == "frontier mi250x-module");
  CHECK(machine({"MI350X", 288, 8, "", "", ""}) == "hgx-mi355x mi350x");
  CHECK(machine({"MI355X", 288, 8, "", "", ""}) == "hgx-mi355x ");
  CHECK(machine({"H100", 96, 8, "", "", "TorchTitan"}) == "grand-teton h100-96gb-500w");
  CHECK(machine({"H100", 94, 8, "", "", "torchtitan (torchao)"}) == "grand-teton h100-96gb-500w");
  CHECK(machine({"H100", 80, 8, "", "", "torchtitan"}) == "dgx-h100 ");
  CHECK(machine({"A100", 40, 4, "", "4x HDR InfiniBand 200Gb/s per node", ""}) == "dgx-a100 a100-40gb");
  CHECK(machine({"A100", 40, 8, "", "4x HDR InfiniBand 200Gb/s per node", ""}) == "a100-4hdr a100-40gb");
  CHECK(machine({"A100", 80, 8, "", "4x HDR100 100Gb/s per node", ""}) == "dgx-a100 ");
  CHECK(machine({"H100", 80, 8, "NVSwitch; PCIe Gen5 to the NICs", "EFA 3200Gb/s", ""}) == "aws-p5 ");
  CHECK(machine({"H100 SXM5", 94, 4, "PCIe 5.0 host", "", ""}) == "dgx-h100 h100-96gb-500w");
  CHECK(machine({"Max 1550", 128, 6, "", "", ""}) == "aurora ");
  CHECK(machine({"TPU v5p", 0, 4, "", "", ""}) == "none");
  CHECK(machine({"B200", 0, 4, "NVLink5 1800GB/s, NVL72 domain", "", ""}) == "gb200-nvl72 ");
  CHECK(machine({"B200", 0, 8, "NVLink5, no NVL72", "", ""}) == "dgx-b200 ");
  CHECK(machine({"A800 PCIe", 0, 8, "", "", ""}) == "rtx-pro-6000-pcie a100-pcie");
  CHECK(machine({"H800", 0, 8, "PCIe Gen5", "", ""}) == "rtx-pro-6000-pcie h100-pcie");
}

TEST_CASE("row machine: clouds by the names of their instances and networks", "[accuracy]") {
  CHECK(machine({"A100", 40, 8, "", "EFA 400Gb/s", ""}) == "aws-p4d ");
  CHECK(machine({"A100", 80, 8, "", "AWS EFA", ""}) == "aws-p4de ");
  CHECK(machine({"A100", 0, 8, "", "p4d.24xlarge EFA", ""}) == "aws-p4d ");
  CHECK(machine({"A100 (p4de.24xlarge)", 0, 8, "", "", ""}) == "aws-p4de ");
  CHECK(machine({"p5.48xlarge (H100)", 0, 8, "", "", ""}) == "aws-p5 ");
  CHECK(machine({"H200", 0, 8, "", "efa, p5en", ""}) == "aws-p5en ");
  CHECK(machine({"H100", 0, 8, "", "GCP A3-Mega", ""}) == "gcp-a3mega ");
  CHECK(machine({"H100", 0, 8, "", "default", ""}) == "dgx-h100 ");
}
