/// \file
/// What `tracecast import` makes of a file: a function for each kind of format, in a file of its own (import_<what>.cpp).
/// command_import.cpp has the table of formats, made of those of the readers.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "tools/command_list.hpp"

namespace tracecast::cli {

/// What the command line says about one import.
struct ImportOptions {
  std::string format;
  std::string file;
  std::string output;  ///< empty: standard output
  std::string into;    ///< of measured collectives: the profile that they are put into
  // What the file of a launcher does not say:
  std::string model;
  std::string topology;
  int gpus = 0;
  std::vector<std::string> overrides;
};

/// Reads `content`, that of options.file, and writes what became of it.
using Import = Result<ExitCode> (*)(const ImportOptions& options, const std::string& content, const Context& context);

Result<ExitCode> import_nccl_log(const ImportOptions& options, const std::string& content, const Context& context);
/// Collectives that others measured, as a table.
Result<ExitCode> import_measurements(const ImportOptions& options, const std::string& content, const Context& context);
/// Steps that others describe, as timelines.
Result<ExitCode> import_foreign_step(const ImportOptions& options, const std::string& content, const Context& context);
/// Calculon's applications as models, its executions as settings.
Result<ExitCode> import_calculon(const ImportOptions& options, const std::string& content, const Context& context);
/// Recordings of profilers, as traces.
Result<ExitCode> import_trace(const ImportOptions& options, const std::string& content, const Context& context);
/// Machines: "topology" by their content, the others by their name.
Result<ExitCode> import_machine(const ImportOptions& options, const std::string& content, const Context& context);
/// Runs, as launchers are told of them; the result is a scenario.
Result<ExitCode> import_launcher(const ImportOptions& options, const std::string& content, const Context& context);

/// Writes `text` to options.output and prints `summary`, or prints `text` alone.
Result<ExitCode> deliver(const ImportOptions& options, const std::string& text, const std::string& summary);

}  // namespace tracecast::cli
