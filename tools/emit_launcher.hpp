/// \file
/// --emit: a layout as a launcher takes it.
#pragma once

#include <string>
#include <vector>

#include "sim/io/scenario.hpp"

namespace tracecast::cli {

/// megatron, deepspeed, torchtitan, accelerate
std::vector<std::string> emitted_formats();

/// The text on standard output, what the launcher has no word for on standard error.
void print_for_launcher(const std::string& format, const Scenario& scenario);

}  // namespace tracecast::cli
