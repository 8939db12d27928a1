#include <fstream>

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast {
namespace {

using namespace literals;

const std::filesystem::path kTopologies = source_dir() / "topologies";

TEST_CASE("Every shipped topology reads", "[io][network]") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kTopologies)) {
    INFO(entry.path().filename().string());
    const Cluster cluster = value_of(read_topology(entry.path()));
    CHECK(cluster.name == entry.path().stem().string());
    CHECK(cluster.node.gpus >= 1);
    CHECK((cluster.node.nics == 0 || cluster.node.nic_rate.bytes_per_second > 0));
    CHECK_FALSE(cluster.source.empty());
    ++files;
  }
  CHECK(files >= 20);
}

TEST_CASE("dgx-h100 and meta-24k-h100 are what their sources say", "[oracle][io][network]") {
  const Cluster dgx = read_topology(kTopologies / "dgx-h100.json").value();
  CHECK(dgx.gpu == "h100");
  CHECK(dgx.node.gpus == 8);
  CHECK(dgx.node.link == IntraLink::nvswitch);
  CHECK(dgx.node.gpu_link == 450_GBps);
  CHECK(dgx.node.nvls);
  CHECK(dgx.node.nics == 8);
  CHECK(dgx.node.nic_rate == 50_GBps);
  CHECK(dgx.fabric == FabricKind::rail_optimized);
  CHECK(dgx.max_nodes == 0);
  const Cluster meta = read_topology(kTopologies / "meta-24k-h100.json").value();
  REQUIRE(meta.tiers.size() == 3);
  CHECK(meta.tiers[1].nodes * meta.node.gpus == 3072);
  CHECK(meta.tiers[1].oversubscription == 7);
  CHECK(meta.max_nodes * meta.node.gpus == 24576);
}

/// A whole file in which one piece of text is replaced by another.
std::string error_of(const std::string& from, const std::string& to) {
  std::string text = R"({
  "description": "a node",
  "gpu": "a100",
  "node": {
    "gpus": 8,
    "link": "nvswitch",
    "gpu_link": "300 GB/s",
    "nics": 8,
    "nic_rate": "200 Gb/s",
    "nic_latency": "1.5 us",
    "pcie": "26 GB/s",
    "cpu": "amd"
  },
  "fabric": {
    "kind": "fat-tree",
    "tiers": [
      { "name": "leaf", "nodes": 20, "hop_latency": "0.5 us" },
      { "name": "core" }
    ]
  },
  "collectives": { "mid_size": 1.2, "data": "nothing" },
  "sources": { "node": "a data sheet", "fabric": "a paper", "collectives": "a fit" }
})";
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "machine.json";
  std::ofstream(path) << text;
  const Result<Cluster> cluster = read_topology(path);
  if (cluster) return "";
  std::string message = to_string(cluster.error());
  for (std::size_t p; (p = message.find(path.string())) != std::string::npos;)
    message.replace(p, path.string().size(), "machine.json");
  return message;
}

TEST_CASE("Broken topologies are one error message", "[error][io][network]") {
  CHECK(error_of("a node", "a machine").empty());
  CHECK(error_of("\"gpu_link\": \"300 GB/s\"", "\"gpu_lnk\": \"300 GB/s\"") ==
        "machine.json:4: node.gpu_link: is missing\n"
        "machine.json:7: node.gpu_lnk: unknown key (did you mean 'gpu_link'?)");
  CHECK(error_of("\"nvswitch\"", "\"nvlink\"") ==
        "machine.json:6: node.link = \"nvlink\": is unknown (allowed: nvswitch nvlink-mesh pcie xgmi none)");
  CHECK(error_of("\"gpus\": 8,", "\"gpus\": 8, \"gpus_per_host\": 3,") ==
        "machine.json:5: node.gpus_per_host = 3: does not divide node.gpus = 8");
  CHECK(error_of("\"nvswitch\"", "\"pcie\"") ==
        "machine.json:7: node.gpu_link = \"300 GB/s\": has no effect: it is "
        "for GPUs that node.link connects directly");
  CHECK(error_of("\"200 Gb/s\"", "\"0 Gb/s\"") == "machine.json:9: node.nic_rate = \"0 Gb/s\": must be more than 0");
  CHECK(error_of("\"link\": \"nvswitch\",", "\"link\": \"nvlink-mesh\", \"nvls\": true,") ==
        "machine.json:6: node.nvls = true: needs node.link = \"nvswitch\"");
  CHECK(error_of("\"nodes\": 20,", "") ==
        "machine.json:16: fabric.tiers = [2 items]: tier 0 has no nodes, and only the last may hold all");
  CHECK(error_of("{ \"name\": \"core\" }", "{ \"name\": \"core\", \"nodes\": 20 }") ==
        "machine.json:16: fabric.tiers = [2 items]: tier 1 holds 20 nodes, not more than the tier below (20)");
  CHECK(error_of("\"nodes\": 20,", "\"nodes\": 20, \"oversubscription\": 0.5,") ==
        "machine.json:17: fabric.tiers[0].oversubscription = 0.5: must be at least 1 (downlink / uplink bandwidth)");
  CHECK(error_of("\"mid_size\": 1.2", "\"mid_size\": -1") ==
        "machine.json:21: collectives.mid_size = -1: must be more than 0 and at most 100");
  CHECK(error_of("{ \"name\": \"core\" }", "{ \"name\": \"core\", \"hop_latency\": \"1 us\" }") ==
        "machine.json:18: fabric.tiers[1].hop_latency = \"1 us\": has no effect: the tier holds all nodes, so that "
        "nothing "
        "leaves it (give it nodes)");
  CHECK(error_of("\"200 Gb/s\"", "\"400 GB/s\"") ==
        "machine.json:9: node.nic_rate = \"400 GB/s\": no NIC has 400 GB/s in one direction (the rate of several NICs, "
        "or "
        "bits?)");
  CHECK(error_of("\"core\"", "\"leaf\"") ==
        "machine.json:16: fabric.tiers = [2 items]: has two tiers 'leaf' (perturb.lost_uplinks goes by name)");
  CHECK(
      error_of("\"node\": \"a data sheet\", ", "\"node.nics\": \"a data sheet\", ")
          .find(
              "machine.json:7: node.gpu_link = \"300 GB/s\": has no source (name one in 'sources', for this key or the "
              "group it is in)") != std::string::npos);
}

/// dgx-a100 with this fabric and so many nodes.
Result<Cluster> with_fabric(const std::string& fabric, int nodes) {
  const std::string machine = R"({"description": "mine", "gpu": "a100", "node": {"gpus": 8, "link": "nvswitch", )"
                              R"("gpu_link": "300 GB/s", "nics": 8, "nic_rate": "200 Gb/s", "nic_latency": "1.5 us", )"
                              R"("pcie": "26 GB/s", "cpu": "amd"}, "sources": "assumed", "fabric": )";
  const std::string size = nodes > 0 ? ", \"nodes\": " + std::to_string(nodes) + "}" : "}";
  return read_topology_text(machine + fabric + size, "mine.json");
}

TEST_CASE("the cables between the groups of a dragonfly decide its oversubscription", "[oracle][io][network]") {
  // 4 nodes of 8 NICs per group, 4 groups: a group has 2 cables to each of 3 others for its 32 NICs.
  const auto dragonfly = [](const std::string& given, int nodes) {
    return with_fabric(R"({"kind": "dragonfly", "global_links": 2, "tiers": [{"name": "group", "nodes": 4)" + given +
                           R"(}, {"name": "all"}]})",
                       nodes);
  };
  CHECK(dragonfly("", 16).value().tiers.front().oversubscription == Approx(32.0 / 6));
  CHECK(dragonfly(", \"oversubscription\": 5.3", 16).value().tiers.front().oversubscription == 5.3);
  CHECK(dragonfly("", 4).value().tiers.front().oversubscription == 1);
  CHECK(dragonfly("", 4000).value().tiers.front().oversubscription == 1);
  CHECK(to_string(dragonfly(", \"oversubscription\": 2", 16).error()) ==
        "mine.json:1: fabric.global_links = 2: leaves an oversubscription of 5.333, but the group says 2 (give one)");
  CHECK(to_string(dragonfly("", 0).error()) ==
        "mine.json:1: fabric.global_links = 2: needs nodes: the machine's groups share the cables of each");
}

TEST_CASE("a last tier with nodes has a top above it, unless it holds the machine", "[io][network]") {
  const auto tiers = [](int nodes, const std::string& kind = "fat-tree", const std::string& last = "core") {
    std::vector<std::string> names;
    const std::string below = kind == "fat-tree" ? R"({"name": "leaf", "nodes": 2}, )" : "";
    const std::string fabric = R"({"kind": ")" + kind + R"(", "tiers": [)" + below + R"({"name": ")" + last +
                               R"(", "nodes": 4, "oversubscription": 4}]})";
    const Cluster cluster = with_fabric(fabric, nodes).value();
    for (const FabricTier& tier : cluster.tiers) names.push_back(tier.name);
    return names;
  };
  CHECK(tiers(0) == std::vector<std::string>{"leaf", "core", "top"});
  CHECK(tiers(16) == std::vector<std::string>{"leaf", "core", "top"});
  CHECK(tiers(4) == std::vector<std::string>{"leaf", "core"});
  CHECK(tiers(16, "fat-tree", "top") == std::vector<std::string>{"leaf", "top", "above top"});
  CHECK(tiers(16, "dragonfly", "group") == std::vector<std::string>{"group", "top"});
}

TEST_CASE("keys of a fabric that its kind does not have are refused", "[error][io][network]") {
  const auto error = [](const std::string& fabric) { return to_string(with_fabric(fabric, 16).error()); };
  CHECK(error(R"({"kind": "dragonfly", "global_links": 2, "tiers": [{"name": "all"}]})") ==
        "mine.json:1: fabric.global_links = 2: needs a tier with nodes, the group");
  CHECK(error(R"({"kind": "dragonfly", "tiers": [{"name": "rack", "nodes": 2}, {"name": "group", "nodes": 4}]})") ==
        "mine.json:1: fabric.tiers = [2 items]: tier 1 is above the groups of a dragonfly, where all are joined "
        "(allowed: one tier with nodes, its group, and one without)");
  CHECK(error(R"({"kind": "torus", "dimensions": [4, 4], "tiers": [{"name": "all", "oversubscription": 2}]})") ==
        "mine.json:1: fabric.tiers[0].oversubscription = 2: has no effect: the tier holds all nodes, so that nothing "
        "leaves it (give it nodes)");
  CHECK(error(R"({"kind": "torus", "switch_ports": 64, "tiers": [{"name": "all", "hop_latency": "1 us"}]})") ==
        "mine.json:1: fabric.switch_ports = 64: needs fabric.kind = \"fat-tree\" or \"rail-optimized\"");
}

TEST_CASE("a topology may have one source for all of its numbers", "[io][network]") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "mine.json";
  const std::string machine = R"({"description": "mine", "gpu": "a100", "node": {"gpus": 8, "link": "nvswitch", )"
                              R"("gpu_link": "300 GB/s", "nics": 8, "nic_rate": "200 Gb/s", "nic_latency": "1.5 us", )"
                              R"("pcie": "26 GB/s", "cpu": "amd"}, )"
                              R"("fabric": {"kind": "fat-tree", "tiers": [{"name": "core"}]})";
  REQUIRE(write_file(file, machine + R"(, "sources": "assumed"})"));
  const Cluster read = value_of(read_topology(file));
  CHECK(read.source == "assumed");
  REQUIRE(write_file(file, machine + "}"));
  CHECK(to_string(read_topology(file).error()) ==
        file.string() +
            ":1: sources: is missing: where the numbers are from, by key or group (\"sources\": \"assumed\" "
            "for all)");
}

TEST_CASE("over PCIe that nobody measured, collectives reach half of a copy's rate", "[io][network]") {
  const auto tuning = [](const std::string& gpu, const std::string& node, const std::string& more = "") {
    return value_of(read_topology_text(R"({"description": "", "gpu": ")" + gpu +
                                           R"(", "sources": "assumed", "node": )" + node +
                                           R"(, "fabric": {"kind": "none"})" + more + "}",
                                       "own.json"))
        .tuning;
  };
  const std::string boards = R"({"gpus": 8, "link": "pcie", "nics": 0, "pcie": "25 GB/s", "cpu": "intel"})";
  CHECK(tuning("rtx-4090", boards).intra_bandwidth == 0.5);
  CHECK(tuning("rtx-4090", boards).residual == 0.3);
  CHECK(tuning("rtx-4090", boards, R"(, "collectives": {"intra_bandwidth": 0.8, "data": "own"})").intra_bandwidth ==
        0.8);
  CHECK(tuning("CPU", boards) == tuning("cpu", boards));  // a name says nothing
  CHECK(tuning("cpu", boards, R"(, "collectives": {"data": ""})") == CollectiveTuning{});
  CHECK(shipped_topology("cpu").tuning == CollectiveTuning{});  // its messages are in shared memory
  CHECK(
      tuning(
          "h100",
          R"({"gpus": 8, "link": "nvswitch", "gpu_link": "450 GB/s", "nics": 0, "pcie": "25 GB/s", "cpu": "intel"})") ==
      CollectiveTuning{});
}

TEST_CASE("a topology has the latencies that its collectives were measured with", "[io][network]") {
  const auto reference = [](const char* name) {
    const Cluster cluster = shipped_topology(name);
    return cluster.reference;
  };
  using namespace literals;
  CHECK(reference("dgx-h100") == ReferenceLatencies{1_us, 1'500_ns});  // NVLink and InfiniBand
  CHECK(reference("aws-p5") == ReferenceLatencies{1_us, 15_us});       // EFA
  CHECK(reference("rtx-pro-6000-pcie") == ReferenceLatencies{});       // no latencies to compare with
}

TEST_CASE("topology: one node needs no network", "[io][network]") {
  const auto machine = [](const std::string& nodes) {
    return read_topology_text(
        R"({"description": "a host", "gpu": "l40s",)" + nodes +
            R"("node": {"gpus": 8, "link": "pcie", "pcie": "26 GB/s", "cpu": "amd"}, "sources": "assumed"})",
        "box.json");
  };
  const Result<Cluster> one = machine(R"("nodes": 1,)");
  REQUIRE(one.has_value());
  CHECK(one->node.nics == 0);
  CHECK(one->fabric == FabricKind::none);
  CHECK(*read_topology_text(to_json(*one, "a host"), "box.json") == *one);
  const Result<Cluster> many = machine("");
  REQUIRE_FALSE(many.has_value());
  CHECK(to_string(many.error()) ==
        "box.json:1: node.nics: is missing (a machine with \"nodes\": 1 needs none)\n"
        "box.json:1: fabric: is missing (a machine with \"nodes\": 1 needs none)");
}

}  // namespace
}  // namespace tracecast
