#include "sim/cost/sparse_attention.hpp"

#include <algorithm>

namespace tracecast {
namespace {

constexpr double kForwardEfficiency = 0.65;
constexpr double kBackwardEfficiency = 0.44;
constexpr double kIndexerEfficiency = 0.5;

}  // namespace

double sparse_attention_seconds(const GpuPeak& gpu, const Operator& op) {
  const double work = flops(op).count / gpu.flops;
  if (op.kind == OperatorKind::sparse_attention)
    return kUnmeasuredStart + work / (op.pass == Pass::forward ? kForwardEfficiency : kBackwardEfficiency);
  const double memory = static_cast<double>(compulsory_traffic(op).count) / gpu.bandwidth;
  return kUnmeasuredStart + std::max(work, memory) / kIndexerEfficiency;
}

}  // namespace tracecast
