#include "sim/report/topology_report.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/quantity_text.hpp"
#include "sim/base/words.hpp"
#include "sim/network/bisection.hpp"
#include "sim/network/routing.hpp"

namespace tracecast {
namespace {

const char* title_of(VertexKind kind) {
  constexpr const char* kTitles[] = {"GPU", "NIC", "PCIe switch", "host", "NVSwitch", "switch"};
  return kTitles[static_cast<int>(kind)];
}

std::string tier_name(const Topology& topology, int tier) {
  if (std::holds_alternative<DragonflyFabric>(topology.fabric()) ||
      std::holds_alternative<TorusFabric>(topology.fabric()))
    return "router";
  const auto& tiers = topology.cluster().tiers;
  return static_cast<std::size_t>(tier) < tiers.size() ? tiers[static_cast<std::size_t>(tier)].name : "switch";
}

std::string part_name(const Topology& topology, const Vertex& vertex) {
  if (vertex.kind != VertexKind::fabric_switch) return title_of(vertex.kind);
  return tier_name(topology, vertex.fabric_switch.tier);
}

std::string link_name(const Topology& topology, const TopologyLink& link) {
  const std::string from = part_name(topology, topology.vertex(link.from));
  const std::string to = part_name(topology, topology.vertex(link.to));
  if (link.kind == LinkKind::fabric && std::holds_alternative<DragonflyFabric>(topology.fabric()))
    return link.tier == 0 ? "router - router of its group" : "group - group";
  return from + " - " + to;
}

/// Parts by name, in order of first appearance.
class Parts {
 public:
  TopologyPart& operator[](const std::string& name) {
    const auto [place, is_new] = places_.insert({name, parts_.size()});
    if (is_new) parts_.push_back({name, 0, {}, {}, {}});
    return parts_[place->second];
  }
  std::vector<TopologyPart> take() { return std::move(parts_); }

 private:
  std::vector<TopologyPart> parts_;
  std::map<std::string, std::size_t> places_;
};

std::vector<TopologyPart> count_vertices(const Topology& topology) {
  Parts parts;
  for (int id = 0; id < topology.node().vertices(); ++id) {
    const Vertex vertex = topology.vertex(id);
    parts[part_name(topology, vertex)].count += static_cast<std::int64_t>(vertex.devices) * topology.nodes();
  }
  for (int id = topology.first_switch(); id < topology.vertex_count(); ++id) {
    const Vertex vertex = topology.vertex(id);
    parts[part_name(topology, vertex)].count += vertex.devices;
  }
  return parts.take();
}

void count_link(const Topology& topology, int id, std::int64_t times, Parts& parts) {
  const TopologyLink link = topology.link(id);
  if (link.from > link.to) return;  // the reverse direction of a counted link
  TopologyPart& part = parts[link_name(topology, link)];
  part.count += link.cables * times;
  part.each = {link.capacity.bytes_per_second / link.cables};
  part.total.bytes_per_second += link.capacity.bytes_per_second * times;
  part.latency = link.latency;
}

/// Links of the first node represent those of all nodes. A slow link appears in the findings, not here.
std::vector<TopologyPart> count_links(const Topology& topology) {
  Parts parts;
  for (int id = 0; id < topology.node().links(); ++id) count_link(topology, id, topology.nodes(), parts);
  for (int id = topology.first_fabric_link(); id < topology.link_count(); ++id) count_link(topology, id, 1, parts);
  return parts.take();
}

std::vector<TopologyDistance> distances_of(const Topology& topology, std::vector<TopologyFinding>& findings) {
  const Routing routing(topology);
  std::map<int, TopologyDistance> by_switches;
  int apart = -1;
  for (int rank = 1; rank < topology.cluster().world_size; ++rank) {
    const FlowRoute route = routing.route(0, rank);
    if (!route.connected) {
      if (apart < 0) apart = rank;
      continue;
    }
    TopologyDistance& distance = by_switches[route.switches];
    const Bandwidth rate = bottleneck(topology, route);
    distance.lone_flow = distance.ranks == 0 ? rate : std::min(distance.lone_flow, rate);
    distance.latency = std::max(distance.latency, route.latency);
    distance.switches = route.switches;
    ++distance.ranks;
  }
  if (apart >= 0)
    findings.push_back({true, fmt::format("ranks 0 and {} are not connected: no path between {} and {}", apart,
                                          topology.name(topology.gpu(0)), topology.name(topology.gpu(apart)))});
  std::vector<TopologyDistance> distances;
  for (const auto& [switches, distance] : by_switches) distances.push_back(distance);
  return distances;
}

/// The bisection, and the links that limit it by level.
void add_bisection(TopologyReport& report, const Topology& topology, const BrokenVertices& broken) {
  const Bisection bisection = bisect(topology, broken);
  report.bisection = bisection.rate;
  const int gpus = topology.cluster().node.gpus;
  report.half_gpus = topology.nodes() > 1 ? topology.nodes() / 2 * gpus : gpus / 2;
  Parts parts;
  for (const int id : bisection.cut) {
    const TopologyLink link = topology.link(id);
    TopologyPart& part = parts[link_name(topology, link)];
    part.count += link.cables;
    part.each = {link.capacity.bytes_per_second / link.cables};
    part.total.bytes_per_second += link.capacity.bytes_per_second;
  }
  report.cut = parts.take();
}

std::optional<int> switch_named(const Topology& topology, const std::string& name) {
  for (int id = topology.first_switch(); id < topology.vertex_count(); ++id)
    if (topology.name(id) == name) return id;
  return std::nullopt;
}

/// "64 leaf - spine of 50 GB/s, 8 …".
std::string cut_text(const TopologyReport& report) {
  std::vector<std::string> parts;
  for (const TopologyPart& part : report.cut)
    parts.push_back(fmt::format("{} {} of {}", grouped(part.count), part.name, to_text(part.each)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// "without spine 0 #4 it is 12.5 % less; all nodes are connected".
std::string broken_text(const TopologyReport& report) {
  const TopologyReport::Broken& broken = *report.broken;
  const double change = 1 - static_cast<double>(report.bisection.bytes_per_second) /
                                static_cast<double>(std::max<std::int64_t>(1, broken.whole_bisection.bytes_per_second));
  constexpr std::size_t kShown = 8;
  const std::size_t count = broken.cut_off.size();
  const std::vector<std::string> shown(broken.cut_off.begin(),
                                       broken.cut_off.begin() + static_cast<std::ptrdiff_t>(std::min(count, kShown)));
  const std::string reach = count == 0 ? "all nodes are connected"
                                       : fmt::format("{} node{} cut off: {}{}", count, count == 1 ? " is" : "s are",
                                                     fmt::join(shown, " "), count > kShown ? " …" : "");
  return fmt::format("without {}: {} less than the {} of the whole machine; {}", fmt::join(broken.names, ", "),
                     percent(change), to_text(broken.whole_bisection), reach);
}

}  // namespace

std::string grouped(std::int64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    if (digits[at - 1] != '-') digits.insert(at, ",");
  }
  return digits;
}

bool TopologyReport::has_errors() const {
  return std::any_of(findings.begin(), findings.end(), [](const TopologyFinding& finding) { return finding.is_error; });
}

TopologyReport describe(const Topology& topology) {
  const Cluster& cluster = topology.cluster();
  TopologyReport report;
  report.name = cluster.name;
  report.gpu = cluster.gpu;
  report.fabric = to_string(cluster.fabric);
  report.ranks = cluster.world_size;
  report.nodes = topology.nodes();
  report.gpus = topology.nodes() * cluster.node.gpus;
  report.vertices = count_vertices(topology);
  report.links = count_links(topology);
  report.findings = check_cluster(cluster);
  report.distances = distances_of(topology, report.findings);
  if (topology.nodes() > 1 || cluster.node.gpus > 1) add_bisection(report, topology, {});
  return report;
}

Result<TopologyReport> describe(const Topology& topology, const std::vector<std::string>& broken) {
  TopologyReport report = describe(topology);
  if (broken.empty()) return report;
  if (topology.nodes() == 1) return fail_key("--broken", broken.front(), "needs a machine of several nodes");
  BrokenVertices vertices;
  for (const std::string& name : broken) {
    const std::optional<int> vertex = switch_named(topology, name);
    if (!vertex)
      return fail_key("--broken", name,
                      fmt::format("is not a switch of the fabric (the first is '{}', the last '{}')",
                                  topology.name(topology.first_switch()), topology.name(topology.vertex_count() - 1)));
    vertices.insert(*vertex);
  }
  report.broken = {broken, report.bisection, {}};
  add_bisection(report, topology, vertices);
  for (const int node : cut_off_nodes(topology, vertices))
    report.broken->cut_off.push_back(fmt::format("node{}", node));
  return report;
}

TopologyPath path_between(const Topology& topology, int from, int to, RoutingOptions options) {
  const FlowRoute route = Routing(topology, options).route(from, to);
  TopologyPath path{from, to, route.connected, route.switches, route.latency, bottleneck(topology, route), {}};
  for (const LinkLoad& load : route.loads) {
    const TopologyLink link = topology.link(load.link);
    const double share = static_cast<double>(load.weight) / static_cast<double>(kWholeFlow);
    path.stops.push_back({topology.name(link.to), link.capacity, share, link.latency});
  }
  return path;
}

namespace {

void add_finding(std::vector<TopologyFinding>& findings, bool is_error, std::string sentence) {
  findings.push_back({is_error, std::move(sentence)});
}

/// Forecasts do not lead NIC traffic over `node.pcie`, which is what copies between host and GPU reach: some NICs have a switch of
/// their own to the GPU (ConnectX-8 of B300).
void check_pcie(const NodeSpec& node, std::vector<TopologyFinding>& findings) {
  const int per_gpu = std::max(1, node.nics / node.gpus_per_host);
  const Bandwidth beside{node.nic_rate.bytes_per_second * per_gpu};
  if (node.nics == 0 || beside <= node.pcie) return;
  add_finding(
      findings, false,
      fmt::format(
          "{} {}, more than PCIe's {}: forecasts count the NICs' rate (if their traffic passes this PCIe, give a "
          "nic_rate of {})",
          per_gpu == 1 ? "a NIC of a GPU takes" : fmt::format("{} NICs of a GPU take", per_gpu), to_text(beside),
          to_text(node.pcie), to_text(Bandwidth{node.pcie.bytes_per_second / per_gpu})));
}

void check_node(const NodeSpec& node, std::vector<TopologyFinding>& findings) {
  check_pcie(node, findings);
  const bool own_link = node.link != IntraLink::pcie && node.link != IntraLink::none;
  if (own_link && node.gpus > 1 && node.gpu_link < node.pcie)
    add_finding(
        findings, false,
        fmt::format("links between GPUs of {} are slower than PCIe of {}", to_text(node.gpu_link), to_text(node.pcie)));
}

void check_tiers(const Cluster& cluster, std::vector<TopologyFinding>& findings) {
  for (std::size_t i = 1; i < cluster.tiers.size(); ++i) {
    const FabricTier& tier = cluster.tiers[i];
    const FabricTier& below = cluster.tiers[i - 1];
    if (tier.nodes > 0 && tier.nodes % below.nodes != 0)
      add_finding(findings, false,
                  fmt::format("a unit of tier '{}' has {} nodes, not a multiple of the {} of tier '{}'", tier.name,
                              tier.nodes, below.nodes, below.name));
  }
  if (cluster.shape.switch_ports == 0 || cluster.tiers.size() < 2) return;
  const int nics = cluster.node.nics * (cluster.node.gpus / cluster.node.gpus_per_host);
  const int rails = cluster.fabric == FabricKind::rail_optimized ? std::max(1, cluster.node.nics) : 1;
  const double down = static_cast<double>(cluster.tiers[0].nodes) * nics / rails;
  const double ports = down * (1 + 1 / cluster.tiers[0].oversubscription);
  if (ports > cluster.shape.switch_ports + 0.5)
    add_finding(findings, false,
                fmt::format("a {} needs {:.0f} ports, its switches have {}: modelled as one larger switch",
                            cluster.tiers[0].name, ports, cluster.shape.switch_ports));
}

}  // namespace

std::vector<TopologyFinding> check_cluster(const Cluster& cluster) {
  std::vector<TopologyFinding> findings;
  check_node(cluster.node, findings);
  check_tiers(cluster, findings);
  for (const ImpossibleValue& value : impossible_values(cluster)) add_finding(findings, true, value.message);
  if (cluster.max_nodes > 0 && cluster.nodes() > cluster.max_nodes)
    add_finding(findings, true, fmt::format("{} nodes, but the machine has {}", cluster.nodes(), cluster.max_nodes));
  return findings;
}

namespace {

bool is_narrow(const TextStyle& style) { return style.width < 78; }

TextTable table_for(const TextStyle& style) {
  return TextTable(is_narrow(style) ? std::vector{-20, 8, 9, 9, 8} : std::vector{-26, 12, 12, 12, 10});
}

std::string vertex_lines(const TopologyReport& report, const TextStyle& style) {
  const TextTable table = table_for(style);
  std::string text;
  for (const TopologyPart& part : report.vertices) text += table.row(part.name, grouped(part.count));
  return text;
}

std::string link_lines(const TopologyReport& report, const TextStyle& style) {
  const TextTable table = table_for(style);
  std::string text = table.row("", "cables", "each", "together", "latency");
  for (const TopologyPart& part : report.links)
    text += table.row(part.name, grouped(part.count), to_text(part.each), to_text(part.total),
                      part.latency.picoseconds == 0 ? "" : to_text(part.latency));
  return text;
}

std::string distance_lines(const TopologyReport& report, const TextStyle& style) {
  const TextTable table = table_for(style);
  std::string text =
      table.row(is_narrow(style) ? "switches" : "switches of the fabric", "ranks", "latency", "lone flow");
  std::int64_t fastest = 1;
  for (const TopologyDistance& d : report.distances) fastest = std::max(fastest, d.lone_flow.bytes_per_second);
  for (const TopologyDistance& d : report.distances) {
    const double share = static_cast<double>(d.lone_flow.bytes_per_second) / static_cast<double>(fastest);
    text += table.row(d.switches == 0 ? "0 (same node)" : std::to_string(d.switches), grouped(d.ranks),
                      to_text(d.latency), to_text(d.lone_flow), " " + bar(share, is_narrow(style) ? 7 : 11, style));
  }
  return text;
}

}  // namespace

std::string to_terminal(const TopologyReport& report, const TextStyle& style) {
  const std::string of_all = report.ranks < report.gpus ? fmt::format(" of the {}", grouped(report.gpus)) : "";
  std::string text = fmt::format(
      "{}: {}{} GPU{} ({}) on {} node{}, fabric {}\n\n", paint(report.name, Colour::bold, style), grouped(report.ranks),
      of_all, plural(report.gpus), report.gpu, grouped(report.nodes), plural(report.nodes), report.fabric);
  text += heading("Parts", style) + "\n" + vertex_lines(report, style) + "\n";
  text += heading("Links, one direction", style) + "\n" + link_lines(report, style) + "\n";
  if (!report.distances.empty())
    text += heading("Distances from rank 0", style) + "\n" + distance_lines(report, style) + "\n";
  if (report.bisection.bytes_per_second > 0)
    text += paragraph(
        "",
        fmt::format("Bisection bandwidth {} in one direction, {} per GPU of one half", to_text(report.bisection),
                    to_text(Bandwidth{report.bisection.bytes_per_second / std::max(1, report.half_gpus)})),
        style);
  if (!report.cut.empty()) text += paragraph("  ", "limited by " + cut_text(report), style);
  if (report.broken) text += paragraph("  ", broken_text(report), style);
  for (const TopologyFinding& finding : report.findings)
    text += paragraph(finding.is_error ? "error: " : "warning: ", finding.sentence, style);
  return text;
}

std::string to_terminal(const TopologyPath& path, const TextStyle& style) {
  std::string text = heading(fmt::format("From rank {} to rank {}", path.from, path.to), style) + "\n";
  if (!path.connected) return text + "  not connected\n";
  for (const TopologyPath::Stop& stop : path.stops)
    text += fmt::format("  -> {:<26} {:>12} {:>10}{}\n", stop.vertex, to_text(stop.rate),
                        stop.latency.picoseconds == 0 ? "" : to_text(stop.latency),
                        stop.share < 1 ? fmt::format("   {:.3g} of the flow", stop.share) : "");
  return text + fmt::format("  {} in all, {} switches of the fabric, a lone flow gets {}\n", to_text(path.latency),
                            path.switches, to_text(path.lone_flow));
}

}  // namespace tracecast
