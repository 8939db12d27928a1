/// \file
/// What the parts of a shell script decide that the script itself says: tests of if, patterns of case, and arithmetic.
///
/// A value is known (`ShellLookup`) where nothing outside the script can change it. With any other value, and in any other form of
/// test, the answer is open.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sim/import/launchers/shell_words.hpp"

namespace tracecast {

struct ShellLookup {
  /// The known text of a variable; nothing: it is not known.
  std::function<std::optional<std::string>(std::string_view variable)> text;
  /// The script never sets the variable: it is taken as not set, so that ${NAME:-8} is 8. None: no variable is.
  std::function<bool(std::string_view variable)> is_unset = {};
};

/// A text with the known values of all that it expands, $((8 / TP)) and ${TP:-8} included.
std::optional<std::string> known_text(std::string_view text, const ShellLookup& lookup);

/// The words between if and then: "[ a = b ]", "[[ a == b ]]", "test -n a" and integers (-eq …), after "!", joined by && and ||.
std::optional<bool> known_condition(std::span<const ShellWord> words, const ShellLookup& lookup);

/// Whether the subject of case matches one of the patterns "8b|70b)".
std::optional<bool> known_match(const std::optional<std::string>& subject, std::string_view patterns,
                                const ShellLookup& lookup);

}  // namespace tracecast
