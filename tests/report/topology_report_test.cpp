#include "sim/report/topology_report.hpp"

#include <algorithm>
#include <array>
#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/network/fabrics.hpp"

namespace tracecast {
namespace {

using namespace literals;

const TopologyPart& part(const std::vector<TopologyPart>& parts, const std::string& name) {
  const auto found = std::find_if(parts.begin(), parts.end(), [&](const TopologyPart& p) { return p.name == name; });
  INFO(name);
  REQUIRE(found != parts.end());
  return *found;
}

std::vector<std::string> sentences(const Cluster& cluster) {
  std::vector<std::string> list;
  for (const TopologyFinding& finding : check_cluster(cluster)) list.push_back(finding.sentence);
  return list;
}

TEST_CASE("A report counts parts and cables", "[report][network]") {
  Cluster cluster = dgx_h100(8 * 64);
  cluster.shape.switch_ports = 64;
  cluster.node.nvswitches = 4;
  const TopologyReport report = describe(Topology(cluster));
  CHECK(report.nodes == 64);
  CHECK(part(report.vertices, "GPU").count == 512);
  CHECK(part(report.vertices, "NVSwitch").count == 256);
  CHECK(part(report.vertices, "leaf").count == 16);
  CHECK(part(report.vertices, "spine").count == 8);
  CHECK(part(report.links, "NIC - leaf").count == 512);
  CHECK(part(report.links, "NIC - leaf").each == 50_GBps);
  CHECK(part(report.links, "leaf - spine").count == 512);
  CHECK(part(report.links, "leaf - spine").total == Bandwidth{512 * 50'000'000'000});
  CHECK_FALSE(report.has_errors());
  std::int64_t ranks = 1;
  for (const TopologyDistance& distance : report.distances) ranks += distance.ranks;
  CHECK(ranks == 512);
  REQUIRE(report.distances.size() == 3);
  CHECK(report.distances[0].ranks == 7);
  CHECK(report.distances[1].ranks == 31 * 8);  // over NVLink to the rail, then one leaf
  CHECK(report.distances[2].switches == 3);
}

TEST_CASE("What is impossible or doubtful is said", "[error][report][network]") {
  Cluster cluster = dgx_h100(64);
  CHECK(sentences(cluster).empty());
  SECTION("two NICs of a GPU above its PCIe") {
    cluster.node.nics = 16;
    cluster.node.nic_rate = 212_Gbps;  // together exactly PCIe
    CHECK(sentences(cluster).empty());
    cluster.node.nic_rate = 240_Gbps;
    CHECK(sentences(cluster) ==
          std::vector<std::string>{
              "2 NICs of a GPU take 60.0 GB/s, more than PCIe's 53.0 GB/s: forecasts count the NICs' "
              "rate (if their traffic passes this PCIe, give a nic_rate of 26.5 GB/s)"});
  }
  SECTION("a NIC above PCIe") {
    cluster.node.nic_rate = 800_Gbps;
    CHECK(sentences(cluster) ==
          std::vector<std::string>{
              "a NIC of a GPU takes 100 GB/s, more than PCIe's 53.0 GB/s: forecasts count the NICs' rate "
              "(if their traffic passes this PCIe, give a nic_rate of 53.0 GB/s)"});
  }
  SECTION("bits taken for bytes") {
    cluster.node.nic_rate = 400_GBps;
    CHECK(sentences(cluster).back() == "no NIC has 400 GB/s in one direction (the rate of several NICs, or bits?)");
    CHECK(describe(Topology(cluster)).has_errors());
  }
  SECTION("both directions together") {
    cluster.node.gpu_link = {3'600'000'000'000};
    CHECK(sentences(cluster).front().starts_with("no GPU has links of "));
  }
  SECTION("no network") {
    cluster.node.nics = 0;
    CHECK(sentences(cluster) == std::vector<std::string>{"8 nodes, and no network between them"});
  }
  SECTION("more nodes than there are") {
    cluster.max_nodes = 4;
    CHECK(sentences(cluster) == std::vector<std::string>{"8 nodes, but the machine has 4"});
  }
  SECTION("units that do not nest") {
    cluster.tiers[1].nodes = 40;
    CHECK(sentences(cluster) ==
          std::vector<std::string>{"a unit of tier 'spine' has 40 nodes, not a multiple of the 32 of tier 'leaf'"});
  }
  SECTION("too few ports") {
    cluster.shape.switch_ports = 36;
    CHECK(sentences(cluster) ==
          std::vector<std::string>{"a leaf needs 64 ports, its switches have 36: modelled as one larger switch"});
  }
  SECTION("rails that nothing joins") {
    cluster.tiers = {{"leaf", 0, 1, 0_ns}};
    cluster.node.link = IntraLink::pcie;
    const TopologyReport report = describe(Topology(cluster));
    CHECK(report.has_errors());
    CHECK(report.findings.back().sentence ==
          "ranks 0 and 9 are not connected: no path between node0/gpu0 and node1/gpu1");
  }
}

TEST_CASE("The path between two ranks", "[report][network]") {
  Cluster cluster = dgx_h100(8 * 64);
  cluster.node.nic_latency = 1500_ns;
  const TopologyPath path = path_between(Topology(cluster), 0, 8 * 40);
  CHECK(path.switches == 3);
  CHECK(path.latency == 2_us);
  CHECK(path.lone_flow == 50_GBps);
  REQUIRE(path.stops.size() == 8);
  CHECK(path.stops[3].vertex == "spine0.0");
  CHECK(to_terminal(path, {}).find("-> node40/gpu0") != std::string::npos);
}

TEST_CASE("A report says if a job leaves GPUs of its nodes idle: parts and links are those of whole nodes",
          "[report][network]") {
  const auto first_line = [](int ranks) {
    const std::string page = to_terminal(describe(Topology(dgx_h100(ranks))), {});
    return page.substr(0, page.find(','));
  };
  CHECK(first_line(4) == "dgx-h100: 4 of the 8 GPUs (h100) on 1 node");
  CHECK(first_line(1) == "dgx-h100: 1 of the 8 GPUs (h100) on 1 node");
  CHECK(first_line(8) == "dgx-h100: 8 GPUs (h100) on 1 node");
  CHECK(first_line(15) == "dgx-h100: 15 of the 16 GPUs (h100) on 2 nodes");
}

/// One of each fabric.
std::vector<Cluster> fabrics() {
  return {three_tiers(FabricKind::rail_optimized, 40), three_tiers(FabricKind::fat_tree, 40), frontier_like(300),
          torus(60, {5, 4, 3}), dgx_h100(8)};
}

TEST_CASE("Reports are JSON, pictures are closed documents", "[report][network]") {
  for (const Cluster& cluster : fabrics()) {
    const Topology topology(cluster);
    const TopologyReport report = describe(topology);
    const auto json = nlohmann::json::parse(to_json(report, path_between(topology, 0, 1)));
    CHECK(json["ranks"] == cluster.world_size);
    CHECK(json["path"]["connected"] == true);
    CHECK(json["bisection_bytes_per_second"].get<std::int64_t>() > 0);
    const std::string svg = topology_svg(topology, report);
    CHECK(svg.starts_with("<svg "));
    CHECK(svg.ends_with("</svg>\n"));
    CHECK(svg.find("nan") == std::string::npos);
    CHECK(std::count(svg.begin(), svg.end(), '<') == std::count(svg.begin(), svg.end(), '>'));
    CHECK(svg.size() < 200'000);
  }
}

/// Left, top, width, height.
using Box = std::array<double, 4>;

/// The numbers behind `names` in an element, in this order.
template <std::size_t kCount>
std::array<double, kCount> numbers_of(const std::string& svg, std::size_t at,
                                      const std::array<const char*, kCount>& names) {
  std::array<double, kCount> numbers{};
  for (std::size_t i = 0; i < kCount; ++i) {
    const std::size_t begin = svg.find(std::string(" ") + names[i] + "=\"", at) + std::string(names[i]).size() + 3;
    numbers[i] = std::stod(svg.substr(begin, svg.find('"', begin) - begin));
  }
  return numbers;
}

TEST_CASE("Boxes of a topology's picture do not overlap, no other text begins in one, switches are above node 0",
          "[report][network]") {
  for (const Cluster& cluster : fabrics()) {
    const Topology topology(cluster);
    const std::string svg = topology_svg(topology, describe(topology));
    std::vector<Box> boxes;
    std::vector<std::array<double, 2>> texts;
    const auto [top] = numbers_of<1>(svg, svg.rfind("<rect ", svg.find("class=\"panel\"")), {"y"});
    for (std::size_t at = svg.find("<text "); at != std::string::npos; at = svg.find("<text ", at + 1)) {
      const std::size_t group = svg.rfind("class=\"box\"", at);
      const bool label = group != std::string::npos && svg.find("</g>", group) > at;
      if (!label) {
        texts.push_back(numbers_of<2>(svg, at, {"x", "y"}));
        continue;
      }
      const std::size_t rectangle = svg.find("<rect ", group);
      boxes.push_back(numbers_of<4>(svg, rectangle, {"x", "y", "width", "height"}));
      const std::string title = svg.substr(group, rectangle - group);
      if (title.find("switches<") != std::string::npos || title.find("router") != std::string::npos)
        CHECK(boxes.back()[1] + boxes.back()[3] < top);
    }
    INFO(cluster.name << ", " << boxes.size() << " boxes, " << texts.size() << " texts");
    REQUIRE(boxes.size() > 8);
    REQUIRE(texts.size() > 4);
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      const auto [x, y, width, height] = boxes[i];
      for (std::size_t k = 0; k < i; ++k) {
        const auto [x2, y2, width2, height2] = boxes[k];
        CHECK((x + width <= x2 || x2 + width2 <= x || y + height <= y2 || y2 + height2 <= y));
      }
      for (const auto& [left, base] : texts)
        CHECK_FALSE((left >= x && left <= x + width && base >= y && base <= y + height));
    }
  }
}

TEST_CASE("A torus is drawn with as many routers as fit, up to four rows of ten", "[report][network]") {
  const auto routers = [](const Cluster& cluster) {
    const Topology topology(cluster);
    const std::string svg = topology_svg(topology, describe(topology));
    int count = 0;
    for (auto at = svg.find(">router<"); at != std::string::npos; at = svg.find(">router<", at + 1)) ++count;
    return count;
  };
  CHECK(routers(torus(24, {2, 4, 3})) == 4 * 4);  // rows: the longest dimension but the last
  CHECK(routers(torus(24, {2, 3, 4})) == 3 * 4);
  CHECK(routers(torus(24, {24})) == 10);
  CHECK(routers(torus(288, {12, 24})) == 4 * 10);
}

}  // namespace
}  // namespace tracecast

TEST_CASE("A topology's picture counts one node as one", "[report][network]") {
  const Topology topology(dgx_h100(8));
  CHECK(topology_svg(topology, describe(topology)).find("8 GPUs on 1 node, fabric") != std::string::npos);
}
