/// \file
/// The GPU work of a trace with what launched it: kernels and copies as one list, and the ranges that were open on the host.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "tracer/trace.hpp"

namespace tracecast {

/// A kernel or a copy.
struct RecordedWork {
  std::int32_t kernel = -1;  ///< index into Trace::kernels; -1: a copy
  std::int32_t copy = -1;    ///< index into Trace::copies; -1: a kernel
  std::int32_t call = -1;    ///< index into Trace::calls that launched it; -1: not recorded
  std::int64_t device = 0;
  std::int64_t stream = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

/// In the order of the launches, then of the begins; work whose launch was not recorded counts as launched when it began.
std::vector<RecordedWork> recorded_work(const Trace& trace);

/// When it was launched.
std::int64_t launch_ns(const Trace& trace, const RecordedWork& work);

/// Moments of host threads that lie in ranges of a kind.
class CoveredTime {
 public:
  CoveredTime(const Trace& trace, const std::function<bool(const TraceRange&)>& wanted);
  bool covers(std::int64_t thread, std::int64_t time_ns) const;

 private:
  std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>> spans_;  ///< [thread] begin and end
};

/// The ranges that were open when a call was made, by thread and time.
class OpenRanges {
 public:
  explicit OpenRanges(const Trace& trace);
  /// Indices into Trace::ranges, the innermost first; at most `most` of them.
  std::vector<std::int32_t> at(std::int64_t thread, std::int64_t time_ns, std::size_t most = 16) const;

 private:
  struct Entry {
    std::int64_t start_ns;
    std::int64_t end_ns;
    std::int32_t range;
    std::int32_t parent;  ///< index into the thread's list; -1: none
  };
  std::map<std::int64_t, std::vector<Entry>> threads_;
};

}  // namespace tracecast
