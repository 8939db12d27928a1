/// \file
/// A forecast corrected by measured runs of the same cluster, from one run up.
///
/// The error log(measured / forecast) of two runs has the correlation
///
///   0.9 x 0.85 if their precision differs x 0.45 for each lever that differs x exp(-(d / 1.4)^2),
///   0 on different GPUs, and of a model with experts and one without
///
/// d: distance of size, length, micro-batch, degrees, GPUs and micro-batches in doublings (layout_distance, run_traits.hpp); levers:
/// recomputation, software, compilation, schedule, ZeRO stage. The correction is the best linear estimate from the known errors
/// (kriging with mean 0), so that a run that tells nothing changes nothing.
///
/// A product of equalities and a Gaussian of a Euclidean distance is positive definite for any set of runs, which a Gaussian of a
/// sum of absolute differences is not. The length 1.4 was chosen by the errors of 615 dense published runs that all other runs of
/// their source correct: 5.7 % before, 3.6 % after (mean over 15 sources), within 0.1 % from 1.2 to 1.8. The other numbers are
/// rounded from pairs of published runs of one source and GPU, whose errors correlate by 0.86 to 0.91 (same precision and levers,
/// close layout), 0.73 to 0.83 (other precision) and 0.31 to 0.39 (other levers); docs/references.md#one-scale.
#pragma once

#include <string>
#include <vector>

#include "tools/accuracy/row_forecast.hpp"

namespace tracecast::accuracy {

/// Correlation of the errors of two different runs, 0 to 0.9.
double error_correlation(const RunTraits& a, const RunTraits& b);

struct OwnFit {
  double factor = 1;     ///< on the forecast
  double explained = 0;  ///< share of the variance of its error that the known runs take away
  int runs = 0;          ///< known runs that say anything about it
  double low_s = 0;      ///< 90 % interval of the corrected step time
  double high_s = 0;
};

/// Why the row does not correct others; "": it does, or it has no step time. Besides rows that are not forecast, those whose
/// measured time is less than a quarter or more than four times the forecast: in another unit, or of another job.
std::string why_left_out(const RowForecast& row);

/// `known`: runs with a measured time. If the run itself is among them, its measurement counts as that of a run just like it.
OwnFit own_fit(const RowForecast& row, const std::vector<const RowForecast*>& known);

}  // namespace tracecast::accuracy
