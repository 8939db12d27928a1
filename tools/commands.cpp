#include "tools/commands.hpp"

#include "tools/command_rows.hpp"

namespace tracecast::cli {

std::span<const Command> commands() {
  static const Command kCommands[] = {
#define COMMAND(name, row) row,
#include "tools/commands.def"
#undef COMMAND
  };
  return kCommands;
}

}  // namespace tracecast::cli
