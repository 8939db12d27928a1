#include "sim/plan/optimizers.hpp"

#include <algorithm>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

/// Shampoo keeps the momentum and the variance of Adam, whose step length it takes over (grafting). Blocks and intervals: those
/// of the examples of facebookresearch/optimizers, and the defaults of nikhilvyas/SOAP. docs/references.md#preconditioners
constexpr Optimizer kOptimizers[] = {
    {OptimizerKind::adam, 2},
    {OptimizerKind::sgd, 0},
    {OptimizerKind::momentum, 1},
    {OptimizerKind::lars, 1, false, true},
    {OptimizerKind::lamb, 2, false, true},
    {OptimizerKind::adam_8bit, 2, true},
    {OptimizerKind::muon, 2, false, false, MatrixWork::newton_schulz, 1},
    {OptimizerKind::adafactor, 1, false, false, MatrixWork::factored, 0},
    {OptimizerKind::shampoo, 2, false, false, MatrixWork::roots, 2, 8192, 100},
    {OptimizerKind::soap, 2, false, false, MatrixWork::eigenbasis, 2, 10'000, 10},
};

}  // namespace

const Optimizer& optimizer_of(OptimizerKind kind) {
  const auto found = std::ranges::find(kOptimizers, kind, &Optimizer::kind);
  TRACECAST_ASSERT(found != std::end(kOptimizers), "every optimizer has a row");
  return *found;
}

bool needs_whole_matrices(const Optimizer& optimizer) {
  return optimizer.matrices != MatrixWork::none && optimizer.matrices != MatrixWork::factored;
}

bool has_preconditioners(const Optimizer& optimizer) {
  return optimizer.matrices == MatrixWork::roots || optimizer.matrices == MatrixWork::eigenbasis;
}

int preconditioner_block(const Training& training) {
  return training.preconditioner_block > 0 ? training.preconditioner_block
                                           : optimizer_of(training.optimizer).preconditioner_block;
}

int preconditioner_interval(const Training& training) {
  return training.preconditioner_interval > 0 ? training.preconditioner_interval
                                              : optimizer_of(training.optimizer).preconditioner_interval;
}

}  // namespace tracecast
