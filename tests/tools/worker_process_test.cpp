#include "tools/worker_process.hpp"

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <catch2/catch.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/files.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;
using namespace tracecast::cli;

namespace {

/// What run_program prints to standard error.
std::string errors_of(const std::vector<std::string>& command) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "err";
  std::fflush(stderr);
  const int before = dup(STDERR_FILENO);
  std::FILE* const file = std::fopen(path.c_str(), "w");
  dup2(fileno(file), STDERR_FILENO);
  run_program(command);
  std::fflush(stderr);
  dup2(before, STDERR_FILENO);
  std::fclose(file);
  close(before);
  return content_of(path);
}

}  // namespace

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

TEST_CASE("a program's end says whether it exited, was ended, or did not start", "[tools]") {
  const auto end_of = [](const std::string& script) { return run_to_end({"/bin/sh", "-c", script}, Lifetime::own); };
  CHECK(end_of("exit 7").code == 7);
  CHECK(end_of("kill -9 $$").signal == SIGKILL);
  CHECK(end_of("kill -9 $$").code == -1);
  const ProgramEnd missing = run_to_end({"/nowhere/program"}, Lifetime::own);
  CHECK(missing.not_started == "No such file or directory");
  CHECK(run_to_end({"/etc/passwd"}, Lifetime::own).not_started == "Permission denied");
}

TEST_CASE("a worker that ends unexpectedly is reported", "[tools][error]") {
  const auto errors = [](const std::string& script) { return errors_of({"/bin/sh", "-c", script}); };
  CHECK(errors("exit 2").empty());  // the worker has said why
  CHECK(errors("exit 5") == "a rank ended unexpectedly (exit code 5)\n");
  CHECK(errors("kill -9 $$") == "a rank ended unexpectedly (signal 9: Killed)\n");
  CHECK(errors("exit 137") == "a rank ended unexpectedly (signal 9: Killed)\n");  // as mpirun says it
  CHECK(errors("exit 130").empty());                                              // Ctrl-C
  CHECK(errors_of({"/nowhere/mpirun"}) == "/nowhere/mpirun: cannot be started: No such file or directory\n");
}

TEST_CASE("a worker ends with this process, even if it is killed", "[tools]") {
  const TemporaryFolder folder;
  const auto file = [&](const char* name) { return (folder.path() / name).string(); };
  const auto await = [&](const char* name) {
    for (int i = 0; i < 500 && !std::filesystem::exists(file(name)); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return std::filesystem::exists(file(name));
  };
  const pid_t parent = fork();
  if (parent == 0) {
    run_program({"/bin/sh", "-c",
                 "trap 'touch " + file("ended") + "; exit' TERM; touch " + file("begun") +
                     "; for i in $(seq 100); do sleep 0.1; done"});
    _exit(0);
  }
  CHECK(await("begun"));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  CHECK(await("ended"));
}
