#include "tools/accuracy/fit/fit.hpp"

#include <cmath>
#include <memory>

#include <nlopt.h>

#include "sim/base/result.hpp"

namespace tracecast::accuracy {
namespace {

using Loss = std::function<double(const std::vector<double>&)>;

double call_loss(unsigned count, const double* values, double*, void* loss) {
  return (*static_cast<const Loss*>(loss))(std::vector<double>(values, values + count));
}

/// One run of Subplex from `values`, which it replaces by the best point; returns the loss there.
double subplex(const std::vector<Parameter>& parameters, std::vector<double>& values, Loss loss, int evaluations) {
  std::vector<double> lowest;
  std::vector<double> highest;
  std::vector<double> step;
  for (const Parameter& p : parameters) {
    lowest.push_back(p.lowest);
    highest.push_back(p.highest);
    step.push_back((p.highest - p.lowest) / 10);
  }
  const std::unique_ptr<nlopt_opt_s, decltype(&nlopt_destroy)> opt(
      nlopt_create(NLOPT_LN_SBPLX, static_cast<unsigned>(parameters.size())), nlopt_destroy);
  nlopt_set_lower_bounds(opt.get(), lowest.data());
  nlopt_set_upper_bounds(opt.get(), highest.data());
  nlopt_set_initial_step(opt.get(), step.data());
  nlopt_set_min_objective(opt.get(), call_loss, &loss);
  nlopt_set_ftol_rel(opt.get(), 1e-6);
  nlopt_set_maxeval(opt.get(), evaluations);
  double best = 0;
  const nlopt_result result = nlopt_optimize(opt.get(), values.data(), &best);
  TRACECAST_ASSERT(result > 0, "the optimizer ran");
  return best;
}

}  // namespace

std::vector<double> minimize(const std::vector<Parameter>& parameters, const Loss& loss, int evaluations) {
  std::vector<double> values;
  for (const Parameter& p : parameters) {
    TRACECAST_ASSERT(p.lowest < p.highest && p.lowest <= p.start && p.start <= p.highest, "the start lies in the box");
    values.push_back(p.start);
  }
  constexpr int kRestarts = 3;
  double best = loss(values);
  for (int i = 0; i < kRestarts; ++i) {
    const double found = subplex(parameters, values, loss, evaluations / kRestarts);
    if (found > best * (1 - 1e-4)) break;
    best = found;
  }
  return values;
}

void LogError::add(double predicted, double measured, double weight) {
  const double error = std::log(predicted / measured);
  weight_ += weight;
  absolute_ += weight * std::abs(error);
  signed_ += weight * error;
  ++samples_;
}

double LogError::mean() const { return weight_ > 0 ? absolute_ / weight_ : 0; }
double LogError::bias() const { return weight_ > 0 ? signed_ / weight_ : 0; }

Fit transferred(const Fit& fit, const std::string& from) {
  return {"of " + from + ": " + fit.data, 0, fit.residual + kTransferResidual};
}

}  // namespace tracecast::accuracy
