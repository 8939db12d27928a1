// tracecast-worker: one process per rank, started by tracecast under mpirun.

#include "tools/worker/worker.hpp"

#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <mpi.h>

#include "sim/base/sanitized.hpp"
#include "tools/commands.hpp"
#include "tools/freed_memory.hpp"
#include "tools/worker/inputs.hpp"

// Open MPI keeps memory until the process ends; LeakSanitizer must not report it.
#ifdef TRACECAST_SANITIZED
extern "C" int __lsan_is_turned_off() { return 1; }
#endif

namespace {

using namespace tracecast;
using namespace tracecast::worker;

constexpr std::chrono::milliseconds kFarewell{250};

/// Only rank 0 prints errors, since all ranks find the same ones; mpirun passes the exit code on.
int report(const Result<void>& result, bool speak) {
  if (result) return static_cast<int>(cli::ExitCode::done);
  if (speak) fmt::print(stderr, "{}\n", to_string(result.error()));
  return static_cast<int>(cli::ExitCode::bad_input);
}

/// Nothing is given back. Otherwise some programs would map and touch the temporary buffers of large collectives again each
/// time, which doubles their time.
constexpr KeptMemory kKept{.largest_block = 1 << 30, .most = 1 << 30, .step = 128 << 10};

int under_mpi(const std::function<Result<void>()>& work) {
  keep_freed_memory(kKept);
  MPI_Init(nullptr, nullptr);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int code = report(work(), rank == 0);
  MPI_Finalize();
  // On a busy machine, Open MPI 4.1 may see a rank exit before its final message, and then reports a failure.
  std::this_thread::sleep_for(kFarewell);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("One rank of tracecast profile and tracecast execute");
  app.require_subcommand(1);

  ExecuteOptions execution;
  CLI::App& check = *app.add_subcommand("check", "whether the scenario can be executed here");
  add_scenario_options(check, execution);
  CLI::App& run = *app.add_subcommand("execute", "run steps of the scenario");
  add_scenario_options(run, execution);
  add_execute_options(run, execution);

  ProfileOptions recording;
  CLI::App& record = *app.add_subcommand("profile", "time operators and collectives");
  add_profile_options(record, recording);
  record.add_option("--device", recording.device);

  CLI11_PARSE(app, argc, argv);
  if (check.parsed()) return report(check_execution(execution), true);
  if (run.parsed()) return under_mpi([&] { return execute(execution); });
  return under_mpi([&] { return profile(recording); });
}
