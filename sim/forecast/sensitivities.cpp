#include "sim/forecast/sensitivities.hpp"

#include <algorithm>
#include <cmath>

#include "sim/cost/rated_precision.hpp"
#include "sim/forecast/critical_path.hpp"

namespace tracecast {
namespace {

struct KindOfWork {
  CostParameter parameter = CostParameter::host;
  double spread = 0;
};

CostParameter parameter_of(const Operator& op) {
  switch (op.kind) {
    case OperatorKind::gemm:
      if (op.precision == Precision::nvfp4) return CostParameter::gemm_fp4;
      return eight_bits(op.precision) ? CostParameter::gemm_fp8 : CostParameter::gemm;
    case OperatorKind::grouped_gemm:
      return CostParameter::grouped_gemm;
    case OperatorKind::attention:
      return CostParameter::attention;
    case OperatorKind::scores:
    case OperatorKind::softmax:
      return CostParameter::unfused_attention;
    case OperatorKind::scan:
    case OperatorKind::convolution:
      return CostParameter::linear_attention;
    case OperatorKind::indexer:
    case OperatorKind::sparse_attention:
      return CostParameter::sparse_attention;
    case OperatorKind::optimizer:
      return CostParameter::optimizer;
    default:
      return CostParameter::memory_bound;
  }
}

CostParameter parameter_of(Traffic traffic) {
  switch (traffic) {
    case Traffic::tensor_parallel:
      return CostParameter::tensor_parallel;
    case Traffic::context_parallel:
      return CostParameter::context_parallel;
    case Traffic::expert_parallel:
      return CostParameter::expert_parallel;
    case Traffic::pipeline:
      return CostParameter::pipeline;
    default:
      return CostParameter::data_parallel;
  }
}

KindOfWork work_of(const StepGraph& graph, const Op& op) {
  const auto payload = static_cast<std::size_t>(op.payload);
  if (op.payload < 0) return {};
  switch (op.type) {
    case OpType::compute:
      return {parameter_of(graph.operators[payload].op), graph.operators[payload].cost.spread};
    case OpType::collective:
      return {parameter_of(graph.collectives[payload].traffic), graph.collectives[payload].cost.spread};
    case OpType::send:
    case OpType::receive:
      return {CostParameter::pipeline, graph.messages[payload].cost.spread};
    case OpType::host_sync:
      break;
  }
  return {};
}

/// Sums the critical path while it is followed backwards.
class PathSum {
 public:
  void add(const KindOfWork& work, std::int64_t picoseconds) {
    const auto k = static_cast<std::size_t>(work.parameter);
    path_[k] += picoseconds;
    spread_[k] += work.spread * 1e-12 * static_cast<double>(picoseconds);
  }
  Sensitivities result(std::int64_t step) const {
    Sensitivities s;
    for (std::size_t k = 0; k < kCostParameters; ++k) s.path_s[k] = 1e-12 * static_cast<double>(path_[k]);
    s.spread_s = spread_;
    s.step_s = 1e-12 * static_cast<double>(step);
    return s;
  }

 private:
  std::array<std::int64_t, kCostParameters> path_{};
  std::array<double, kCostParameters> spread_{};
};

}  // namespace

double Sensitivities::run_deviation() const {
  double variance = 0;
  for (std::size_t k = 0; k < kCostParameters; ++k) {
    const bool transfers = k >= static_cast<std::size_t>(CostParameter::tensor_parallel);
    const bool fully = transfers || k == static_cast<std::size_t>(CostParameter::linear_attention) ||
                       k == static_cast<std::size_t>(CostParameter::sparse_attention);
    const double own = (fully ? 1 : kKernelsTogether) * spread_s[k];
    variance += own * own;
  }
  return step_s > 0 ? std::sqrt(variance) / step_s : 0;
}

Sensitivities sensitivities(const StepGraph& graph, const Timeline& timeline) {
  PathSum sum;
  follow_critical_path(
      graph, timeline, [&](const Op& op, std::int64_t time) { sum.add(work_of(graph, op), time); },
      [&](std::int64_t time) {
        sum.add({CostParameter::host, kHostSpread}, time);
      });
  return sum.result(timeline.step_time.picoseconds);
}

StepGraph scaled(StepGraph graph, const CostScales& factors) {
  const auto times = [](Duration duration, double factor) {
    return Duration{std::llround(static_cast<double>(duration.picoseconds) * factor)};
  };
  const auto times_shape = [&](FoldedTransfer& transfer, CostParameter parameter) {
    const double factor = factors[static_cast<std::size_t>(parameter)];
    transfer.shape.latency = times(transfer.shape.latency, factor);
    transfer.shape.moving = times(transfer.shape.moving, factor);
    // The bytes stay, as in a graph that is not folded.
    const double rate = static_cast<double>(transfer.shape.limit.bytes_per_second) / factor;
    transfer.shape.limit.bytes_per_second = std::max<std::int64_t>(1, std::llround(rate));
  };
  const auto times_cost = [&](CollectiveCost& cost, CostParameter parameter) {
    const double factor = factors[static_cast<std::size_t>(parameter)];
    cost.duration = times(cost.duration, factor);
    cost.latency = times(cost.latency, factor);
  };
  for (CostedCollective& each : graph.collectives) times_cost(each.cost, parameter_of(each.traffic));
  for (Message& each : graph.messages) times_cost(each.cost, CostParameter::pipeline);
  if (graph.loads) {
    for (FoldedTransfer& each : graph.loads->collectives)
      times_shape(each, parameter_of(graph.collectives[static_cast<std::size_t>(each.number)].traffic));
    for (FoldedTransfer& each : graph.loads->messages) times_shape(each, CostParameter::pipeline);
  }
  for (std::size_t op = 0; op < graph.operators.size(); ++op)
    if (const std::int32_t row = graph.varying.row(static_cast<std::int32_t>(op)); row >= 0)
      for (Duration& each : graph.varying.durations[static_cast<std::size_t>(row)])
        each = times(each, factors[static_cast<std::size_t>(parameter_of(graph.operators[op].op))]);
  for (Template& each : graph.templates)
    for (Op& op : each.ops) {
      op.duration = times(op.duration, factors[static_cast<std::size_t>(work_of(graph, op).parameter)]);
      op.host = times(op.host, factors[static_cast<std::size_t>(CostParameter::host)]);
    }
  return graph;
}

}  // namespace tracecast
