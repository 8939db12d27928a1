/// \file
/// Starts tracecast-worker (CPUs) and tracecast-cuda-worker (GPUs), alone or as ranks under mpirun.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tools/commands.hpp"

namespace tracecast::cli {

/// Of the exit status of a worker, which has those of this program; bad_input for another, also of one that a signal ended.
ExitCode exit_code_of(int status);

/// Empty if this build and this machine can execute steps on CPUs; else a sentence about what is missing.
std::string missing_for_workers();

/// Runs the worker with `arguments`: `ranks` processes under mpirun, or 0 for one process without MPI. Its messages go
/// to standard error. Ctrl-C ends the worker and is returned as its failure.
/// Requires missing_for_workers() to be empty.
ExitCode run_worker(int ranks, const std::vector<std::string>& arguments);

/// The same for GPUs. The worker itself reports a missing driver.
std::string missing_for_cuda_workers(int ranks);

/// Runs the worker on GPUs: one process alone, or `ranks` > 1 under mpirun with a folder for their rendezvous.
/// ExitCode::missing where no GPU can be used.   Requires missing_for_cuda_workers(ranks) to be empty.
ExitCode run_cuda_worker(int ranks, std::vector<std::string> arguments);

/// Reports on standard error what is missing.
ExitCode missing(const std::string& sentence);

/// A file in the folder of this program.
std::filesystem::path beside_this_program(const std::string& name);

/// How a program ended: with a code, by a signal, or it could not be started.
struct ProgramEnd {
  int code = -1;            ///< -1: it did not exit
  int signal = 0;           ///< 0: none ended it
  std::string not_started;  ///< why; empty: it was started
};
/// `with_this_process`: gets SIGTERM if this process ends before it, even by SIGKILL.
enum class Lifetime { own, with_this_process };

/// Runs a program found on the PATH, with Ctrl-C for it alone; SIGTERM, SIGHUP and SIGINT that a process sends to this one are passed
/// on to it. With Lifetime::with_this_process it must be called by a thread that lives as long as the program.
ProgramEnd run_to_end(const std::vector<std::string>& command, Lifetime lifetime);

/// The same for a worker or mpirun. Reports on standard error if it could not be started or a rank ended by a signal other than Ctrl-C's
/// or with another exit code than those of this project. Returns the exit code; -1: none.
int run_program(const std::vector<std::string>& command);

/// The number of cores that this process may run on.
int usable_cores();

}  // namespace tracecast::cli
