/// \file
/// What was launched in a step, and how long the step took on the GPU's clock.
///
/// The host may run ahead of the GPU, so a step is not as long as its range on the host, and its work begins when that of the
/// step before has ended. Its length is the distance from its first work to the first work of the next step; of the last step,
/// from the end of all earlier work to the end of its own. Where the GPU was idle before the next step, the host
/// counts as busy until then.
/// Work that goes on beside the next step counts to its end.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/io/trace.hpp"
#include "tracer/recorded_work.hpp"
#include "tracer/step_windows.hpp"

namespace tracecast {

/// What was launched in one window.
struct LaunchedWork {
  std::map<std::int64_t, std::vector<RecordedWork>> devices;
  std::int64_t launched = INT64_MAX;  ///< first launch
  std::int64_t begin = INT64_MAX;     ///< of the first work on a GPU
  std::int64_t end = INT64_MIN;       ///< of the last
};
LaunchedWork launched_in(const Trace& trace, const std::vector<RecordedWork>& works, const StepWindow& window);

/// A step on the GPU's clock, ns.
struct RecordedStepTimes {
  std::int64_t begin = 0;     ///< of its first work on a GPU
  std::int64_t host_end = 0;  ///< when the host has issued it; the GPU may be done earlier or later
  std::int64_t length = 0;
};
/// `work`: what was launched in `windows.at(step)`. `works`: of the whole trace.
RecordedStepTimes times_of(const Trace& trace, const std::vector<RecordedWork>& works,
                           const std::map<std::int64_t, StepWindow>& windows, std::int64_t step,
                           const LaunchedWork& work);

}  // namespace tracecast
