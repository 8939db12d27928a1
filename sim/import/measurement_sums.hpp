/// \file
/// Repeated measurements of the same call become one: the median, and how far the others lie from it.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "sim/import/collective_measurements.hpp"

namespace tracecast {

class MeasurementSums {
 public:
  void add(Collective collective, int ranks, int nodes, std::int64_t bytes, double seconds) {
    times_[{collective, ranks, nodes, bytes}].push_back(seconds);
  }
  bool empty() const { return times_.empty(); }

  std::vector<MeasuredCall> calls() const {
    std::vector<MeasuredCall> result;
    for (auto [key, times] : times_) {
      std::sort(times.begin(), times.end());
      const auto& [collective, ranks, nodes, bytes] = key;
      const double median = (times[(times.size() - 1) / 2] + times[times.size() / 2]) / 2;
      const double quartiles = times[3 * (times.size() - 1) / 4] - times[(times.size() - 1) / 4];
      constexpr double kNormal = 1.349;  // quartiles of a normal distribution, in standard deviations
      result.push_back(
          {{collective, ranks, Bytes{bytes}, median, quartiles / kNormal / median, static_cast<int>(times.size())},
           nodes});
    }
    return result;
  }

 private:
  std::map<std::tuple<Collective, int, int, std::int64_t>, std::vector<double>> times_;
};

}  // namespace tracecast
