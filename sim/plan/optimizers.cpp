#include "sim/plan/optimizers.hpp"

#include <algorithm>
#include <array>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

/// Shampoo keeps the momentum and the variance of Adam, whose step length it takes over (grafting). Blocks and intervals: those
/// of the examples of facebookresearch/optimizers, and the defaults of nikhilvyas/SOAP. docs/references.md#preconditioners
constexpr std::array kOptimizers{
    Optimizer{OptimizerKind::adam, 2},
    Optimizer{OptimizerKind::sgd, 0},
    Optimizer{OptimizerKind::momentum, 1},
    Optimizer{OptimizerKind::lars, 1, false, true},
    Optimizer{OptimizerKind::lamb, 2, false, true},
    Optimizer{OptimizerKind::adam_8bit, 2, true},
    Optimizer{OptimizerKind::muon, 2, false, false, MatrixWork::newton_schulz, 1},
    Optimizer{OptimizerKind::adafactor, 1, false, false, MatrixWork::factored, 0},
    Optimizer{OptimizerKind::shampoo, 2, false, false, MatrixWork::roots, 2, 8192, 100},
    Optimizer{OptimizerKind::soap, 2, false, false, MatrixWork::eigenbasis, 2, 10'000, 10},
};

}  // namespace

const Optimizer& optimizer_of(OptimizerKind kind) {
  const auto found = std::ranges::find(kOptimizers, kind, &Optimizer::kind);
  TRACECAST_ASSERT(found != kOptimizers.end(), "every optimizer has a row");
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
