#include "sim/forecast/sensitivities.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast {
namespace {

struct KindOfWork {
  Knob knob = Knob::host;
  double spread = 0;
};

Knob knob_of(const Operator& op) {
  switch (op.kind) {
    case OperatorKind::gemm:
      if (op.precision == Precision::nvfp4) return Knob::gemm_fp4;
      return op.precision == Precision::fp8 || op.precision == Precision::fp8_block || op.precision == Precision::mxfp8
                 ? Knob::gemm_fp8
                 : Knob::gemm;
    case OperatorKind::grouped_gemm:
      return Knob::grouped_gemm;
    case OperatorKind::attention:
      return Knob::attention;
    case OperatorKind::scores:
    case OperatorKind::softmax:
      return Knob::unfused_attention;
    case OperatorKind::optimizer:
      return Knob::optimizer;
    default:
      return Knob::memory_bound;
  }
}

Knob knob_of(Traffic traffic) {
  switch (traffic) {
    case Traffic::tensor_parallel:
      return Knob::tensor_parallel;
    case Traffic::context_parallel:
      return Knob::context_parallel;
    case Traffic::expert_parallel:
      return Knob::expert_parallel;
    case Traffic::pipeline:
      return Knob::pipeline;
    default:
      return Knob::data_parallel;
  }
}

KindOfWork work_of(const StepGraph& graph, const Op& op) {
  const auto payload = static_cast<std::size_t>(op.payload);
  if (op.payload < 0) return {};
  switch (op.type) {
    case OpType::compute:
      return {knob_of(graph.operators[payload].op), graph.operators[payload].cost.spread};
    case OpType::collective:
      return {knob_of(graph.collectives[payload].traffic), graph.collectives[payload].cost.spread};
    case OpType::send:
    case OpType::receive:
      return {Knob::pipeline, graph.messages[payload].cost.spread};
    case OpType::host_sync:
      break;
  }
  return {};
}

/// Adds up the path while it is walked back.
class PathSum {
 public:
  void add(const KindOfWork& work, std::int64_t picoseconds) {
    const auto k = static_cast<std::size_t>(work.knob);
    path_[k] += picoseconds;
    spread_[k] += work.spread * 1e-12 * static_cast<double>(picoseconds);
  }
  Sensitivities result(std::int64_t step) const {
    Sensitivities s;
    for (std::size_t k = 0; k < kKnobs; ++k) s.path_s[k] = 1e-12 * static_cast<double>(path_[k]);
    s.spread_s = spread_;
    s.step_s = 1e-12 * static_cast<double>(step);
    return s;
  }

 private:
  std::array<std::int64_t, kKnobs> path_{};
  std::array<double, kKnobs> spread_{};
};

}  // namespace

const char* to_string(Knob knob) {
  constexpr std::array<const char*, kKnobs> kNames{
      "gemm",         "gemm_fp8",     "gemm_fp4", "grouped_gemm",    "attention",        "unfused_attention",
      "memory_bound", "optimizer",    "host",     "tensor_parallel", "context_parallel", "expert_parallel",
      "pipeline",     "data_parallel"};
  return kNames[static_cast<std::size_t>(knob)];
}

double Sensitivities::relative_deviation() const {
  double variance = 0;
  for (const double own : spread_s) variance += own * own;
  return step_s > 0 ? std::sqrt(variance) / step_s : 0;
}

double Sensitivities::run_deviation() const {
  double variance = 0;
  for (std::size_t k = 0; k < kKnobs; ++k) {
    const bool transfers = k >= static_cast<std::size_t>(Knob::tensor_parallel);
    const double own = (transfers ? 1 : kKernelsTogether) * spread_s[k];
    variance += own * own;
  }
  return step_s > 0 ? std::sqrt(variance) / step_s : 0;
}

Sensitivities sensitivities(const StepGraph& graph, const Timeline& timeline) {
  PathSum sum;
  std::int64_t until = timeline.step_time.picoseconds;
  const KindOfWork host{Knob::host, kHostSpread};
  if (!timeline.spans.empty()) {
    const auto last = std::max_element(timeline.spans.begin(), timeline.spans.end(),
                                       [](const Span& a, const Span& b) { return a.end < b.end; });
    for (auto index = static_cast<std::int32_t>(last - timeline.spans.begin()); index >= 0;) {
      const Span& span = timeline.spans[static_cast<std::size_t>(index)];
      const Template& each = graph.templates[static_cast<std::size_t>(span.template_index)];
      sum.add(work_of(graph, each.ops[static_cast<std::size_t>(span.op)]), until - span.start.picoseconds);
      until = span.start.picoseconds;
      index = span.cause;
      if (index < 0) break;
      // Where the host decided a start, the time since what it had waited for went into issuing.
      const std::int64_t reached = timeline.spans[static_cast<std::size_t>(index)].end.picoseconds;
      if (reached < until) {
        sum.add(host, until - reached);
        until = reached;
      }
    }
  }
  sum.add(host, until);
  return sum.result(timeline.step_time.picoseconds);
}

StepGraph scaled(StepGraph graph, const KnobFactors& factors) {
  const auto times = [](Duration duration, double factor) {
    return Duration{std::llround(static_cast<double>(duration.picoseconds) * factor)};
  };
  for (Template& each : graph.templates)
    for (Op& op : each.ops) {
      op.duration = times(op.duration, factors[static_cast<std::size_t>(work_of(graph, op).knob)]);
      op.host = times(op.host, factors[static_cast<std::size_t>(Knob::host)]);
    }
  return graph;
}

}  // namespace tracecast
