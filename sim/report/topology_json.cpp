#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"
#include "sim/report/topology_report.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

Json parts_json(const std::vector<TopologyPart>& parts, bool links) {
  Json list = Json::array();
  for (const TopologyPart& part : parts) {
    Json entry = {{"name", part.name}, {"count", part.count}};
    if (links) {
      entry["bytes_per_second_each"] = part.each.bytes_per_second;
      entry["bytes_per_second"] = part.total.bytes_per_second;
      entry["latency_us"] = microseconds(part.latency);
    }
    list.push_back(entry);
  }
  return list;
}

Json path_json(const TopologyPath& path) {
  Json stops = Json::array();
  for (const TopologyPath::Stop& stop : path.stops)
    stops.push_back({{"to", stop.vertex},
                     {"bytes_per_second", stop.rate.bytes_per_second},
                     {"share", stop.share},
                     {"latency_us", microseconds(stop.latency)}});
  return {{"from", path.from},
          {"to", path.to},
          {"connected", path.connected},
          {"switches", path.switches},
          {"latency_us", microseconds(path.latency)},
          {"bytes_per_second", path.lone_flow.bytes_per_second},
          {"links", stops}};
}

}  // namespace

std::string to_json(const TopologyReport& report, const std::optional<TopologyPath>& path) {
  Json distances = Json::array();
  for (const TopologyDistance& d : report.distances)
    distances.push_back({{"switches", d.switches},
                         {"ranks", d.ranks},
                         {"latency_us", microseconds(d.latency)},
                         {"bytes_per_second", d.lone_flow.bytes_per_second}});
  Json findings = Json::array();
  for (const TopologyFinding& finding : report.findings)
    findings.push_back({{"error", finding.is_error}, {"sentence", finding.sentence}});
  Json out = {{"topology", report.name},
              {"gpu", report.gpu},
              {"fabric", report.fabric},
              {"ranks", report.ranks},
              {"nodes", report.nodes},
              {"vertices", parts_json(report.vertices, false)},
              {"links", parts_json(report.links, true)},
              {"distances_from_rank_0", distances},
              {"bisection_bytes_per_second", report.bisection.bytes_per_second},
              {"findings", findings}};
  if (!report.cut.empty()) out["bisection_cut"] = parts_json(report.cut, true);
  if (report.broken)
    out["broken"] = {{"parts", report.broken->names},
                     {"whole_bisection_bytes_per_second", report.broken->whole_bisection.bytes_per_second},
                     {"cut_off_nodes", report.broken->cut_off}};
  if (path) out["path"] = path_json(*path);
  return json_file(out);
}

}  // namespace tracecast
