/// \file
/// The GPU work of a trace and what launched it: kernels and copies in one list, and the host ranges open at each launch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/trace.hpp"

namespace tracecast {

/// The longest recording: a Duration can hold 106 days.
inline constexpr std::int64_t kLongestNs = std::int64_t{100} * 86'400 * 1'000'000'000;

/// Errors: a time beyond 2^62 ns, the year 2116; work or a call that ends before it begins, which no clock measures; kernels that
/// take longer than kLongestNs together.
Result<void> check_times(const Trace& trace, const std::string& file);

/// A kernel or a copy.
struct RecordedWork {
  std::int32_t kernel = -1;  ///< index into Trace::kernels; -1: a copy
  std::int32_t copy = -1;    ///< index into Trace::copies; -1: a kernel
  std::int32_t call = -1;    ///< launching call, index into Trace::calls; -1: not recorded
  std::int64_t device = 0;
  std::int64_t stream = 0;
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
};

/// Sorted by launch time, then by begin. Work without a recorded launch counts as launched when it began.
std::vector<RecordedWork> recorded_work(const Trace& trace);

/// Time of its launch.
std::int64_t launch_ns(const Trace& trace, const RecordedWork& work);

/// The times at which host threads are inside ranges of one kind.
class CoveredTime {
 public:
  CoveredTime(const Trace& trace, const std::function<bool(const TraceRange&)>& wanted);
  bool covers(std::int64_t thread, std::int64_t time_ns) const;

 private:
  std::map<std::int64_t, std::vector<std::pair<std::int64_t, std::int64_t>>> spans_;  ///< [thread] begin and end
};

/// The host threads that launch backward passes. PyTorch's autograd runs the backward of a GPU on a thread of its own ("Autograd
/// mechanics", multithreaded autograd), on which checkpointing also repeats forward passes; so a thread that launches kernels with
/// backward names is one, if another thread launches kernels too. Not known where calls were not recorded, and where such a thread
/// updates parameters: a program that does everything on one thread.
class BackwardThreads {
 public:
  explicit BackwardThreads(const Trace& trace);
  /// Whether work launched by this thread is of a backward; nullopt: this recording does not tell.
  std::optional<bool> launched(std::int64_t thread) const;

 private:
  std::set<std::int64_t> backward_;
  bool known_ = false;
};

/// The ranges that were open when a call was made, by thread and time.
class OpenRanges {
 public:
  explicit OpenRanges(const Trace& trace);
  /// Indices into Trace::ranges, innermost first; at most `most` of them.
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
