/// The child process in which SimGrid runs, and what it says.
#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/network/simgrid_module.hpp"

namespace tracecast {
namespace {

using Simulate = decltype(&tracecast_simgrid_simulate);

/// The entry of the module, loaded once for all child processes; null: there is no module. The dynamic linker looks for it where
/// the program's RUNPATH says (CMakeLists.txt): beside it where it is built, in lib/tracecast where it is installed.
Simulate simgrid_module() {
  static void* const module = dlopen("libtracecast_simgrid.so", RTLD_LAZY | RTLD_LOCAL);
  return module == nullptr ? nullptr : reinterpret_cast<Simulate>(dlsym(module, "tracecast_simgrid_simulate"));
}

/// What the child has to say goes through a pipe, after one letter: 'a' answer, 'e' what went wrong.
[[noreturn]] void be_child(int out, Simulate entry, const SimGridNetwork& network, const SimGridDriver& driver) {
  std::string message;
  try {
    std::string answer;
    entry(network, driver, answer);
    message = "a" + answer;
  } catch (const std::exception& error) {
    message = "e" + std::string(error.what()).substr(0, 200);
  }
  for (std::size_t done = 0; done < message.size();) {
    const ssize_t written = write(out, message.data() + done, message.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) _exit(1);
    done += static_cast<std::size_t>(written);
  }
  _exit(0);
}

std::string read_all(int in) {
  std::string text;
  std::array<char, 65536> buffer{};
  for (;;) {
    const ssize_t got = read(in, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

bool simgrid_is_built_in() {
#ifdef TRACECAST_SIMGRID
  return true;
#else
  return false;
#endif
}

Result<std::string> SimGridNetwork::run(const SimGridDriver& driver) const {
  if (hosts_.size() > kMaxHosts)
    return fail(
        fmt::format("SimGrid would have {} ends of flows to simulate: it is for small cases, of at most {}; "
                    "use --network fluid",
                    hosts_.size(), kMaxHosts));
  if (hosts_.empty()) return fail("there is nothing to simulate: no transfer moves anything");
  const Simulate entry = simgrid_module();
  if (entry == nullptr)
    return fail("SimGrid: it is not in this Tracecast (package libsimgrid-dev, then build again): use --network fluid");
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return fail("no pipe to the process that runs SimGrid");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) {
    for (const int end : ends) close(end);
    return fail("no process to run SimGrid in");
  }
  if (child == 0) {
    close(ends[0]);
    be_child(ends[1], entry, *this, driver);
  }
  close(ends[1]);
  const std::string answer = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0 || answer.empty()) return fail("the process that ran SimGrid ended early");
  if (answer.front() == 'e') return fail("SimGrid: " + answer.substr(1));
  return answer.substr(1);
}

}  // namespace tracecast
