/// \file
/// Repeated measurements of the same call become one: the median, and how far the others lie from it.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "sim/base/quantile.hpp"
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
    for (const auto& [key, times] : times_) {
      const auto& [collective, ranks, nodes, bytes] = key;
      result.push_back(
          {{collective, ranks, Bytes{bytes}, median(times), relative_spread(times), static_cast<int>(times.size())},
           nodes});
    }
    return result;
  }

 private:
  std::map<std::tuple<Collective, int, int, std::int64_t>, std::vector<double>> times_;
};

}  // namespace tracecast
