#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "sim/forecast/averaging.hpp"
#include "sim/graph/traffic.hpp"
#include "sim/io/files.hpp"
#include "sim/network/topology.hpp"
#include "sim/report/assumptions.hpp"
#include "sim/report/json.hpp"
#include "sim/report/json_parts.hpp"
#include "sim/report/page_parts.hpp"
#include "sim/report/perfetto.hpp"
#include "sim/report/template_runs.hpp"
#include "sim/report/topology_report.hpp"

namespace tracecast {
namespace {

/// True if a message of this rank leaves its node.
bool sends_far(const StepGraph& graph, const Cluster& cluster, const Rank& rank) {
  return std::ranges::any_of(rank.channels, [&](const ChannelEnd& end) {
    return end.rank >= 0 && cluster.node_of(graph.ranks[static_cast<std::size_t>(end.rank)].representative) !=
                                cluster.node_of(rank.representative);
  });
}

/// Of the mean step: the graph is that of a step that averages.
std::string traffic_json(const ForecastRun& run, const Cluster& cluster, std::size_t r) {
  const StepGraph& graph = run.graph;
  const std::optional<Averaging>& averaging = run.forecast.averaging;
  std::vector<std::string> rows;
  for (const TrafficCount& c : count_traffic(graph, r)) {
    const double far = c.slot >= 0 ? c.sent_far : sends_far(graph, cluster, graph.ranks[r]) ? c.sent : 0;
    const bool sometimes = averaging && averages(c.traffic, c.collective);
    const double steps = sometimes ? static_cast<double>(averaging->steps) / averaging->period : 1;
    rows.push_back(fmt::format(
        R"({{"traffic":"{}","collective":"{}","ranks":{},"nodes":{},"calls":{},"sent":{:.0f},"network":{:.0f}}})",
        to_string(c.traffic), to_string(c.collective), c.ranks, c.nodes, steps * static_cast<double>(c.calls),
        steps * c.sent, steps * far));
  }
  return json_list(rows);
}

std::string memory_json(const ForecastRun& run, const TracedRank& rank) {
  const std::vector<TemplateRun> runs = template_runs(run.graph, spans_of(run.timeline, rank.index));
  std::vector<std::string> points;
  for (const MemoryPoint& p : memory_over_time(run.graph, runs, rank.resident))
    points.push_back(fmt::format("[{:.7g},{:.4f}]", seconds(p.at), gib(p.in_use)));
  return json_list(points);
}

std::string memory_kinds_json(const Forecast& f) {
  auto kinds = nlohmann::ordered_json::array();
  for (const MemoryByKind& memory : f.memory) kinds.push_back(memory_by_kind_json(memory));
  return kinds.dump();
}

std::string network_json(const Cluster& cluster) {
  const double nics = static_cast<double>(cluster.node.nics) / std::max(1, cluster.node.gpus_per_host);
  const Topology topology(cluster);
  return fmt::format(R"({{"name":{},"gpu_link":{},"nic_per_gpu":{},"svg":{}}})", json_text(cluster.name),
                     cluster.node.gpu_link.bytes_per_second,
                     nics * static_cast<double>(cluster.node.nic_rate.bytes_per_second),
                     json_text(topology_svg(topology, describe(topology))));
}

}  // namespace

std::string predict_html(const Scenario& scenario, const ForecastRun& run, const PageMetadata& metadata,
                         const Unchanged* unchanged) {
  const StepRecord record = record_of(run.graph, run.timeline, scenario.name, StepOrigin::simulated);
  const std::vector<TracedRank> traced = *traced_ranks(run, {});
  std::vector<std::string> names;
  for (const TracedRank& rank : traced) names.push_back(rank.name);
  const std::vector<std::size_t> chosen = ranks_to_draw(record);
  std::string members = fmt::format(
      R"("result":{},"scenario":{},"gpu":{},"model":{},"assumptions":{},"memory_kinds":{},"network":{},"durations":{})",
      result_json(scenario, run.forecast, unchanged), json_text(to_json(scenario)), json_text(scenario.profile.gpu),
      json_text(scenario.model.name), json_texts(assumptions(scenario, run.forecast)), memory_kinds_json(run.forecast),
      network_json(scenario.cluster), durations_json(run.graph));
  std::vector<std::string> memory;
  std::vector<std::string> traffic;
  for (const std::size_t r : chosen) {
    memory.push_back(memory_json(run, traced[r]));
    traffic.push_back(traffic_json(run, scenario.cluster, r));
  }
  members += fmt::format(R"(,"timelines":[{}],"memory_over_time":{},"traffic":{})",
                         timeline_json(record, "forecast", names, chosen), json_list(memory), json_list(traffic));
  return report_page("predict", fmt::format("{} on {}", scenario.model.name, gpu_counts(scenario, "×")), metadata,
                     members);
}

}  // namespace tracecast
