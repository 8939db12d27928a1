#include "tools/progress.hpp"

#include <catch2/catch.hpp>

using namespace tracecast::cli;
using namespace std::chrono_literals;

namespace {
struct Screen {
  std::vector<std::string> written;
  Progress::Clock::time_point time;
  Progress bar(bool enabled) {
    return {"working", enabled, [this](std::string_view text) { written.emplace_back(text); }, [this] { return time; }};
  }
};
}  // namespace

TEST_CASE("progress stays silent for the first second and shows at most ten times a second", "[tools]") {
  Screen screen;
  {
    Progress progress = screen.bar(true);
    screen.time += 999ms;
    progress.update(1, 4);
    CHECK(screen.written.empty());
    screen.time += 1ms;
    progress.update(1, 4);
    REQUIRE(screen.written.size() == 1);
    CHECK(screen.written[0].find("working [########                      ]  25 %, 3.00 s left") != std::string::npos);
    screen.time += 99ms;
    progress.update(2, 4);
    CHECK(screen.written.size() == 1);
    screen.time += 1ms;
    progress.update(2, 4);
    CHECK(screen.written.size() == 2);
  }
  // The line is wiped at the end.
  REQUIRE(screen.written.size() == 3);
  CHECK(screen.written[2] == "\r\x1b[2K");
}

TEST_CASE("busy appears after its time, says the seconds, and wipes its line", "[tools]") {
  std::mutex mutex;
  std::vector<std::string> written;
  const auto write = [&](std::string_view text) {
    const std::scoped_lock lock(mutex);
    written.emplace_back(text);
  };
  const auto count = [&] {
    const std::scoped_lock lock(mutex);
    return written.size();
  };
  {
    const Busy busy("working", true, write, 1ms);
    while (count() == 0) std::this_thread::sleep_for(1ms);
  }
  CHECK(written.front() == "\r\x1b[2Kworking (0 s)");
  CHECK(written.back() == "\r\x1b[2K");
  written.clear();
  { const Busy quick("working", true, write, 1h); }
  { const Busy off("working", false, write, 0ms); }
  CHECK(written.empty());
}

TEST_CASE("progress that is off or was never shown writes nothing", "[tools]") {
  Screen screen;
  for (const bool enabled : {false, true}) {
    Progress progress = screen.bar(enabled);
    if (!enabled) screen.time += 5s;
    progress.update(1, 2);
  }
  CHECK(screen.written.empty());
}
