#include "tools/commands.hpp"

#include "tools/command_list.hpp"

namespace tracecast::cli {

std::span<const Command> commands() {
  // static constexpr Command kCommands[] = {{"name", "one line for the help", "name --of an-example", add_name}};
  return {};
}

}  // namespace tracecast::cli
