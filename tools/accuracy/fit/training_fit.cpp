#include "tools/accuracy/fit/training_fit.hpp"

#include <cmath>

#include "sim/base/result.hpp"
#include "sim/forecast/forecast.hpp"
#include "tools/accuracy/fit/fit.hpp"

namespace tracecast::accuracy {
namespace {

/// Half of what the bootstrap of docs/references.md#in-training-factors leaves open, as in
/// tools/accuracy/calibration.cpp: a fit begins with profiles that were fitted to measured kernels and to runs before.
constexpr double kGemmPrior = 0.05;
constexpr double kAttentionPrior = 0.10;
constexpr double kMemoryPrior = 0.15;
/// Repeats and sites of one configuration differ by 1 to 3 %, releases by 10 % (docs/references.md#noise-floor).
constexpr double kRunError = 0.05;

double square(double x) { return x * x; }

/// Square near zero, linear beyond two standard errors: a run that the simulator does not understand pulls no more
/// than one that it misses by 10 %.
double robust(double x) { return std::abs(x) <= 2 ? square(x) : 4 * std::abs(x) - 4; }

TrainingFit from_logarithms(const std::vector<double>& x) {
  return {std::exp(x[0]), std::exp(x[1]), std::exp(x[2]), 0, {}};
}

double step_time(Scenario scenario, const TrainingFit& fit) {
  apply(fit, scenario.profile.in_training);
  const Result<ForecastRun> run = forecast(scenario);
  TRACECAST_ASSERT(run.has_value(), "runs to be fitted can be forecast");
  return run->forecast.step_time_s;
}

TrainingFit minimise(const std::vector<Scenario>& runs) {
  const auto loss = [&runs](const std::vector<double>& x) {
    const TrainingFit fit = from_logarithms(x);
    double sum = square(x[0] / kGemmPrior) + square(x[1] / kAttentionPrior) + square(x[2] / kMemoryPrior);
    for (const Scenario& run : runs)
      sum += robust(std::log(step_time(run, fit) / run.measured->step_time_s) / kRunError);
    return sum;
  };
  constexpr int kEvaluations = 250;
  return from_logarithms(minimize({{0, -0.5, 0.5}, {0, -0.7, 0.7}, {0, -1.0, 1.0}}, loss, kEvaluations));
}

}  // namespace

void apply(const TrainingFit& fit, InTraining& factors) {
  for (double* gemm : {&factors.gemm, &factors.gemm_fp8, &factors.gemm_fp8_block, &factors.gemm_fp4}) *gemm *= fit.gemm;
  factors.attention *= fit.attention;
  factors.memory *= fit.memory;
  factors.softmax *= fit.memory;
}

TrainingFit fit_training(const std::vector<Scenario>& runs) {
  TrainingFit fit = minimise(runs);
  for (const Scenario& run : runs) fit.runs.push_back({run.name, step_time(run, fit), run.measured->step_time_s});
  for (const RunLine& run : fit.runs)
    fit.residual += std::abs(std::log(run.predicted_s / run.measured_s)) / static_cast<double>(runs.size());
  return fit;
}

}  // namespace tracecast::accuracy
