/// \file
/// Old names of options and of their values, which are still accepted with a note.
#pragma once

#include <string>

namespace tracecast::cli {

/// Prints to stderr that `old_name` is now called `new_name`.
void note_new_name(const char* old_name, const char* new_name);

/// The name of a network, "isolated" for the old name "analytic".
std::string new_network_name(const std::string& name);

}  // namespace tracecast::cli
