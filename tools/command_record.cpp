/// `tracecast record`: runs a program and records its GPU activity.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include "sim/base/words.hpp"
#include "sim/io/compressed.hpp"
#include "sim/io/trace_reader.hpp"
#include "sim/io/trace_summary.hpp"
#include "tools/command_rows.hpp"
#include "tools/import_results.hpp"
#include "tools/option_checks.hpp"
#include "tools/worker_process.hpp"
#include "tracer/step_windows.hpp"

namespace tracecast::cli {
namespace {

namespace fs = std::filesystem;

struct RecordOptions {
  std::string out = "run.trace";
  std::string range = "all";
  double delay = 0;
  double duration = 0;
  int steps = 0;
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

/// Tells the files of this recording from those of others: several hosts may share the folder, and a process id comes again.
std::string session_name() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const auto now = std::chrono::system_clock::now().time_since_epoch().count();
  return fmt::format("{:08x}", std::hash<std::string>{}(fmt::format("{} {} {}", host, getpid(), now)) & 0xFFFFFFFFU);
}

struct Recorded {
  fs::path path;
  TraceSummary summary;
  std::string note;  ///< what was done with it
};

/// Every process wrote OUT.pid.SESSION.PID.
std::vector<Recorded> recorded_files(const fs::path& begin) {
  std::vector<Recorded> found;
  for (const auto& entry : fs::directory_iterator(begin.parent_path())) {
    if (!entry.path().filename().string().starts_with(begin.filename().string() + ".")) continue;
    if (const auto summary = trace_summary(entry.path())) found.push_back({entry.path(), *summary, ""});
  }
  std::sort(found.begin(), found.end(), [](const Recorded& a, const Recorded& b) {
    return std::pair(a.summary.header.rank, a.path) < std::pair(b.summary.header.rank, b.path);
  });
  return found;
}

/// Deletes the traces of helper processes: they loaded the driver and gave the GPU no work. Keeps one that says what failed if there
/// is no other.
void delete_empty(std::vector<Recorded>& found) {
  const auto is_empty = [](const Recorded& each) { return !each.summary.has_work(); };
  std::vector<Recorded> failed;
  for (const Recorded& each : found) {
    if (!is_empty(each)) continue;
    if (failed.empty() && !each.summary.header.error.empty()) failed.push_back(each);
    std::error_code ignored;
    fs::remove(each.path, ignored);
  }
  std::erase_if(found, is_empty);
  if (found.empty()) found = failed;
}

/// Leaves only the last whole steps in each trace. The note says where there are too few.
Result<void> keep_steps(std::vector<Recorded>& traces, int steps) {
  for (Recorded& each : traces) {
    Result<Trace> trace = read_trace(each.path, kMostTraceMemory, TracePart::last);
    if (!trace) return tl::unexpected(trace.error());
    if (!keep_last_steps(*trace, steps)) {
      each.note = fmt::format(", fewer than {} whole steps found: everything was kept", steps);
      continue;
    }
    if (Result<void> saved = save_recording(each.path, *trace); !saved) return saved;
    const auto summary = trace_summary(each.path);
    if (!summary) return tl::unexpected(summary.error());
    each.summary = *summary;
    each.note = fmt::format(", the last {} step{}", steps, plural(steps));
  }
  return {};
}

/// What is appended to OUT. One trace has nothing, the only one of a rank .RANK, several of a rank .RANK.0, .RANK.1 … by process: the
/// other ranks of a job may write beside them. Processes without a rank are .0, .1 …, beside ranks .other.0, .other.1 …
std::vector<std::string> endings(const std::vector<Recorded>& traces) {
  if (traces.size() == 1 && traces.front().summary.header.ranks <= 1) return {""};
  std::map<int, int> of_rank;
  for (const Recorded& each : traces) ++of_rank[each.summary.header.rank];
  std::map<int, int> named;
  std::vector<std::string> result;
  for (const Recorded& each : traces) {
    const int rank = each.summary.header.rank;
    const int number = named[rank]++;
    if (rank < 0)
      result.push_back(fmt::format("{}.{}", of_rank.size() > 1 ? ".other" : "", number));
    else
      result.push_back(of_rank[rank] > 1 ? fmt::format(".{}.{}", rank, number) : fmt::format(".{}", rank));
  }
  return result;
}

/// A name with .gz is packed: run.trace.3.gz.
Result<void> name_traces(const fs::path& out, std::vector<Recorded>& traces) {
  const std::vector<std::string> names = endings(traces);
  const bool packed = out.extension() == ".gz";
  const fs::path plain = packed ? fs::path(out).replace_extension() : out;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const fs::path named = plain.string() + names[i] + (packed ? ".gz" : "");
    std::error_code error;
    if (packed) {
      if (const auto ok = pack(traces[i].path, named); !ok) return ok;
      fs::remove(traces[i].path, error);
    } else {
      fs::rename(traces[i].path, named, error);
      if (error) return fail({named.string(), 0, "", "", "cannot be written: " + error.message()});
    }
    traces[i].path = named;
  }
  return {};
}

std::string text_of(const TraceSummary& s) {
  std::string text =
      fmt::format("{} kernels, {} copies, {} ranges, {} collectives", s.kernels, s.copies, s.ranges, s.collectives);
  if (s.dropped > 0) text += fmt::format(", {} records were dropped", s.dropped);
  if (!s.complete) text += ", cut before its end";
  if (s.overhead_ns > 0 && s.span_ns > 0)
    text += fmt::format(", recording took {:.1f} % of the time",
                        100.0 * static_cast<double>(s.overhead_ns) / static_cast<double>(s.span_ns));
  return text;
}

/// Why there is no trace. `loaded`: the program loaded the driver, and with it the recorder.
std::string why_nothing(const RecordOptions& options, bool loaded) {
  const std::string& program = options.command.front();
  if (!loaded) return fmt::format("{} used no GPU: nothing was recorded", program);
  if (options.range != "all")
    return fmt::format("{} gave the GPU no work between cudaProfilerStart and cudaProfilerStop: nothing was recorded",
                       program);
  if (options.delay > 0)
    return fmt::format("{} gave the GPU no work after the first {} s (--delay): nothing was recorded", program,
                       options.delay);
  return fmt::format("{} gave the GPU no work: nothing was recorded", program);
}

/// How the program ended, if not with 0; "" otherwise.
std::string text_of(const std::string& program, const ProgramEnd& end) {
  if (end.signal > 0) return fmt::format("{} was ended by signal {} ({})", program, end.signal, strsignal(end.signal));
  return end.code == 0 ? "" : fmt::format("{} ended with exit code {}", program, end.code);
}

/// A file of an earlier recording must not be taken for this one's.
void say_what_is_older(const fs::path& out, const std::vector<Recorded>& traces) {
  const bool written = std::ranges::any_of(traces, [&](const Recorded& each) { return each.path == out; });
  if (!written && fs::exists(out)) fmt::print(stderr, "note: {} is of an earlier recording\n", out.string());
}

/// An inherited value does not count: the options say what is recorded.
void set_or_unset(const char* variable, bool is_set, const std::string& value) {
  if (is_set)
    setenv(variable, value.c_str(), 1);
  else
    unsetenv(variable);
}

Result<ExitCode> record(const RecordOptions& options) {
  const fs::path recorder = beside_this_program("libtracecast_inject.so");
  if (const std::string sentence = missing_for_recording(recorder); !sentence.empty()) {
    fmt::print(stderr, "{}\n", sentence);
    return ExitCode::missing;
  }
  const fs::path out = fs::absolute(options.out);
  if (!fs::is_directory(out.parent_path())) return fail_key("--out", options.out, "its folder does not exist");
  const fs::path begin = fmt::format("{}.pid.{}", out.string(), session_name());
  setenv("CUDA_INJECTION64_PATH", recorder.c_str(), 1);
  setenv("NVTX_INJECTION64_PATH", recorder.c_str(), 1);
  setenv("NCCL_PROFILER_PLUGIN", recorder.c_str(), 0);  // keeps a plugin of the user
  setenv("TRACECAST_TRACE", begin.c_str(), 1);
  set_or_unset("TRACECAST_RANGE", options.range != "all", options.range);
  set_or_unset("TRACECAST_DELAY", options.delay > 0, fmt::format("{}", options.delay));
  set_or_unset("TRACECAST_DURATION", options.duration > 0, fmt::format("{}", options.duration));
  const ProgramEnd end = run_to_end(options.command, Lifetime::own);
  if (!end.not_started.empty())
    return fail(fmt::format("{}: cannot be started: {}", options.command.front(), end.not_started));
  std::vector<Recorded> traces = recorded_files(begin);
  const bool loaded = !traces.empty();
  delete_empty(traces);
  if (const std::string text = text_of(options.command.front(), end); !text.empty()) fmt::print(stderr, "{}\n", text);
  if (!traces.empty() && !traces.front().summary.has_work() && !traces.front().summary.header.error.empty()) {
    fmt::print(stderr, "nothing was recorded: {}\n", traces.front().summary.header.error);
    say_what_is_older(out, {});
    return ExitCode::no;
  }
  if (options.steps > 0)
    if (const auto kept = keep_steps(traces, options.steps); !kept) return tl::unexpected(kept.error());
  if (const auto named = name_traces(out, traces); !named) return tl::unexpected(named.error());
  for (const Recorded& each : traces) fmt::print("{}: {}{}\n", each.path.string(), text_of(each.summary), each.note);
  if (traces.empty()) fmt::print(stderr, "{}\n", why_nothing(options, loaded));
  say_what_is_older(out, traces);
  return end.code == 0 && !traces.empty() ? ExitCode::done : ExitCode::no;
}

Run add_record_options(CLI::App& app) {
  auto options = std::make_shared<RecordOptions>();
  app.add_option("-o,--out", options->out,
                 "the trace; with several processes one file per rank, FILE.RANK; packed if it ends with .gz")
      ->type_name("FILE")
      ->capture_default_str();
  app.add_option("--range", options->range,
                 "all, or cuda-profiler: only between cudaProfilerStart and cudaProfilerStop of the program")
      ->check(one_of({"all", "cuda-profiler"}))
      ->capture_default_str();
  app.add_option("--delay", options->delay, "begin so many seconds after the program's first use of the GPU")
      ->type_name("SECONDS")
      ->check(at_least_zero());
  app.add_option("--duration", options->duration, "record so many seconds; 0: to the end")
      ->type_name("SECONDS")
      ->check(at_least_zero());
  app.add_option("--steps", options->steps, "keep only so many whole steps of each rank, the last ones; 0: everything")
      ->type_name("NUMBER")
      ->check(in_range(0, 1'000'000));
  app.add_option("COMMAND", options->command, "the program and its arguments, behind --")->required();
  return [options](const Context&) { return record(*options); };
}

}  // namespace

const Command kRecordCommand{"record", "run a program and record its GPU activity", "record --help",
                             add_record_options};

}  // namespace tracecast::cli
