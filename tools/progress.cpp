#include "tools/progress.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "sim/report/text.hpp"

namespace tracecast::cli {
namespace {

constexpr std::chrono::milliseconds kFirst{1000};
constexpr std::chrono::milliseconds kBetween{100};
constexpr int kBarWidth = 30;
constexpr std::string_view kClearLine = "\r\x1b[2K";

void write_to_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

Progress::Progress(std::string label, bool enabled)
    : Progress(std::move(label), enabled, write_to_stderr, Clock::now) {}

Progress::Progress(std::string label, bool enabled, Write write, Now now)
    : label_(std::move(label)), enabled_(enabled), write_(std::move(write)), now_(std::move(now)), begin_(now_()) {}

Progress::~Progress() {
  if (visible_) write_(kClearLine);
}

void Progress::update(double done, double total, std::string_view note) {
  if (!enabled_) return;
  const std::scoped_lock lock(mutex_);
  const Clock::time_point now = now_();
  if (now - begin_ < kFirst || (visible_ && now - drawn_ < kBetween)) return;
  const double fraction = total > 0 ? std::clamp(done / total, 0.0, 1.0) : 0;
  const double elapsed = std::chrono::duration<double>(now - begin_).count();
  const std::string left = fraction > 0 ? ", " + duration_in_words(elapsed / fraction - elapsed) + " left" : "";
  write_(fmt::format("{}{} [{}] {:3.0f} %{}{}{}", kClearLine, label_, bar(fraction, kBarWidth, {}), 100 * fraction,
                     left, note.empty() ? "" : ", ", note));
  drawn_ = now;
  visible_ = true;
}

Busy::Busy(std::string label, bool enabled) : Busy(std::move(label), enabled, write_to_stderr, kFirst) {}

Busy::Busy(std::string label, bool enabled, Progress::Write write, std::chrono::milliseconds first)
    : label_(std::move(label)), write_(std::move(write)) {
  if (enabled) thread_ = std::thread([this, first] { show(first); });
}

Busy::~Busy() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void Busy::show(std::chrono::milliseconds first) {
  const auto begin = Progress::Clock::now();
  std::unique_lock lock(mutex_);
  if (ended_.wait_for(lock, first, [this] { return over_; })) return;
  do {
    const double elapsed = std::chrono::duration<double>(Progress::Clock::now() - begin).count();
    write_(fmt::format("{}{} ({:.0f} s)", kClearLine, label_, elapsed));
  } while (!ended_.wait_for(lock, kFirst, [this] { return over_; }));
  write_(kClearLine);
}

}  // namespace tracecast::cli
