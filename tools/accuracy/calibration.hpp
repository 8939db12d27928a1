/// \file
/// Factors on kinds of work, fitted to published runs for each GPU architecture, and how well they forecast sources
/// that they were not fitted to.
///
/// Model. The step time of a run is the sum over kinds of work of the seconds on the critical path times the factor
/// of the kind, times a factor of the source (site and release), which is fitted too but not used for forecasts:
///
///   log measured_i = log sum_k S_ik exp(theta_ak) + b_source + noise        a: architecture, k: kind (CostParameter)
///
/// Minimised by reweighted least squares (robust: Huber's weights beyond two noise deviations), with normal priors on
/// theta and b for what the runs do not determine, and weights n^-1/2, so that sources with many rows do not
/// dominate. S comes from the simulated steps, which are simulated again after the fit. Dense runs are fitted first.
/// MoE runs then fit the grouped GEMMs and the exchange of experts; the other factors stay within 2 %, so that errors
/// of MoE runs do not affect them.
/// Source: docs/references.md#noise-floor (offset, its deviation of 10 %, weights, robust loss),
/// docs/references.md#in-training-factors (ranges of the parameters)
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/accuracy/validate.hpp"

namespace tracecast::accuracy {

/// Factors by architecture; 1 for other architectures.
using ArchitectureFactors = std::map<std::string, CostScales>;

struct CalibrationFit {
  ArchitectureFactors factors;
  std::map<std::string, double> source_offset;  ///< log; of every source fitted to
  int rows = 0;
};

/// Requires scored rows, dense or MoE.
CalibrationFit fit_factors(const std::vector<const RowForecast*>& rows);

/// The product of two sets: `more` on top of `base`.
ArchitectureFactors on_top(ArchitectureFactors base, const ArchitectureFactors& more);

/// For ValidateOptions::factors.
FactorsOf factors_of(ArchitectureFactors factors);

struct CrossValidation {
  std::vector<RowForecast> plain;                      ///< all rows without factors
  CalibrationFit fit;                                  ///< on all rows
  std::vector<RowForecast> fitted;                     ///< all rows with it
  std::vector<RowForecast> held_out;                   ///< every row by a fit without its source
  std::map<std::string, ArchitectureFactors> without;  ///< source -> the factors in `held_out`
};

/// Fits to all rows and, for every source, to all others. All forecasts of the result are simulated with their factors.
/// Errors: those of validate.
Result<CrossValidation> cross_validate(const CsvTable& table, const RowLibrary& library,
                                       const ValidateOptions& options);

/// Spread of each software stack with which most of its held-out runs are inside their 90 % intervals, drawn towards
/// `prior` with the weight of `prior_rows` rows.
std::map<std::string, double> stack_spreads(const std::vector<RowForecast>& held_out, double prior, double prior_rows);

}  // namespace tracecast::accuracy
