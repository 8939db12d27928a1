#include "sim/forecast/causes.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "sim/base/result.hpp"
#include "sim/base/words.hpp"
#include "sim/forecast/critical_path.hpp"

namespace tracecast {
namespace {

constexpr const char* kHost = "host";

std::string operator_cause(const CostedOperator& costed) {
  if (costed.recomputed) return "recomputation";
  if (costed.op.pass == Pass::optimizer) return "optimizer";
  switch (costed.op.kind) {
    case OperatorKind::gemm:
    case OperatorKind::grouped_gemm:
      return "matrix multiplications";
    case OperatorKind::attention:
    case OperatorKind::scores:
    case OperatorKind::softmax:
    case OperatorKind::indexer:
    case OperatorKind::sparse_attention:
      return "attention";
    case OperatorKind::scan:
    case OperatorKind::convolution:
      return "linear attention";
    default:
      return "memory-bound operators";
  }
}

std::string traffic_cause(Traffic traffic) {
  return spaced(to_string(traffic)) + (traffic == Traffic::pipeline ? " point-to-point" : " communication");
}

/// Empty for operations without work.
std::string cause_of(const StepGraph& graph, const Op& op) {
  const auto payload = static_cast<std::size_t>(op.payload);
  switch (op.type) {
    case OpType::compute:
      return op.payload < 0 ? "" : operator_cause(graph.operators[payload]);
    case OpType::collective:
      return traffic_cause(graph.collectives[payload].traffic);
    case OpType::send:
    case OpType::receive:
      return traffic_cause(Traffic::pipeline);
    case OpType::host_sync:
      break;
  }
  return "";
}

/// ps on the critical path by cause.
std::map<std::string, std::int64_t> critical_path(const StepGraph& graph, const Timeline& timeline) {
  std::map<std::string, std::int64_t> path;
  if (timeline.spans.empty()) return path;
  follow_critical_path(
      graph, timeline, [&](const Op& op, std::int64_t time) { path[cause_of(graph, op)] += time; },
      [&](std::int64_t time) { path[kHost] += time; });
  return path;
}

/// Step time when every operation of `cause` takes no time.
Duration step_without(const StepGraph& graph, const StepNetwork& network, const EngineOptions& engine,
                      const std::string& cause) {
  StepGraph changed = graph;
  const auto causes_traffic = [&](Traffic traffic) { return traffic_cause(traffic) == cause; };
  for (CostedCollective& each : changed.collectives)
    if (causes_traffic(each.traffic)) each.cost.duration = each.cost.latency = {};
  for (Message& each : changed.messages)
    if (causes_traffic(Traffic::pipeline)) each.cost.duration = each.cost.latency = {};
  if (changed.loads) {
    std::erase_if(changed.loads->collectives, [&](const FoldedTransfer& each) {
      return causes_traffic(graph.collectives[static_cast<std::size_t>(each.number)].traffic);
    });
    if (causes_traffic(Traffic::pipeline)) changed.loads->messages.clear();
  }
  for (std::size_t op = 0; op < changed.operators.size(); ++op)
    if (const std::int32_t row = changed.varying.row(static_cast<std::int32_t>(op));
        row >= 0 && operator_cause(changed.operators[op]) == cause)
      std::ranges::fill(changed.varying.durations[static_cast<std::size_t>(row)], Duration{});
  for (Template& each : changed.templates)
    for (Op& op : each.ops) {
      if (cause_of(graph, op) == cause) op.duration = {};
      if (cause == kHost) op.host = {};
    }
  const Result<Timeline> timeline = simulate(changed, network, engine);
  TRACECAST_ASSERT(timeline.has_value(), "shorter durations do not deadlock a graph that ran");
  return timeline->step_time;
}

std::string links_of_cause(const std::string& cause, const std::vector<AxisBandwidth>& bandwidth) {
  for (int kind = 0; kind < kTrafficKinds; ++kind)
    if (const auto traffic = static_cast<Traffic>(kind); traffic_cause(traffic) == cause)
      return links_of(traffic, bandwidth);
  return "";
}

Cause bubble_cause(const Timeline& timeline) {
  Cause cause{"pipeline bubble", "", 0, 0};
  for (const RankTime& rank : timeline.ranks)
    cause.step_without_s = std::max(cause.step_without_s, seconds(timeline.step_time - rank.bubble));
  return cause;
}

}  // namespace

std::vector<Cause> find_causes(const ForecastRun& run, EngineOptions engine) {
  engine.record_spans = false;
  std::map<std::string, std::int64_t> path = critical_path(run.graph, run.timeline);
  for (const Template& each : run.graph.templates)
    for (const Op& op : each.ops)
      if (op.duration.picoseconds > 0) path.try_emplace(cause_of(run.graph, op), 0);
  path.erase("");
  std::vector<Cause> causes{bubble_cause(run.timeline)};
  for (const auto& [name, picoseconds] : path)
    causes.push_back({name, links_of_cause(name, run.forecast.bandwidth), seconds(Duration{picoseconds}),
                      seconds(step_without(run.graph, run.network, engine, name))});
  // The forecast may be a mean over steps, the graph is that of one of them.
  const double mean = run.forecast.step_time_s / seconds(run.timeline.step_time);
  for (Cause& cause : causes) {
    cause.on_critical_path_s *= mean;
    cause.step_without_s *= mean;
  }
  std::stable_sort(causes.begin(), causes.end(),
                   [](const Cause& a, const Cause& b) { return a.step_without_s < b.step_without_s; });
  return causes;
}

}  // namespace tracecast
