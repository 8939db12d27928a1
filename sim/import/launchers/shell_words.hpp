/// \file
/// Words of a shell script, with their lines.
///
/// Blanks inside quotes belong to a word. '#' begins a comment, a backslash joins lines. ${NAME:-a b}, $(command) and
/// `command` are one word, or a part of one. A here-document is read as a part of the script, unless its quotes are not
/// closed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tracecast {

inline constexpr std::size_t kMaxShellValue = 4096;  ///< bytes of a value

struct ShellWord {
  std::string text;
  int line = 1;
  bool quoted = false;     ///< a part of it is
  bool ends_line = false;  ///< the end of a command that goes not on; the text is ";;" where a branch of case ends
  bool array = false;      ///< an assignment of "(", outside quotes
  int brackets = 0;        ///< round ones, outside quotes: opened, less closed
  int document = 0;        ///< which here-document it is in; 0: the script itself
  int begins = 0;          ///< the here-document that its command is given; 0: it is a word
};

/// Line of a quote that is not closed.
std::optional<int> read_shell_words(const std::string& script, std::vector<ShellWord>& words);

/// The length of the name that `text` begins with.
std::size_t name_length(std::string_view text);

/// "TP=8" and "ARGS+=(": the length of the name before the '=', or 0.
std::size_t assigned_name_length(std::string_view text);

/// An expansion that a text has: $NAME, ${NAME}, ${NAME:-8}, $@, $(command).
struct Expansion {
  std::size_t size = 0;        ///< of all of it; 0: the text begins with none
  std::string_view name = {};  ///< "": not that of a variable
  std::string_view rest = {};  ///< between the name and the bracket: ":-8", "[@]"
};

/// The expansion that `text` begins with.
Expansion expansion_at(std::string_view text);

/// Of all that a variable has: $NAME, ${NAME}, ${ARGS[@]}, and not a part of it as ${NAME%%-*} is.   Requires the name of a variable
bool is_whole(const Expansion& expansion);

}  // namespace tracecast
