#include "tools/worker_process.hpp"

#include <csignal>

#include <catch2/catch.hpp>

using namespace tracecast::cli;

TEST_CASE("a program under nohup survives a hang-up, and so does this one", "[tools]") {
  const auto before = std::signal(SIGHUP, SIG_IGN);
  CHECK(run_program({"/bin/sh", "-c", "kill -HUP $PPID; kill -HUP $$; exit 7"}) == 7);
  CHECK(std::signal(SIGHUP, before) == SIG_IGN);
}

TEST_CASE("a hang-up of this program is passed on", "[tools]") {
  const auto before = std::signal(SIGHUP, SIG_DFL);  // the tests themselves may run under nohup
  CHECK(run_program({"/bin/sh", "-c", "trap 'exit 5' HUP; kill -HUP $PPID; sleep 20 & wait; exit 7"}) == 5);
  std::signal(SIGHUP, before);
}

TEST_CASE("an interrupt that a process sends to this one alone is passed on", "[tools]") {
  const auto before = std::signal(SIGINT, SIG_DFL);
  CHECK(run_program({"/bin/sh", "-c", "trap 'exit 5' INT; kill -INT $PPID; sleep 20 & wait; exit 7"}) == 5);
  CHECK(std::signal(SIGINT, before) == SIG_DFL);
}

TEST_CASE("a worker's exit status is that of the command", "[tools]") {
  CHECK(exit_code_of(0) == ExitCode::done);
  CHECK(exit_code_of(1) == ExitCode::no);
  CHECK(exit_code_of(2) == ExitCode::bad_input);
  CHECK(exit_code_of(3) == ExitCode::missing);
  CHECK(exit_code_of(-1) == ExitCode::bad_input);  // a signal
}
