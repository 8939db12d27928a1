#include "tools/worker_process.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/temporary_folder.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;

fs::path worker_path() { return beside_this_program("tracecast-worker"); }

fs::path cuda_worker_path() { return beside_this_program("tracecast-cuda-worker"); }

bool is_program(const fs::path& path) { return access(path.c_str(), X_OK) == 0; }

bool finds_mpirun() {
  const char* const path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    if (is_program(fs::path(rest.substr(0, colon)) / "mpirun")) return true;
    rest.remove_prefix(std::min(rest.size(), colon + 1));
  }
  return false;
}

/// Ranks are not bound to cores, since the machine may be shared, and run on this host, though a job's allocation has others. Open MPI
/// needs --allow-run-as-root for root.
std::vector<std::string> mpirun(int ranks) {
  std::vector<std::string> command{
      "mpirun", "--oversubscribe",    "--bind-to", "none", "--host", fmt::format("localhost:{}", ranks), "-q",
      "-n",     std::to_string(ranks)};
  if (geteuid() == 0) command.insert(command.begin() + 1, "--allow-run-as-root");
  return command;
}

/// 0: none.
volatile std::sig_atomic_t running_child = 0;
/// The last signal that was passed on to it; 0: none.
volatile std::sig_atomic_t passed_on = 0;

/// Ctrl-C comes from the kernel and reaches the child too; a signal that a process sent to this one alone does not.
void pass_on(int signal, siginfo_t* from, void*) {
  const bool by_process = from->si_code <= 0;
  if (running_child <= 0 || (signal == SIGINT && !by_process)) return;
  passed_on = signal;
  kill(static_cast<pid_t>(running_child), signal);
}

/// Passes a signal on to the child for a while. A signal that this process was started to ignore, as by nohup, stays ignored.
class PassOn {
 public:
  explicit PassOn(int signal) : signal_(signal) {
    sigaction(signal_, nullptr, &before_);
    if (before_.sa_handler == SIG_IGN) return;
    struct sigaction passing {};
    passing.sa_sigaction = pass_on;
    passing.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(signal_, &passing, nullptr);
  }
  ~PassOn() { sigaction(signal_, &before_, nullptr); }
  PassOn(const PassOn&) = delete;
  PassOn& operator=(const PassOn&) = delete;

 private:
  int signal_;
  struct sigaction before_ {};
};

struct Started {
  pid_t child = 0;
  int error = 0;  ///< errno of a program that could not be started
};

/// `mask`: the program's signal mask. The child calls nothing but async-signal-safe functions; posix_spawn cannot tie it to its parent.
Started start(const std::vector<std::string>& command, Lifetime lifetime, const sigset_t& mask) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  int failure[2];  // closed by exec, or the errno of its failure
  if (pipe2(failure, O_CLOEXEC) != 0) return {0, errno};
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGINT, SIG_DFL);
    if (lifetime == Lifetime::with_this_process) prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    if (getppid() == parent) execvp(arguments.front(), arguments.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(failure[1], &error, sizeof error);
    _exit(127);
  }
  Started started{child, child < 0 ? errno : 0};
  close(failure[1]);
  int error = 0;
  if (child > 0 && read(failure[0], &error, sizeof error) == sizeof error) {
    started.error = error;
    waitpid(child, nullptr, 0);
  }
  close(failure[0]);
  return started;
}

}  // namespace

ExitCode exit_code_of(int status) {
  switch (status) {
    case 0:
      return ExitCode::done;
    case 1:
      return ExitCode::no;
    case 3:
      return ExitCode::missing;
    default:
      return ExitCode::bad_input;
  }
}

ExitCode missing(const std::string& sentence) {
  fmt::print(stderr, "{}\n", sentence);
  return ExitCode::missing;
}

std::string missing_for_workers() {
  if (!is_program(worker_path()))
    return "nothing can be executed on CPUs: this build has no tracecast-worker (it needs OpenBLAS and Open MPI)";
  if (!finds_mpirun()) return "nothing can be executed on CPUs: mpirun (Open MPI) is not on the PATH";
  return "";
}

std::string missing_for_cuda_workers(int ranks) {
  if (!is_program(cuda_worker_path()))
    return "nothing can be run on GPUs: this build has no tracecast-cuda-worker (it needs CUDA, cuDNN and NCCL)";
  if (ranks > 1 && !finds_mpirun()) return "several GPUs need several processes: mpirun (Open MPI) is not on the PATH";
  return "";
}

ExitCode run_cuda_worker(int ranks, std::vector<std::string> arguments) {
  std::vector<std::string> command = ranks > 1 ? mpirun(ranks) : std::vector<std::string>{};
  command.insert(command.end(), {cuda_worker_path().string(), "--ranks", std::to_string(ranks)});
  command.insert(command.end(), arguments.begin(), arguments.end());
  std::optional<TemporaryFolder> folder;
  if (ranks > 1) {
    folder.emplace();
    if (!folder->good()) {
      fmt::print(stderr, "{}: cannot be made, so that the ranks cannot meet\n", folder->path());
      return ExitCode::bad_input;
    }
    command.insert(command.end(), {"--rendezvous", folder->path()});
  }
  return exit_code_of(run_program(command));
}

ExitCode run_worker(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = ranks > 0 ? mpirun(ranks) : std::vector<std::string>{};
  command.push_back(worker_path().string());
  command.insert(command.end(), arguments.begin(), arguments.end());
  return exit_code_of(run_program(command));
}

std::filesystem::path beside_this_program(const std::string& name) {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored).parent_path() / name;
}

ProgramEnd run_to_end(const std::vector<std::string>& command, Lifetime lifetime) {
  // Ctrl-C reaches the program too: this process keeps running to report the result. Requests to end are passed on; those that come
  // before the program runs wait until then.
  sigset_t ends;
  sigset_t before;
  sigemptyset(&ends);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&ends, signal);
  pthread_sigmask(SIG_BLOCK, &ends, &before);
  const PassOn interrupt(SIGINT);
  const PassOn end(SIGTERM);
  const PassOn hang_up(SIGHUP);
  passed_on = 0;
  const Started started = start(command, lifetime, before);
  running_child = started.error == 0 ? started.child : 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  ProgramEnd ended;
  if (started.error != 0) {
    ended.not_started = std::strerror(started.error);
    return ended;
  }
  int status = 0;
  while (waitpid(started.child, &status, 0) < 0 && errno == EINTR) {
  }
  running_child = 0;
  if (WIFEXITED(status)) ended.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) ended.signal = WTERMSIG(status);
  return ended;
}

int run_program(const std::vector<std::string>& command) {
  constexpr int kLastCode = static_cast<int>(ExitCode::missing);
  constexpr int kMpirunSignals = 128;
  const ProgramEnd ended = run_to_end(command, Lifetime::with_this_process);
  int signal = ended.signal;
  if (ended.code > kMpirunSignals) signal = ended.code - kMpirunSignals;  // that ended a rank
  if (ended.code != 0 && passed_on != 0) signal = static_cast<int>(passed_on);
  if (!ended.not_started.empty())
    fmt::print(stderr, "{}: cannot be started: {}\n", command.front(), ended.not_started);
  else if (signal > 0 && signal != SIGINT)
    fmt::print(stderr, "a rank ended unexpectedly (signal {}: {})\n", signal, strsignal(signal));
  else if (signal == 0 && ended.code > kLastCode)
    fmt::print(stderr, "a rank ended unexpectedly (exit code {})\n", ended.code);
  return ended.code;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

}  // namespace tracecast::cli
