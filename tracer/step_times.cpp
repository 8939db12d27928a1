#include "tracer/step_times.hpp"

#include <algorithm>

namespace tracecast {
namespace {

/// The end of all work that was launched before `time`; INT64_MIN: none.
std::int64_t end_of_earlier(const Trace& trace, const std::vector<RecordedWork>& works, std::int64_t time) {
  std::int64_t end = INT64_MIN;
  for (const RecordedWork& work : works)
    if (launch_ns(trace, work) < time) end = std::max(end, work.end_ns);
  return end;
}

}  // namespace

LaunchedWork launched_in(const Trace& trace, const std::vector<RecordedWork>& works, const StepWindow& window) {
  LaunchedWork result;
  for (const RecordedWork& work : works) {
    const std::int64_t launch = launch_ns(trace, work);
    if (launch < window.begin || launch >= window.end) continue;
    result.launched = std::min(result.launched, launch);
    result.begin = std::min(result.begin, work.start_ns);
    result.end = std::max(result.end, work.end_ns);
    result.devices[work.device].push_back(work);
  }
  return result;
}

RecordedStepTimes times_of(const Trace& trace, const std::vector<RecordedWork>& works,
                           const std::map<std::int64_t, StepWindow>& windows, std::int64_t step,
                           const LaunchedWork& work) {
  const StepWindow& window = windows.at(step);
  const auto next_window = windows.find(step + 1);
  const LaunchedWork next =
      next_window != windows.end() ? launched_in(trace, works, next_window->second) : LaunchedWork{};
  if (!next.devices.empty() && next.begin > work.begin) {
    const bool was_idle = next.begin >= work.end;
    const std::int64_t host_end = was_idle ? next.begin : std::max(work.begin, std::min(next.launched, work.end));
    return {work.begin, host_end, std::max(next.begin, work.end) - work.begin};
  }
  const std::int64_t earlier = end_of_earlier(trace, works, window.begin);
  const bool host_was_ahead = earlier > work.launched;
  const std::int64_t begin = !host_was_ahead ? window.begin : std::min(earlier, work.begin);
  const std::int64_t host_end = std::max(begin, window.end);
  return {begin, host_end, std::max(work.end, host_end) - begin};
}

}  // namespace tracecast
