/// \file
/// The result of simulating or executing a step graph.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// Where the step time of one rank went. The categories sum to the step time exactly.
struct RankTime {
  Duration compute;                               ///< compute stream busy, optimizer excluded
  std::array<Duration, kTrafficKinds> exposed{};  ///< compute stream idle while a transfer it waits for is moving
  Duration bubble;                                ///< compute stream idle because another rank has not arrived
  Duration host;  ///< compute stream idle because the host has not issued the next operation
  Duration optimizer;
  Duration total() const {
    Duration sum = compute + bubble + host + optimizer;
    for (Duration d : exposed) sum += d;
    return sum;
  }
  bool operator==(const RankTime&) const = default;
};

/// One executed operation.
struct Span {
  std::int32_t rank = 0;  ///< index into StepGraph::ranks
  std::int32_t template_index = 0;
  std::int32_t microbatch = 0;
  std::int32_t op = 0;  ///< index into Template::ops
  Duration arrival;     ///< ready on this rank; collectives and messages may still wait for other ranks
  Duration start;       ///< begins to move or compute
  Duration end;
  /// The span that decided its start. If the host did, the span that the host waited for. -1: none.
  std::int32_t cause = -1;
};

struct Timeline {
  bool given_up = false;        ///< the step takes longer than EngineOptions::longest; all else is not known
  Duration step_time;           ///< end of the last operation of all ranks
  std::vector<RankTime> ranks;  ///< one per StepGraph::ranks
  std::vector<Duration> ends;   ///< of the last operation of each rank; empty when executed
  std::vector<Span> spans;      ///< if requested; by rank, then by stream order
  std::int64_t events = 0;      ///< operations executed
  std::int64_t skipped = 0;     ///< of these, in periods of the steady state that were not simulated one by one
};

}  // namespace tracecast
