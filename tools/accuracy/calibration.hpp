/// \file
/// Factors on kinds of work from published runs, one set per GPU architecture, and how well they forecast sources that they
/// were not fitted to.
///
/// Model. A run's step time is the sum over kinds of work of its seconds on the critical path times the kind's factor, times a
/// factor of the source (its site and release) that is estimated along and never used for a forecast:
///
///   log measured_i = log sum_k S_ik exp(theta_ak) + b_source + noise        a: architecture, k: kind (CostParameter)
///
/// Minimised by reweighted least squares (robust: Huber's weights beyond two noise deviations), with normal priors on
/// theta and b that hold down what the runs do not tell, and weights n^-1/2 so that sources with many rows do not decide
/// alone. S comes from the steps as simulated; after the fit they are simulated anew. Dense runs are fitted first; what they
/// have decided stays (2 %), and MoE runs decide the grouped GEMMs and the exchange of experts, so that what is wrong with
/// those does not move the rest.
/// Source: docs/references.md#noise-floor (offset, its deviation of 10 %, weights, robust loss),
/// docs/references.md#in-training-factors (ranges of the parameters)
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/accuracy/validate.hpp"

namespace tracecast::accuracy {

/// Factors by architecture; architectures that are missing have none.
using ArchitectureFactors = std::map<std::string, CostScales>;

struct CalibrationFit {
  ArchitectureFactors factors;
  std::map<std::string, double> source_offset;  ///< log; of every source fitted to
  int rows = 0;
};

/// Requires rows that are scored; dense and MoE alike.
CalibrationFit fit_factors(const std::vector<const RowForecast*>& rows);

/// The product of two sets: `more` on top of `base`.
ArchitectureFactors on_top(ArchitectureFactors base, const ArchitectureFactors& more);

/// What to give to validate().
FactorsOf factors_of(ArchitectureFactors factors);

struct CrossValidation {
  std::vector<RowForecast> plain;                      ///< all rows without factors
  CalibrationFit fit;                                  ///< on all rows
  std::vector<RowForecast> fitted;                     ///< all rows with it
  std::vector<RowForecast> held_out;                   ///< every row by a fit that has not seen its source
  std::map<std::string, ArchitectureFactors> without;  ///< source -> the factors that its rows were forecast with
};

/// Fits to all rows and, for every source, to all the others; every forecast of the result is simulated with its factors.
Result<CrossValidation> cross_validate(const CsvTable& table, const RowLibrary& library,
                                       const ValidateOptions& options);

/// Spread per software stack that the held-out errors ask for: what is missing for most of its runs to lie inside their bands,
/// drawn towards `prior` with the weight of `prior_rows` rows.
std::map<std::string, double> stack_spreads(const std::vector<RowForecast>& held_out, double prior, double prior_rows);

}  // namespace tracecast::accuracy
