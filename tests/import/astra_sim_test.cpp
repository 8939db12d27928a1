// Networks of ASTRA-sim, and rates that no machine has.
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "sim/io/files.hpp"
#include "tests/import/samples.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;
using namespace tracecast::literals;

TEST_CASE("imported machines: rates that no machine has are refused, unequal ones of SimAI noted",
          "[io][simai][astra-sim]") {
  const auto simai = [](const std::string& second) {
    return import_as<ImportedTopology>(
        "5 2 1 2 4 H100\n2 3 4\n0 2 2880Gbps 0.000025ms 0\n0 3 400Gbps 0.0005ms 0\n1 2 " + second +
            " 0.000025ms 0\n1 4 400Gbps 0.0005ms 0\n",
        "t", "simai-topology");
  };
  const Result<ImportedTopology> equal = simai("2880Gbps");
  REQUIRE(equal);
  CHECK(equal->notes.empty());
  const Result<ImportedTopology> unequal = simai("22880Gbps");
  REQUIRE(unequal);
  CHECK(unequal->cluster.node.gpu_link == 360_GBps);
  CHECK(unequal->notes ==
        std::vector<std::string>{
            "1 links of GPUs have another rate than the first of their kind: all are taken as the first"});
  CHECK(error_text(import_as<ImportedTopology>(
            "topology: [ Switch, Ring ]\nnpus_count: [ 8, 2 ]\nbandwidth: [ 50000, 50 ]\nlatency: [ 936, 1000 ]\n", "t",
            "astra-sim")) ==
        "t: node.gpu_link: no GPU has links of 53.7 TB/s in one direction (the sum of both directions, or bits?)");
  CHECK(
      error_text(import_as<ImportedTopology>(
          R"(<?xml version='1.0'?><platform version="4.1"><zone id="world" routing="Full"><cluster id="c" prefix="n" )"
          R"(radical="0-5" suffix="" speed="1Gf" bw="900GBps" lat="1us" topology="FAT_TREE" topo_parameters="2;3,2;1,2;1,1"/>)"
          R"(</zone></platform>)",
          "t", "simgrid")) ==
      "t: node.nic_rate: no NIC has 900 GB/s in one direction (the rate of several NICs, or bits?)");
}

// docs/references.md#format-astra-sim
TEST_CASE("astra-sim: rates, hops and links are those of its analytical network", "[io][astra-sim]") {
  const auto read = [](const std::string& kinds, const std::string& counts, const std::string& rates,
                       const std::string& latencies) {
    return *import_as<ImportedTopology>(
        fmt::format("topology: [ {} ]\nnpus_count: [ {} ]\nbandwidth: [ {} ]\nlatency: [ {} ]\n", kinds, counts, rates,
                    latencies),
        "t", "astra-sim");
  };
  constexpr std::int64_t kGigabyte = 1 << 30;
  // A message crosses two links of a switch.
  const ImportedTopology one = read("Switch", "8", "100", "936.25");
  CHECK(one.cluster.node.gpu_link == Bandwidth{100 * kGigabyte});
  CHECK(one.cluster.node.link_latency == Duration{1'872'500});
  CHECK(one.notes.back() == "a GB/s is 2^30 bytes a second, as ASTRA-sim takes it");
  CHECK(read("FullyConnected", "8", "10", "500").cluster.node.gpu_link == Bandwidth{70 * kGigabyte});
  CHECK(read("FullyConnected", "8", "10", "500").cluster.node.link_latency == 500_ns);
  // Two GPUs of a ring are joined by one link.
  CHECK(read("Ring", "8", "10", "500").cluster.node.gpu_link == Bandwidth{20 * kGigabyte});
  CHECK(read("Ring", "2", "10", "500").cluster.node.gpu_link == Bandwidth{10 * kGigabyte});
  // A message between units of the second dimension takes the third's links only.
  const ImportedTopology three = read("Switch, FullyConnected, Switch", "4, 2, 8", "200, 50, 25", "300, 700, 2000");
  CHECK(three.cluster.node.nic_latency == 700_ns);
  REQUIRE(three.cluster.tiers.size() == 2);
  CHECK(three.cluster.tiers[0].hop_latency == 3'300_ns);  // 2 x 2000 in all
  CHECK(three.cluster.tiers[0].oversubscription == 2);    // all 8 GPUs of a unit at once have 25 GB/s each
  CHECK(three.notes.back() ==
        "the links of a GPU in the dimensions above the second are taken as one NIC at the second's rate");
  // Hosts of a torus are its routers: a hop takes the latency once.
  const Cluster torus = read("Switch, Ring, Ring", "4, 2, 8", "200, 50, 50", "300, 700, 700").cluster;
  CHECK(torus.shape.dimensions == std::vector<int>{8, 2});  // the second dimension is numbered faster than the third
  CHECK(torus.fabric == FabricKind::torus);
  CHECK(torus.node.nic_latency == 0_ns);
  CHECK(torus.tiers[0].hop_latency == 700_ns);
  // Dimensions of one GPU have no links, and two GPUs of a ring or fully connected have one link.
  const ImportedTopology single =
      read("Switch, Ring, Switch, FullyConnected", "4, 1, 2, 1", "200, 1, 50, 1", "300, 1, 700, 1");
  CHECK(single.cluster.node.nic_rate == Bandwidth{50 * kGigabyte});
  CHECK(single.cluster.node.nic_latency == 1'400_ns);
  CHECK(single.cluster.tiers.size() == 1);
  // Four dimensions: a message across each takes (1 or 2) x latency, and has the rate of its dimension where all GPUs send.
  const Cluster four =
      read("FullyConnected, Switch, Ring, Switch", "4, 8, 2, 3", "200, 50, 40, 10", "1, 400, 900, 500").cluster;
  REQUIRE(four.tiers.size() == 3);
  CHECK(four.max_nodes == 48);
  CHECK(std::pair(four.tiers[0].nodes, four.tiers[1].nodes) == std::pair(8, 16));
  CHECK(four.node.nic_latency == 800_ns);
  CHECK(four.node.nic_latency + four.tiers[0].hop_latency == 900_ns);
  CHECK(four.node.nic_latency + four.tiers[0].hop_latency + four.tiers[1].hop_latency == 1_us);
  CHECK(four.node.nic_rate == Bandwidth{50 * kGigabyte});
  CHECK(50 / four.tiers[0].oversubscription == 40);
  CHECK(50 / four.tiers[0].oversubscription / four.tiers[1].oversubscription == 10);
}

TEST_CASE("astra-sim: links that one NIC and its tiers cannot stand for are refused", "[io][astra-sim]") {
  const auto refusal = [](const char* kinds, const char* counts, const char* rates, const char* latencies) {
    return error_text(import_as<ImportedTopology>(
        fmt::format("topology: [ {} ]\nnpus_count: [ {} ]\nbandwidth: [ {} ]\nlatency: [ {} ]\n", kinds, counts, rates,
                    latencies),
        "t", "astra-sim"));
  };
  // The network of three dimensions that ASTRA-sim documents.
  CHECK(refusal("Ring, FullyConnected, Switch", "2, 8, 4", "200.0, 100.0, 50.0", "50.0, 500.0, 2000.0") ==
        "t:1: topology = FullyConnected: a link of its own to each of 7 other nodes is not modelled outside of the "
        "first dimension (allowed: Switch)");
  CHECK(refusal("Switch, Ring, Switch", "8, 4, 2", "400, 50, 50", "1, 1, 1") ==
        "t:1: topology = Ring: a ring of 4 above or below another kind of dimension is not modelled (allowed: rings in "
        "all dimensions above the first)");
  CHECK(refusal("Switch, Switch, Switch", "8, 4, 2", "400, 25, 50", "1, 1, 1") ==
        "t:3: bandwidth = 50: is above 25 of the dimension below, whose NICs carry its traffic here (allowed: up to "
        "that)");
  CHECK(refusal("Switch, Switch, Switch", "8, 4, 2", "400, 50, 25", "300, 700, 500") ==
        "t:4: latency = 500: makes a message shorter than in the dimension below, of 1.40 us: tiers only add to it");
  CHECK(refusal("Ring, Ring, Ring", "4, 4, 4", "80, 80, 40", "500, 500, 500") ==
        "t:3: bandwidth = 40: differs from 80 of the second dimension: the links of a torus have one bandwidth");
  CHECK(refusal("Ring, Ring, Ring", "4, 4, 4", "80, 80, 80", "500, 500, 900") ==
        "t:4: latency = 900: differs from 500 of the second dimension: the links of a torus have one latency");
  CHECK(refusal("Ring, Ring, Ring, Ring, Ring, Ring, Ring, Ring, Ring", "1, 1, 1, 1, 1, 1, 1, 1, 2",
                "1, 1, 1, 1, 1, 1, 1, 1, 1",
                "1, 1, 1, 1, 1, 1, 1, 1, 1") == "t:1: topology = 9 entries: are more dimensions than 8");
  CHECK(refusal("Ring, Ring, Ring, Ring, Ring, Ring, Ring, Ring", "1, 1, 1, 1, 1, 1, 1, 2", "1, 1, 1, 1, 1, 1, 1, 1",
                "1, 1, 1, 1, 1, 1, 1, 1") == "");
}

TEST_CASE("astra-sim: networks become topologies, the rest is rejected with the reason", "[io][astra-sim]") {
  if (!have_samples()) return;
  const auto machine = [](const std::string& name) {
    const ImportedTopology read = value_of(import_as<ImportedTopology>(sample("astra-sim/" + name), name));
    const Cluster again = value_of(read_topology_text(to_topology_json(read, name), "t.json"));
    return read.cluster;
  };
  const Cluster hgx = machine("inputs__network__hgx_h100_16gpu.yml");
  CHECK(hgx.node.gpus == 8);
  CHECK(hgx.node.gpu_link == Bandwidth{400LL << 30});
  CHECK(hgx.node.nic_rate == Bandwidth{50LL << 30});
  CHECK(hgx.max_nodes == 2);
  CHECK(machine("network__analytical__HGX-H100-validated.yml").max_nodes == 1);
  CHECK(machine("network__analytical__Ring_16npus.yml").node.gpus == 16);
  CHECK(machine("inputs__network__tpu_v3_32_2dtorus.yml").fabric == FabricKind::torus);
  for (const char* file :
       {"inputs__system__analytical__hgx_h100_16gpu.json", "inputs__system__analytical__tpu_v3_32_2dtorus.json",
        "system__native_collectives__HGX-H100-validated.json", "system__native_collectives__Ring_4chunks.json"})
    CHECK(error_text(import_as<ImportedTopology>(sample(std::string("astra-sim/") + file), file)) ==
          std::string(file) +
              ": scheduling-policy: is of ASTRA-sim's system layer, which chooses algorithms of collectives; a "
              "topology comes "
              "from its network file (.yml)");
  CHECK(error_text(import_as<ImportedTopology>(sample("astra-sim/network__ns3__sample_16nodes_2D.json"), "d"))
            .starts_with("d: logical-dims"));
  CHECK(error_text(
            import_as<ImportedTopology>(sample("astra-sim/remote_memory__analytical__no_memory_expansion.json"), "m"))
            .starts_with("m: memory-type"));
  CHECK(error_text(import_as<ImportedTopology>("topology: [ Ring, Mesh ]\n", "t", "astra-sim")) ==
        "t:1: topology = Mesh: unknown kind of dimension (allowed: Ring FullyConnected Switch)");
  CHECK(error_text(import_as<ImportedTopology>("topology: [ Ring ]\nnpus_count: [4, 2]\nbandwidth: [1]\nlatency: [1]\n",
                                               "t", "astra-sim")) ==
        "t:2: npus_count = 2 entries: does not have one for each of the 1 dimensions");
}

TEST_CASE("astra-sim: a key that is given twice is refused", "[io][astra-sim][error]") {
  CHECK(error_text(import_as<ImportedTopology>(
            "topology: [ Ring ]\nnpus_count: [4]\nbandwidth: [1]\nlatency: [1]\nnpus_count: [8]\n", "t",
            "astra-sim")) == "t:5: npus_count: is given twice");
}
