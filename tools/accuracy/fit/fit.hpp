/// \file
/// Fits a few physical parameters to many measurements.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/cost/profile.hpp"

namespace tracecast::accuracy {

/// One parameter of a model. Positive parameters of unknown magnitude are searched on a logarithmic scale.
struct Parameter {
  double start = 0;
  double lowest = 0;
  double highest = 0;
};

/// Minimises `loss` over the box of `parameters`: Subplex (Rowan 1990) of NLopt, which needs no derivatives and is
/// deterministic, restarted from its own result until it no longer improves. At most `evaluations` calls in all.
/// Requires lowest < highest and start inside.
std::vector<double> minimize(const std::vector<Parameter>& parameters,
                             const std::function<double(const std::vector<double>&)>& loss, int evaluations);

/// Mean of |log(predicted / measured)|: 0.05 is 5 %, symmetric in too fast and too slow.
class LogError {
 public:
  void add(double predicted, double measured, double weight = 1);
  double mean() const;
  /// Mean of the signed logarithm: positive when predictions are too slow.
  double bias() const;
  int samples() const { return samples_; }

 private:
  double weight_ = 0;
  double absolute_ = 0;
  double signed_ = 0;
  int samples_ = 0;
};

/// What a model loses by being carried to another GPU of its family: H100 to H200 6.9 % against 6.5 % of its own fit,
/// B200 14 % bias (docs/references.md#gemm-fit).
inline constexpr double kTransferResidual = 0.05;

/// The fit of a model that was fitted on another GPU, which `from` names: it has no samples.
Fit transferred(const Fit& fit, const std::string& from);

}  // namespace tracecast::accuracy
