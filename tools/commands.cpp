#include "tools/commands.hpp"

#include "tools/command_list.hpp"

namespace tracecast::cli {

std::span<const Command> commands() {
  static constexpr Command kCommands[] = {
      {"predict", "forecast one training step of a scenario", "predict llama3-405b-16k", add_predict},
  };
  return kCommands;
}

}  // namespace tracecast::cli
