/// \file
/// --emit: a layout as settings of a launcher.
#pragma once

#include <string>
#include <vector>

#include "sim/io/scenario.hpp"

namespace tracecast::cli {

/// Launchers whose files can be written: megatron, megatron-bridge, deepspeed, torchtitan, accelerate.
std::vector<std::string> emitted_launchers();

/// The same, and scenario: a scenario file.
std::vector<std::string> emitted_formats();

/// Prints the settings to standard output, and to standard error those that the launcher cannot express and the rules
/// that it would refuse them by. False: it refuses them.
bool print_for_launcher(const std::string& format, const Scenario& scenario);

}  // namespace tracecast::cli
