/// A progress bar for whatever takes more than a second: on standard error, only when that is a terminal, and
/// gone when it is done. Thread-safe: workers may report.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace tracecast::cli {

class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  using Write = std::function<void(std::string_view)>;
  using Now = std::function<Clock::time_point()>;

  /// `label` says what is going on, e.g. "simulating". Nothing is shown when not `enabled`.
  Progress(std::string label, bool enabled);
  /// For tests: with a clock and a place of its own.
  Progress(std::string label, bool enabled, Write write, Now now);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of `total` pieces. Draws at most ten times a second, and not before the first second has passed.
  void update(double done, double total);

 private:
  std::string label_;
  bool enabled_;
  Write write_;
  Now now_;
  Clock::time_point begin_;
  Clock::time_point drawn_;
  bool visible_ = false;
  std::mutex mutex_;
};

}  // namespace tracecast::cli
