/// \file
/// The commands of `tracecast`: one file each, command_<name>.cpp, and one line each in commands.def.
///
/// A command declares its options on a CLI11 subcommand and returns the function that runs it. It parses, calls sim/,
/// and prints to standard output; errors are returned, and main() alone turns them into sentences and exit codes.
/// docs/adding.md walks through adding one.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "sim/base/result.hpp"
#include "sim/report/text.hpp"

namespace CLI {
class App;
}

namespace tracecast::cli {

/// Stable exit codes, the same for every command.
enum class ExitCode {
  done = 0,
  no = 1,         ///< negative result: does not fit, comparison out of tolerance
  bad_input = 2,  ///< a wrong option or file; an Error that a command returns
  missing = 3,    ///< a device or library is missing
};

/// The environment of a command.
struct Context {
  TextStyle style;             ///< of standard output
  bool show_progress = false;  ///< standard error is a terminal
  std::string command;         ///< as typed, quoted for a shell: reports show it so that they can be reproduced
};

/// Runs a command whose options have been parsed.
using Run = std::function<Result<ExitCode>(const Context&)>;

struct Command {
  std::string_view name;
  std::string_view summary;  ///< one line for `tracecast --help`
  std::string_view example;  ///< arguments after `tracecast`; works as printed, a test runs it
  /// Declares the options. They must live as long as the returned function: keep them in a shared_ptr that it
  /// captures.
  Run (*add)(CLI::App& app);
};

/// All commands, in the order of the help.
std::span<const Command> commands();

}  // namespace tracecast::cli
