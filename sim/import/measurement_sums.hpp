/// \file
/// Repeated measurements of the same call become one: the median, and how far the others lie from it.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/import/collective_measurements.hpp"

namespace tracecast {

/// Median, and the standard deviation of a normal distribution with the same quartiles, relative to it.   Requires a value
inline std::pair<double, double> median_and_spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const double median = (values[(n - 1) / 2] + values[n / 2]) / 2;
  constexpr double kNormal = 1.349;  // distance of the quartiles of a normal distribution, in standard deviations
  return {median, (values[3 * (n - 1) / 4] - values[(n - 1) / 4]) / kNormal / std::max(median, 1e-12)};
}

class MeasurementSums {
 public:
  void add(Collective collective, int ranks, int nodes, std::int64_t bytes, double seconds) {
    times_[{collective, ranks, nodes, bytes}].push_back(seconds);
  }
  bool empty() const { return times_.empty(); }

  std::vector<MeasuredCall> calls() const {
    std::vector<MeasuredCall> result;
    for (auto [key, times] : times_) {
      const auto& [collective, ranks, nodes, bytes] = key;
      const auto [median, spread] = median_and_spread(times);
      result.push_back({{collective, ranks, Bytes{bytes}, median, spread, static_cast<int>(times.size())}, nodes});
    }
    return result;
  }

 private:
  std::map<std::tuple<Collective, int, int, std::int64_t>, std::vector<double>> times_;
};

}  // namespace tracecast
