/// \file
/// Factors on kinds of work, fitted to published runs for each GPU architecture, and how well they forecast sources
/// that they were not fitted to.
///
/// Model. The step time of a run is the sum over kinds of work of the seconds on the critical path times the factor
/// of the kind, times a factor of the source (site and release), which is fitted too but not used for forecasts:
///
///   log measured_i = log sum_k S_ik exp(c_k + d_ak) / r_ak + b_source + noise    a: architecture, k: CostParameter
///
///   c_k    what training adds to an isolated kernel of the kind, on every architecture
///   d_ak   what an architecture differs by; an architecture without runs gets none
///   r_ak   the in-training factor that the profile has: S includes it. Priors count from the isolated kernel, so that
///          runs that the shipped factors were fitted to do not enter through them
///
/// Minimised by reweighted least squares, with normal priors on c and d for what the runs do not determine, and weights
/// n^-1/2, so that sources with many rows do not dominate. Runs and sources that are more than two deviations off count
/// linearly (Huber). The deviation of the sources is estimated, from five on, by the median size of their offsets. S
/// comes from the simulated steps, which are simulated again after the fit. Only dense runs are fitted to, where there
/// are any: what steps with experts wait for depends on the routing and the release. Kinds that no factor forecasts better
/// on runs left out have none: grouped GEMMs take the isolated time, the rest what its profile or model says. Where a
/// multiplication of few bits would gain more over one of 16 bit than peaks and bytes allow, its factor is raised to that.
/// Source: docs/references.md#noise-floor (offset, weights, robust loss; 10 % for the deviation of few sources),
/// docs/references.md#in-training-factors (ranges of the parameters)
#pragma once

#include <array>
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

/// The kinds of work that have a factor.
inline constexpr std::array kFittedKinds{CostParameter::gemm, CostParameter::gemm_fp8, CostParameter::gemm_fp4,
                                         CostParameter::attention};

/// What a fit may change.
struct FitChoice {
  ArchitectureFactors shipped{};  ///< r_ak; of other architectures 1
  /// Of a narrow kind: how many times its factor that of 16-bit multiplications may be; no limit for other architectures.
  ArchitectureFactors most_gemm{};
  std::array<bool, kCostParameters> free =
      [] {  ///< kinds with a factor; of kFittedKinds, the others take the isolated time
        std::array<bool, kCostParameters> fitted{};
        for (const CostParameter kind : kFittedKinds) fitted[static_cast<std::size_t>(kind)] = true;
        return fitted;
      }();
};

/// What the profiles of each architecture have and allow; every kind is free.
/// Errors: those of read_profile.
Result<FitChoice> choice_of_profiles(const RowLibrary& library);

/// The largest gain of multiplications in `precision` over those in bf16, over shapes of layers and all passes, as a share of the
/// gain that peaks and bytes allow. 0 if either precision has no peak.
double narrow_gain(const Profile& profile, Precision precision);

/// Factors of every architecture in `rows` or `choice.shipped`.   Requires scored rows, dense or MoE.
CalibrationFit fit_factors(const std::vector<const RowForecast*>& rows, const FitChoice& choice = {});

CostScales of_architecture(const ArchitectureFactors& factors, const std::string& architecture);

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

}  // namespace tracecast::accuracy
