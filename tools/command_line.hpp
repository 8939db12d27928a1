/// \file
/// The command line from arguments to exit code: the body of main(), callable from a test.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/commands.hpp"

namespace tracecast::cli {

/// Where the text of a run goes, and in which style.
struct Output {
  TextStyle style;
  bool show_progress = false;
  std::function<void(std::string_view)> out;  ///< help and version
  std::function<void(std::string_view)> err;  ///< one sentence per error
};

/// Parses `arguments` (without the program's name) for one of `table`, runs it, and returns the exit code.
int run_command_line(std::vector<std::string> arguments, std::span<const Command> table, const Output& output);

}  // namespace tracecast::cli
