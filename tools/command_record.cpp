/// `tracecast record`: runs a program and records its GPU activity.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include "sim/io/trace_reader.hpp"
#include "tools/command_list.hpp"
#include "tools/worker_process.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string out = "run.trace";
  std::vector<std::string> command;
};

/// A sentence about what is missing for a recording; "" if recording is possible.
std::string missing_for_recording(const fs::path& recorder) {
  if (access(recorder.c_str(), R_OK) != 0)
    return "programs cannot be recorded: this build has no libtracecast_inject.so (it needs the CUDA toolkit with "
           "CUPTI)";
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver == nullptr) return "programs cannot be recorded here: no NVIDIA driver found (libcuda.so.1)";
  dlclose(driver);
  return "";
}

constexpr const char* kOfProcess = ".pid";  // between OUT and a process id; OUT.0 may be from an earlier recording

/// Every process wrote OUT.pid.PID. One alone becomes OUT; several OUT.0, OUT.1 … in the order of their ranks, then
/// pids.
std::vector<fs::path> name_traces(const fs::path& out) {
  struct Found {
    int rank;
    std::int64_t process;
    fs::path path;
  };
  std::vector<Found> found;
  for (const auto& entry : fs::directory_iterator(out.parent_path())) {
    const std::string name = entry.path().filename().string();
    const std::string begin = out.filename().string() + kOfProcess + ".";
    if (!name.starts_with(begin) || name.find_first_not_of("0123456789", begin.size()) != std::string::npos) continue;
    if (const Result<Trace> trace = read_trace(entry.path()))
      found.push_back({trace->header.rank, trace->header.process, entry.path()});
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return std::pair(a.rank, a.process) < std::pair(b.rank, b.process); });
  std::vector<fs::path> named;
  for (const Found& each : found) {
    named.push_back(found.size() == 1 ? out : fs::path(out.string() + "." + std::to_string(named.size())));
    std::error_code ignored;
    fs::rename(each.path, named.back(), ignored);
  }
  return named;
}

void describe(const fs::path& path) {
  const Result<Trace> trace = read_trace(path);
  if (!trace) return;
  fmt::print("{}: {} kernels, {} copies, {} ranges, {} collectives{}{}\n", path.string(), trace->kernels.size(),
             trace->copies.size(), trace->ranges.size(), trace->collectives.size(),
             trace->dropped > 0 ? fmt::format(", {} records were dropped", trace->dropped) : "",
             trace->complete ? "" : ", cut before its end");
}

Result<ExitCode> record(const Options& options) {
  const fs::path recorder = beside_this_program("libtracecast_inject.so");
  if (const std::string sentence = missing_for_recording(recorder); !sentence.empty()) {
    fmt::print(stderr, "{}\n", sentence);
    return ExitCode::missing;
  }
  const fs::path out = fs::absolute(options.out);
  if (!fs::is_directory(out.parent_path())) return fail({"", 0, "--out", options.out, "its folder does not exist"});
  setenv("CUDA_INJECTION64_PATH", recorder.c_str(), 1);
  setenv("NVTX_INJECTION64_PATH", recorder.c_str(), 1);
  setenv("NCCL_PROFILER_PLUGIN", recorder.c_str(), 0);  // keeps a plugin of the user
  setenv("TRACECAST_TRACE", (out.string() + kOfProcess).c_str(), 1);
  const int status = run_program(options.command);
  const std::vector<fs::path> traces = name_traces(out);
  for (const fs::path& path : traces) describe(path);
  if (status != 0) fmt::print(stderr, "{} ended with {}\n", options.command.front(), status);
  if (traces.empty()) fmt::print(stderr, "{} used no GPU: nothing was recorded\n", options.command.front());
  return status == 0 && !traces.empty() ? ExitCode::done : ExitCode::no;
}

Run add_options(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("-o,--out", options->out, "the trace; with several processes one file per process")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("COMMAND", options->command, "the program and its arguments, behind --")->required();
  return [options](const Context&) { return record(*options); };
}

}  // namespace

const Command kRecordCommand{"record", "run a program and record its GPU activity", "record --help", add_options};

}  // namespace tracecast::cli
