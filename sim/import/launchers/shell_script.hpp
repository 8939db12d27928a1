/// \file
/// What the commands and variables of a shell script hold: arguments that begin with "--", and other variables.
///
/// Commands are not run: of branches, loops and functions all are read, one after the other. '=' replaces what a variable had, '+=' adds to it;
/// of the branches of one if or case, the last one that sets a variable counts, unless the script itself decides which of them runs
/// (shell_condition.hpp). ${TP:-8} is 8 unless the script sets TP, ${TP:+--flag} is nothing, $((8 / 2)) is 4, ${NAME%%-*} a part of a
/// text that is known. TP=8 before a program holds for that alone. Not done: $(commands), sourced files, parts of variables with arguments.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/import/launchers/shell_branches.hpp"
#include "sim/import/launchers/shell_words.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {

using ShellNames = std::set<std::string, std::less<>>;

/// Names have '-' in place of '_'. The value of --flag is true, that of several words one text with blanks.
struct ShellArgument {
  std::string name;
  JsonNode value;
  int order = 0;             ///< in the script
  ShellBranches::Path path;  ///< where it is
  bool conditional = false;  ///< it may not be given
};

/// An expansion in place of arguments that the script does not have.
struct UnknownExpansion {
  std::string text;
  std::string name;  ///< of a variable; "": something else
  int line = 0;
};

/// Of a command or a variable.
struct ShellContents {
  std::vector<ShellArgument> arguments;
  bool has_arguments = false;  ///< itself, or a variable that it expands
  ShellNames uses;             ///< variables that it expands: $ARGS, ${ARGS[@]}
  ShellNames cuts;             ///< variables with arguments of which it takes a part: ${ARGS%%--fp8*}
  std::vector<UnknownExpansion> unknown;
};

struct ShellVariable {
  std::optional<std::string> text;  ///< nothing: arguments
  bool fixed = false;               ///< the text is the script's own, whatever it is given
  ShellContents held;
  ShellBranches::Path path;                                          ///< where the text was set
  ShellNames unset;                                                  ///< variables that a fixed text takes as not set
  std::set<int> branch_lines;                                        ///< lines in branches that set it
  std::vector<std::pair<ShellBranches::Path, std::string>> earlier;  ///< texts of other branches, and from before them
};

struct ShellCommand {
  std::string program;   ///< its first word
  int line = 0;          ///< of the Python file, where there is one, else of the command
  std::string python;    ///< its name without its folder; "": there is none
  bool is_text = false;  ///< written to the terminal or a file, and not run: words of echo, of a document for cat
  int document = 0;      ///< the here-document that it is in; 0: none
  std::vector<std::string> words = {};  ///< as they are written, the program first, without assignments
  ShellContents held;
};

struct ShellScript {
  std::vector<ShellCommand> commands;
  std::map<std::string, ShellVariable, std::less<>> variables;
  std::set<int> branch_lines;          ///< lines in branches whose texts are parts of arguments
  std::map<int, std::string> sources;  ///< [line] files that the script sources
  ShellNames unset;                    ///< variables whose absence decides branches
  ShellNames loops;                    ///< variables that run over the words of for

  /// The script sets it, and not to another unknown.
  bool is_known(std::string_view variable) const;
  /// The variable has arguments, or had expanded one that has.
  bool holds_arguments(std::string_view variable) const;
  /// The variables that the contents expand, and those inside them.
  ShellNames reached(const ShellContents& contents) const;
};

ShellScript read_shell_script(const std::vector<ShellWord>& words);

}  // namespace tracecast
