#include "sim/cost/factorization.hpp"

namespace tracecast {
namespace {

constexpr double kEfficiency = 0.5;
constexpr double kMemoryEfficiency = 0.5;

}  // namespace

double factorization_seconds(const GpuPeak& gpu, const Operator& op) {
  const FactorizationShape& shape = std::get<FactorizationShape>(op.shape);
  const double matrices = static_cast<double>(shape.count) / static_cast<double>(shape.interval);
  const double chain =
      static_cast<double>(shape.n) * (shape.eigenvectors ? kEigenSecondsPerColumn : kQrSecondsPerColumn) * matrices;
  return flops(op).count / (kEfficiency * gpu.flops) +
         static_cast<double>(compulsory_traffic(op).count) / (kMemoryEfficiency * gpu.bandwidth) + chain;
}

}  // namespace tracecast
