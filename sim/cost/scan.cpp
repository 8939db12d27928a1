#include "sim/cost/scan.hpp"

#include <algorithm>

namespace tracecast {
namespace {

constexpr double kEfficiency = 0.3;
constexpr double kMemoryEfficiency = 0.5;         ///< with the delta rule
constexpr double kMemoryEfficiencyOfSums = 0.37;  ///< Mamba-2

/// FLOPs that follow one another: two products per chunk; backward once more for the states and twice for their gradients.
double chain_flops(const Operator& op, const ScanShape& shape) {
  if (!shape.delta) return 0;
  const double forward = static_cast<double>(shape.length) * 4 * static_cast<double>(shape.key_dim * shape.value_dim);
  return op.pass == Pass::forward ? forward : 3 * forward;
}

}  // namespace

const Fit& unmeasured_fit() {
  static const Fit fit{"roofline of the published algorithm, not measured here", 0, 0.4};
  return fit;
}

double scan_seconds(const GpuPeak& gpu, const Operator& op) {
  const double together = flops(op).count / (kEfficiency * gpu.flops);
  const double chain = chain_flops(op, std::get<ScanShape>(op.shape)) / (kEfficiency * gpu.flops / gpu.sms);
  const double efficiency = std::get<ScanShape>(op.shape).delta ? kMemoryEfficiency : kMemoryEfficiencyOfSums;
  const double memory = static_cast<double>(compulsory_traffic(op).count) / (efficiency * gpu.bandwidth);
  return kUnmeasuredStart + std::max({together, chain, memory});
}

}  // namespace tracecast
