#include <nlohmann/json.hpp>

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

Json way_json(const TopologyWay& way) {
  Json stops = Json::array();
  for (const TopologyWay::Stop& stop : way.stops)
    stops.push_back({{"to", stop.vertex},
                     {"bytes_per_second", stop.rate.bytes_per_second},
                     {"share", stop.share},
                     {"latency_us", microseconds(stop.latency)}});
  return {{"from", way.from},
          {"to", way.to},
          {"connected", way.connected},
          {"switches", way.switches},
          {"latency_us", microseconds(way.latency)},
          {"bytes_per_second", way.lone_flow.bytes_per_second},
          {"links", stops}};
}

}  // namespace

std::string to_json(const TopologyReport& report, const std::optional<TopologyWay>& way) {
  Json distances = Json::array();
  for (const TopologyDistance& d : report.distances)
    distances.push_back({{"switches", d.switches},
                         {"ranks", d.ranks},
                         {"latency_us", microseconds(d.latency)},
                         {"bytes_per_second", d.lone_flow.bytes_per_second}});
  Json findings = Json::array();
  for (const TopologyFinding& finding : report.findings)
    findings.push_back({{"wrong", finding.wrong}, {"sentence", finding.sentence}});
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
  if (way) out["way"] = way_json(*way);
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tracecast
