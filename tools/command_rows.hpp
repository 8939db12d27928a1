/// \file
/// The row of each command of commands.def; it is defined in command_<name>.cpp.
#pragma once

#include "tools/commands.hpp"

namespace tracecast::cli {

#define COMMAND(name, row) extern const Command row;
#include "tools/commands.def"
#undef COMMAND

}  // namespace tracecast::cli
