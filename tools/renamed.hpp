/// \file
/// Old names of options and of their values, which are still accepted with a note.
#pragma once

#include <string>

namespace tracecast::cli {

/// Prints to stderr that `old_name` is now called `new_name`.
void note_new_name(const char* old_name, const char* new_name);

/// Prints to stderr that `option` has no effect any more, since it is the default.
void note_now_default(const char* option);

/// The name of a network, "isolated" for the old name "analytic".
std::string new_network_name(const std::string& name);

}  // namespace tracecast::cli
