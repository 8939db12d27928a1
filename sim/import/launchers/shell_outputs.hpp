/// \file
/// Where the commands of a shell script write, which tells text from commands: a here-document or an echo is text, unless a shell
/// runs it, or another command names the file that it becomes.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tracecast {

/// The name of a file without its folder, written in one way.
std::string shell_file_name(std::string_view word);

class ShellOutputs {
 public:
  /// `document`: which here-document the command is in; 0: none.
  void begin_command(const std::string& program, int document);
  /// A word of the command that was begun, behind its program.
  void add_word(std::string_view word);
  /// The command that was begun, if any, writes to this file.
  void write_to(std::string_view file);
  /// It is given this here-document.
  void give_document(int document);
  /// `pipes`: what it writes goes to the next command.
  void end_command(bool pipes);

  /// The text of a document that goes to the terminal.
  bool is_shown(int document) const;
  /// [command] text that is written, and not run by another command.   Requires that all commands were read
  std::vector<bool> texts() const;

 private:
  struct Output {
    std::string program;
    int document = 0;
    std::string file = {};
    bool feeds = false;  ///< a shell
    bool writes() const;
  };

  std::vector<Output> outputs_;           ///< [command]
  std::optional<std::size_t> command_;    ///< that was begun
  std::optional<std::size_t> feeding_;    ///< the one before '|'
  std::map<int, std::size_t> documents_;  ///< [here-document] the command that is given it
  std::set<std::string> mentioned_;       ///< words of commands that may be files
};

}  // namespace tracecast
