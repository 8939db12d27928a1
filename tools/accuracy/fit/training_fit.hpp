/// \file
/// In-training factors from published runs, fitted after kernels and collectives.
#pragma once

#include <string>
#include <vector>

#include "sim/io/scenario.hpp"

namespace tracecast::accuracy {

/// A published run with its forecast.
struct RunLine {
  std::string name;
  double predicted_s = 0;
  double measured_s = 0;
  double error() const { return predicted_s / measured_s - 1; }
};

/// Factors on the in-training factors of a profile family; 1: as they came from the kernels' fits.
struct TrainingFit {
  double gemm = 1;
  double attention = 1;
  double memory = 1;    ///< element-wise work and unfused softmax
  double residual = 0;  ///< mean |log error| of the runs after the fit
  std::vector<RunLine> runs;
};

/// Multiplies the factors of a profile by those of a fit.
void apply(const TrainingFit& fit, InTraining& factors);

/// Minimises the log errors (squared, linear for outliers) of all runs of one GPU family together, held near 1 by
/// log-normal priors (10 % on GEMM, 20 % on attention, 40 % on memory-bound work: bootstrap ranges and spread between
/// GPUs of docs/references.md#in-training-factors). One set of factors for all runs: no parameter per run and none
/// per model.
/// Requires runs with a measured step time that can be forecast.
TrainingFit fit_training(const std::vector<Scenario>& runs);

}  // namespace tracecast::accuracy
