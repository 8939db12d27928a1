/// \file
/// Statistics of repeated measurements.
///
/// Uses the lower quartile instead of the mean: on a shared machine, times have a long upper tail unrelated to the work. The
/// minimum would be too optimistic, since a whole step never reaches it.
#pragma once

#include <vector>

namespace tracecast {

struct Samples {
  double lower_quartile = 0;
  double median = 0;
  double spread = 0;  ///< relative_spread()
  int count = 0;
};

/// Quartiles by linear interpolation between order statistics (R's type 7).   Requires at least one value.
Samples summarise(const std::vector<double>& values);

}  // namespace tracecast
