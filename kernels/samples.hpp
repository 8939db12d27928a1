/// \file
/// What repeated measurements of one thing say.
///
/// The lower quartile and not the mean: on a machine that others use too, times have a long upper tail that says nothing
/// about the work; the minimum would be a moment that no whole step ever sees.
#pragma once

#include <vector>

namespace tracecast {

struct Samples {
  double lower_quartile = 0;
  double median = 0;
  double spread = 0;  ///< relative standard deviation of a normal distribution with the same quartiles
  int count = 0;
};

/// Quartiles by linear interpolation between order statistics (R's type 7).   Requires at least one value.
Samples summarise(const std::vector<double>& values);

}  // namespace tracecast
