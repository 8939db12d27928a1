// tracecast-cuda-worker: one process per GPU, started by tracecast alone or under mpirun.

#include "tools/cuda_worker/cuda_worker.hpp"

#include <cstdio>
#include <cstdlib>
#include <functional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/device_info.hpp"
#include "tools/commands.hpp"
#include "tools/worker/inputs.hpp"

namespace {

using namespace tracecast;
using namespace tracecast::worker;

int say(const std::string& sentence, cli::ExitCode code, bool speak) {
  if (speak) fmt::print(stderr, "{}\n", sentence);
  return static_cast<int>(code);
}

/// Only rank 0 reports input errors, since all ranks find the same ones. Every rank reports errors of its GPU.
int report(const std::function<Result<bool>()>& work, bool speak) {
  try {
    const Result<bool> result = work();
    if (!result) return say(to_string(result.error()), cli::ExitCode::bad_input, speak);
    return static_cast<int>(*result ? cli::ExitCode::done : cli::ExitCode::no);
  } catch (const cuda::DeviceError& error) {
    return say(error.what(), cli::ExitCode::bad_input, true);
  }
}

Result<bool> done(const Result<void>& result) {
  if (!result) return tl::unexpected(result.error());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  // Loading a kernel at its first launch, or streams that share a queue, can wait for a collective that waits for this rank.
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  CLI::App app("One rank of tracecast profile and tracecast execute on a GPU");
  app.require_subcommand(1);
  std::string folder = ".";
  int ranks = 0;  // 0: as the launcher says; 1: alone, whatever variables of a launcher this process inherited
  app.add_option("--ranks", ranks);

  ExecuteOptions execution;
  CLI::App& check = *app.add_subcommand("check", "whether the scenario can be executed here");
  add_scenario_options(check, execution);
  CLI::App& run = *app.add_subcommand("execute", "run steps of the scenario");
  add_scenario_options(run, execution);
  add_execute_options(run, execution);
  run.add_option("--rendezvous", folder);

  CudaProfileOptions recording;
  recording.common.device = "gpu-1b";
  CLI::App& record = *app.add_subcommand("profile", "time operators and collectives");
  add_profile_options(record, recording.common);
  record.add_option("--base", recording.base);
  record.add_option("--seconds", recording.seconds);
  record.add_option("--rendezvous", folder);

  std::uint64_t seed = 1;
  std::string table;
  std::string only;
  CLI::App& verify = *app.add_subcommand("verify", "check every operator against a reference in double precision");
  verify.add_option("--seed", seed);
  verify.add_option("--only", only);
  verify.add_option("--report", table);

  CLI11_PARSE(app, argc, argv);
  const Result<cuda::JobRank> self = cuda::job_rank_from([](const char* name) { return std::getenv(name); }, ranks);
  if (!self) return say(to_string(self.error()), cli::ExitCode::bad_input, true);
  const bool first = self->rank == 0;
  if (const std::string sentence = cuda::missing_device(); !sentence.empty())
    return say(sentence, cli::ExitCode::missing, first);
  const cuda::Rendezvous rendezvous(*self, folder);
  if (check.parsed()) return report([&] { return done(check_cuda_execution(execution)); }, first);
  if (run.parsed()) return report([&] { return done(execute_cuda(execution, rendezvous)); }, first);
  if (verify.parsed()) return report([&] { return verify_cuda(seed, only, table); }, first);
  return report([&] { return profile_cuda(recording, rendezvous); }, first);
}
