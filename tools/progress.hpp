/// \file
/// A progress bar for work of more than a second: on standard error, only if that is a terminal, and erased at
/// the end. Thread-safe: workers may report.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace tracecast::cli {

/// A bar for work with known progress. Thread-safe: workers may report.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;
  using Write = std::function<void(std::string_view)>;
  using Now = std::function<Clock::time_point()>;

  /// `label` names the work, e.g. "simulating". Shows nothing unless `enabled`.
  Progress(std::string label, bool enabled);
  /// For tests: with an explicit clock and sink.
  Progress(std::string label, bool enabled, Write write, Now now);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of `total` pieces. Draws at most ten times a second, and not before the first second has passed.
  /// `note` follows the bar, for example the best result so far.
  void update(double done, double total, std::string_view note = "");

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

/// Elapsed seconds, for work without known progress.
class Busy {
 public:
  /// `first`: delay before it appears. `write` is called from a separate thread.
  Busy(std::string label, bool enabled);
  Busy(std::string label, bool enabled, Progress::Write write, std::chrono::milliseconds first);
  ~Busy();
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  void show(std::chrono::milliseconds first);

  std::string label_;
  Progress::Write write_;
  bool over_ = false;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::thread thread_;
};

}  // namespace tracecast::cli
