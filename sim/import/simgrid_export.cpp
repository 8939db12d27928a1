#include "sim/import/simgrid_export.hpp"

#include <map>

#include <fmt/format.h>

#include "sim/base/markup.hpp"
#include "sim/io/files.hpp"

namespace tracecast {
namespace {

std::string vertices(const Topology& topology) {
  std::string text;
  for (int id = 0; id < topology.vertex_count(); ++id) {
    const bool gpu = topology.vertex(id).kind == VertexKind::gpu;
    text += gpu ? fmt::format("    <host id=\"{}\" speed=\"1Gf\"/>\n", markup_text(topology.name(id)))
                : fmt::format("    <router id=\"{}\"/>\n", markup_text(topology.name(id)));
  }
  return text;
}

}  // namespace

std::string to_simgrid(const Topology& topology) {
  std::string links;
  std::string routes;
  std::map<std::pair<int, int>, int> seen;  // number of links between two vertices so far
  for (int id = 0; id < topology.link_count(); ++id) {
    const TopologyLink link = topology.link(id);
    if (link.from > link.to || link.capacity.bytes_per_second == 0) continue;
    if (seen[{link.from, link.to}]++ > 0) continue;  // a second cable between two routers: Dijkstra takes one
    links += fmt::format("    <link id=\"l{}\" bandwidth=\"{}Bps\" latency=\"{}ps\" sharing_policy=\"SPLITDUPLEX\"/>\n",
                         id, link.capacity.bytes_per_second, link.latency.picoseconds);
    routes += fmt::format(
        "    <route src=\"{}\" dst=\"{}\" symmetrical=\"NO\"><link_ctn id=\"l{}\" direction=\"UP\"/></route>\n"
        "    <route src=\"{}\" dst=\"{}\" symmetrical=\"NO\"><link_ctn id=\"l{}\" direction=\"DOWN\"/></route>\n",
        markup_text(topology.name(link.from)), markup_text(topology.name(link.to)), id,
        markup_text(topology.name(link.to)), markup_text(topology.name(link.from)), id);
  }
  const Cluster& cluster = topology.cluster();
  const std::string json = to_json(cluster, cluster.name + " as it was exported");
  return fmt::format(
      "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<platform "
      "version=\"4.1\">\n"
      "  <zone id=\"cluster\" routing=\"Dijkstra\">\n    <prop id=\"{}\" value=\"{}\"/>\n{}{}{}  "
      "</zone>\n</platform>\n",
      kSimgridProperty, markup_text(json), vertices(topology), links, routes);
}

}  // namespace tracecast
