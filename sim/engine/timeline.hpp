/// What happened: the outcome of simulating or executing a step graph.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// Where the step time of one rank went. The parts sum to the step time exactly.
struct RankTime {
  Duration compute;                               ///< compute stream busy, optimizer excluded
  std::array<Duration, kTrafficKinds> exposed{};  ///< compute stream idle while a transfer it waits for is moving
  Duration bubble;                                ///< compute stream idle because another rank has not come yet
  Duration host;  ///< compute stream idle because the host has not issued the next operation
  Duration optimizer;
  Duration total() const {
    Duration sum = compute + bubble + host + optimizer;
    for (Duration d : exposed) sum += d;
    return sum;
  }
  bool operator==(const RankTime&) const = default;
};

/// One operation as it ran.
struct Span {
  std::int32_t rank = 0;  ///< index into StepGraph::ranks
  std::int32_t template_index = 0;
  std::int32_t microbatch = 0;
  std::int32_t op = 0;  ///< index into Template::ops
  Duration arrival;     ///< when it was ready on this rank (collectives and messages may wait for others)
  Duration start;       ///< when it began to move or compute
  Duration end;
  std::int32_t cause =
      -1;  ///< span that decided its start; when the host did, the one that the host had waited for; -1: none
};

struct Timeline {
  Duration step_time;           ///< the last end of all
  std::vector<RankTime> ranks;  ///< one per StepGraph::ranks
  std::vector<Duration> ends;   ///< of the last operation of each of them, when simulated
  std::vector<Span> spans;      ///< only when asked for; by rank, then by stream order
  std::int64_t events = 0;      ///< operations executed
};

}  // namespace tracecast
