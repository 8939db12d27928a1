/// \file
/// When the outputs of forwards and input gradients were made, and when they arrive at the rank that needs them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/schedule/run_order.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast {

class OutputTimes {
 public:
  OutputTimes(const Schedule& schedule, std::int64_t latency)
      : schedule_(schedule), latency_(latency), made_(output_count(schedule)) {}

  /// When all inputs of an action are on `rank`; those of other ranks take the latency. 0 when it needs none.
  std::int64_t ready(int rank, const Dependencies& d) const {
    std::int64_t time = 0;
    for (const Output& need : d.needs) {
      if (need.stage < 0) continue;
      const Made& input = made_[output_index(schedule_, need)];
      time = std::max(time, input.time + (input.rank == rank ? 0 : latency_));
    }
    return time;
  }

  void record(int rank, const Dependencies& d, std::int64_t end) {
    for (const Output& output : d.makes) {
      if (output.stage >= 0) made_[output_index(schedule_, output)] = {end, rank};
    }
  }

 private:
  struct Made {
    std::int64_t time = 0;
    int rank = 0;
  };
  const Schedule& schedule_;
  std::int64_t latency_;
  std::vector<Made> made_;
};

}  // namespace tracecast
