/// NCCL's graph XML: <graphs> of the <channel>s that its search found in one node.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "sim/base/quantity_text.hpp"
#include "sim/base/words.hpp"
#include "sim/import/gpu_facts.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/possible_topology.hpp"
#include "sim/import/recognise.hpp"
#include "sim/import/xml_lines.hpp"

namespace tracecast {
namespace {

/// What the graphs of NCCL's search have in common: the GPUs and NICs of one node, and what its best graph moves.
struct NcclGraphs {
  std::set<std::string> gpus;
  std::set<std::string> nets;
  std::int64_t best_inside = 0;   ///< bytes/s of all channels of a graph
  std::int64_t best_outside = 0;  ///< likewise, through NICs
  bool nvlink = false;
  int channels = 0;
  std::vector<std::pair<std::string, std::int64_t>> found;
};

/// GB/s of one channel.
Result<double> channel_rate(const XmlFile& xml, const pugi::xml_node& graph, const char* attribute) {
  const std::string value = graph.attribute(attribute).value();
  const auto number = parse_number<double>(value);
  if (!number || *number < 0 || *number > 10'000)
    return xml.fail_at(graph, fmt::format("graph.{}", attribute), value, "must be GB/s from 0 to 10000");
  return *number;
}

Result<void> add_graph(NcclGraphs& graphs, const XmlFile& xml, const pugi::xml_node& graph) {
  const auto count = xml.integer(graph, "nchannels", 0, 0, 1024);
  if (!count) return tl::unexpected(count.error());
  const Result<double> inside = channel_rate(xml, graph, "speedintra");
  if (!inside) return tl::unexpected(inside.error());
  const Result<double> outside = channel_rate(xml, graph, "speedinter");
  if (!outside) return tl::unexpected(outside.error());
  const auto rate_of_all = [&](double gigabytes) {
    return static_cast<std::int64_t>(static_cast<double>(*count) * gigabytes * 1e9);
  };
  graphs.best_inside = std::max(graphs.best_inside, rate_of_all(*inside));
  graphs.best_outside = std::max(graphs.best_outside, rate_of_all(*outside));
  graphs.nvlink = graphs.nvlink || std::string_view(graph.attribute("typeintra").value()) == "NVL";
  for (const pugi::xml_node channel : graph.children("channel")) {
    ++graphs.channels;
    for (const pugi::xml_node gpu : channel.children("gpu")) graphs.gpus.insert(gpu.attribute("dev").value());
    for (const pugi::xml_node net : channel.children("net")) graphs.nets.insert(net.attribute("dev").value());
  }
  graphs.found.emplace_back(fmt::format("channels of graph {}", graph.attribute("id").value()), *count);
  return {};
}

NodeSpec node_of(const NcclGraphs& graphs) {
  NodeSpec node;
  node.gpus = node.gpus_per_host = static_cast<int>(graphs.gpus.size());
  node.link = node.gpus == 1 ? IntraLink::none : graphs.nvlink ? IntraLink::nvswitch : IntraLink::pcie;
  node.gpu_link = {graphs.best_inside};
  node.pcie = graphs.nvlink ? kGpuFacts[0].pcie : Bandwidth{graphs.best_inside};
  node.link_latency = kAssumedLinkLatency;
  node.nics = static_cast<int>(graphs.nets.size());
  if (node.nics > 0) node.nic_rate = {std::max<std::int64_t>(1, graphs.best_outside / node.nics)};
  if (node.nics > 0) node.nic_latency = kAssumedNicLatency;
  node.cpu = CpuKind::intel;
  return node;
}

Result<ImportedTopology> read_nccl_graph(std::string_view text, const std::string& file) {
  const Result<XmlFile> xml = XmlFile::parse(text, file, "graphs");
  if (!xml) return tl::unexpected(xml.error());
  NcclGraphs graphs;
  for (const pugi::xml_node graph : xml->root().children("graph"))
    if (const Result<void> added = add_graph(graphs, *xml, graph); !added) return tl::unexpected(added.error());
  if (graphs.gpus.empty()) return xml->fail_at(xml->root(), "", "", "has no channel with a GPU");
  if (graphs.best_inside == 0) return xml->fail_at(xml->root(), "", "", "has no graph with channels and a rate");

  ImportedTopology imported;
  imported.format = "NCCL graph XML";
  Cluster& cluster = imported.cluster;
  cluster.node = node_of(graphs);
  cluster.gpu = std::string(kGpuFacts[0].name);
  const bool has_nics = cluster.node.nics > 0;
  cluster.fabric = has_nics ? FabricKind::fat_tree : FabricKind::none;
  if (has_nics) cluster.tiers = {{"fabric", 0, 1, {}}};
  if (!has_nics) cluster.max_nodes = 1;
  imported.found = std::move(graphs.found);
  imported.found.emplace_back("channels", graphs.channels);
  imported.notes = {"rates are those of the channels that NCCL's search found, not of the hardware",
                    fmt::format("the file names neither GPU nor CPU: taken as {} and intel", kGpuFacts[0].name)};
  if (graphs.nvlink)
    imported.notes.push_back(fmt::format("the file has no PCIe rate: taken as {}", to_text(cluster.node.pcie)));
  return possible_in(file)(std::move(imported));
}

bool is_nccl_graph(std::string_view content, std::string_view) { return has_root(content, "graphs"); }

}  // namespace

const Importer kNcclGraph{"nccl-graph", "NCCL's graph XML (NCCL_GRAPH_DUMP_FILE): channels in one node",
                          "topology_import.md", is_nccl_graph, read_nccl_graph};

}  // namespace tracecast
