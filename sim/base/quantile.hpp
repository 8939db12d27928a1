/// \file
/// Quantiles of a sample, by linear interpolation between order statistics (type 7 of Hyndman and Fan 1996, R's default).
#pragma once

#include <vector>

namespace tracecast {

/// `values` in any order; `share` from 0 (the smallest) to 1 (the largest).   Requires at least one value.
double quantile(std::vector<double> values, double share);

/// 0 of nothing.
double median(std::vector<double> values);

/// Spread of repeated measurements: the standard deviation of a normal distribution with the same quartiles, relative to the median.
/// A few disturbed ones in the long upper tail do not change it. 0 if the median is not positive.   Requires at least one value.
double relative_spread(const std::vector<double>& values);

/// Of the population that the values are a sample of; 0 of fewer than two.
double standard_deviation(const std::vector<double>& values);

}  // namespace tracecast
