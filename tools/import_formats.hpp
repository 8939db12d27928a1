/// \file
/// The import functions of `tracecast import`: one per kind of format, each in its file import_<what>.cpp.
/// command_import.cpp joins the readers' tables of formats.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "tools/command_list.hpp"

namespace tracecast::cli {

/// Command-line options of one import.
struct ImportOptions {
  std::string format;
  std::string file;
  std::string output;  ///< empty: standard output
  std::string into;    ///< for measured collectives: the profile to add them to
  // Not contained in a launcher's file:
  std::string model;
  std::string topology;
  int gpus = 0;
  std::vector<std::string> overrides;
};

/// Converts `content`, the text of options.file, and writes the result.
using Import = Result<ExitCode> (*)(const ImportOptions& options, const std::string& content, const Context& context);

Result<ExitCode> import_nccl_log(const ImportOptions& options, const std::string& content, const Context& context);
/// Measured collectives as a table.
Result<ExitCode> import_measurements(const ImportOptions& options, const std::string& content, const Context& context);
/// Steps in other simulators' formats, as timelines.
Result<ExitCode> import_foreign_step(const ImportOptions& options, const std::string& content, const Context& context);
/// Calculon's applications as models, its executions as settings.
Result<ExitCode> import_calculon(const ImportOptions& options, const std::string& content, const Context& context);
/// Recordings of profilers, as traces.
Result<ExitCode> import_trace(const ImportOptions& options, const std::string& content, const Context& context);
/// Machines: "topology" detects the format by content, the others name it.
Result<ExitCode> import_machine(const ImportOptions& options, const std::string& content, const Context& context);
/// Launcher settings of a run; the result is a scenario.
Result<ExitCode> import_launcher(const ImportOptions& options, const std::string& content, const Context& context);

/// Writes `text` to options.output and prints `summary`, or prints `text` alone.
Result<ExitCode> deliver(const ImportOptions& options, const std::string& text, const std::string& summary);

}  // namespace tracecast::cli
