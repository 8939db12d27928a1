// The limits of `tracecast serve` on answers, with small shell programs as workers.
#include "tools/serve/worker_pool.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <sys/wait.h>

namespace tracecast::serve {
namespace {

using namespace std::chrono_literals;

/// Answers each line with itself; "slow" takes a minute, "crash" ends it.
WorkerPool echoes(int count, Limits limits) {
  std::signal(SIGPIPE, SIG_IGN);  // as the server does
  return {{"/bin/sh", "-c",
           R"(while read -r line; do case $line in slow) exec sleep 60;; crash) exit 3;; esac; echo "$line"; done)"},
          count,
          limits};
}

}  // namespace

TEST_CASE("workers: a request that takes too long is ended, and the next one answered", "[serve]") {
  WorkerPool pool = echoes(1, {.answer = 300ms, .queue = 10s});
  const auto begin = std::chrono::steady_clock::now();
  CHECK(pool.ask("slow").outcome == Outcome::slow);
  const auto took = std::chrono::steady_clock::now() - begin;
  CHECK(took > 295ms);  // it waits whole milliseconds
  CHECK(pool.ask("next").line == "next");
}

TEST_CASE("workers: one that ends is replaced", "[serve]") {
  WorkerPool pool = echoes(1, {});
  for (int i = 0; i < 3; ++i) {
    CHECK(pool.ask("crash").outcome == Outcome::crashed);
    const Reply reply = pool.ask("again");
    CHECK(reply.outcome == Outcome::answered);
    CHECK(reply.line == "again");
  }
}

TEST_CASE("workers: one that was ended from outside is replaced before the next request, and collected", "[serve]") {
  WorkerPool pool({"/bin/sh", "-c", "while read -r line; do echo $$; done"}, 1, {});
  const pid_t first = std::stoi(pool.ask("who").line);
  kill(first, SIGKILL);
  siginfo_t ended;
  REQUIRE(waitid(P_PID, static_cast<id_t>(first), &ended, WEXITED | WNOWAIT) == 0);
  const Reply reply = pool.ask("who");
  CHECK(reply.outcome == Outcome::answered);
  CHECK(std::stoi(reply.line) != first);
  CHECK(kill(first, 0) != 0);  // not even a zombie
}

TEST_CASE("workers: one that replaced another outlives the thread whose request did it", "[serve]") {
  std::signal(SIGPIPE, SIG_IGN);
  WorkerPool pool({"/usr/bin/setpriv", "--pdeathsig", "KILL", "/bin/sh", "-c",
                   "while read -r line; do case $line in crash) exit 3;; esac; echo $$; done"},
                  1, {});
  std::string replaced;
  std::thread([&] {
    pool.ask("crash");
    replaced = pool.ask("who").line;
  }).join();
  std::this_thread::sleep_for(100ms);  // for the signal, if there is one
  CHECK(pool.ask("who").line == replaced);
}

TEST_CASE("workers: waiting too long for a free one is an error", "[serve]") {
  WorkerPool pool = echoes(1, {.answer = 3s, .queue = 200ms});
  Outcome slow = Outcome::answered;  // checked on this thread: Catch knows of one
  std::thread first([&] { slow = pool.ask("slow").outcome; });
  Outcome second = Outcome::answered;
  while (second == Outcome::answered) second = pool.ask("second").outcome;  // until `first` has the only worker
  CHECK(second == Outcome::busy);
  first.join();
  CHECK(slow == Outcome::slow);
  // The new worker may itself take long to start on a busy machine.
  Reply third = pool.ask("third");
  for (int again = 0; again < 5 && third.outcome == Outcome::slow; ++again) third = pool.ask("third");
  CHECK(third.line == "third");
}

TEST_CASE("workers: where none can be started, requests find the pool busy", "[serve]") {
  WorkerPool pool({"/nonexistent/worker"}, 1, {.answer = 1s, .queue = 300ms});
  CHECK(pool.ask("anything").outcome == Outcome::busy);
  CHECK(pool.ask("again").outcome == Outcome::busy);
}

TEST_CASE("workers: of many askers each gets its own answer", "[serve]") {
  WorkerPool pool = echoes(3, {});
  std::atomic<int> wrong{0};
  std::vector<std::thread> askers;
  for (int asker = 0; asker < 8; ++asker)
    askers.emplace_back([&, asker] {
      for (int i = 0; i < 100; ++i) {
        const bool crash = (asker + i) % 50 == 7;
        const std::string line = crash ? "crash" : std::to_string(asker * 1000 + i);
        const Reply reply = pool.ask(line);
        if (crash ? reply.outcome != Outcome::crashed : reply.line != line) ++wrong;
      }
    });
  for (std::thread& asker : askers) asker.join();
  CHECK(wrong == 0);
}

}  // namespace tracecast::serve
