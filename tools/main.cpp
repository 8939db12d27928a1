/// `tracecast`: hands the arguments, the terminal and the table of commands to run_command_line.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "tools/command_line.hpp"
#include "tools/environment.hpp"
#include "tools/freed_memory.hpp"

int main(int argc, char** argv) {
  using namespace tracecast::cli;
  tracecast::keep_freed_memory();
  const auto to = [](FILE* file) {
    return [file](std::string_view text) { std::fwrite(text.data(), 1, text.size(), file); };
  };
  const Output output{
      .style = style_of_stdout(), .show_progress = stderr_is_terminal(), .out = to(stdout), .err = to(stderr)};
  const int code = run_command_line(std::vector<std::string>(argv + 1, argv + argc), commands(), output);
  // A full disk is detected when the buffer is flushed: here, or in a command that printed more and has said so.
  if (code == static_cast<int>(ExitCode::bad_input) && std::ferror(stdout) != 0) return code;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::perror("tracecast: standard output");
    return static_cast<int>(ExitCode::bad_input);
  }
  return code;
}
