/// \file
/// --emit: a layout as settings of a launcher.
#pragma once

#include <string>
#include <vector>

#include "sim/io/scenario.hpp"

namespace tracecast::cli {

/// megatron, deepspeed, torchtitan, accelerate
std::vector<std::string> emitted_formats();

/// Prints the settings to standard output, and those that the launcher cannot express to standard error.
void print_for_launcher(const std::string& format, const Scenario& scenario);

}  // namespace tracecast::cli
