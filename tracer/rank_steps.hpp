/// \file
/// Which steps of the recordings of several ranks are the same step of the run. Ranks may begin to record at different steps, and
/// without ranges ProfilerStep#N the steps of each recording count from 1. Two steps are the same if most of the collectives that both
/// recorded, known by group and sequence number (tracer/recorded_calls.hpp), were launched in them. Recordings that share no collective
/// with a number are taken as numbered alike.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "sim/io/trace.hpp"
#include "tracer/step_windows.hpp"

namespace tracecast {

struct RankSteps {
  std::vector<std::map<std::int64_t, StepWindow>>
      windows;                       ///< [recording][step], by the numbers of the first recording
  std::vector<std::int64_t> shifts;  ///< [recording] its own number of a step minus that of the first
  std::vector<bool> placed;          ///< [recording] whether calls that it shares say so; of the first: always

  /// Those that all recordings have, ascending.
  std::vector<std::int64_t> common() const;
};

RankSteps rank_steps(std::span<const Trace> traces);

}  // namespace tracecast
