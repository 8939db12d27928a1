/// \file
/// Parts of a text, as the expansions of Bash take them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tracecast {

/// What ${NAME…} is of a variable's text; `rest` is what stands behind the name:
///
///   :2  :2:3  : -1      from a position on, so many characters
///   #p  ##p  %p  %%p    without the shortest or longest beginning or end that the pattern p matches
///   /p/r  //p/r         with r in place of the first or of each longest match; /#p/r and /%p/r: at the beginning, at the end
///
/// A pattern has characters, * and ?. Nothing: another form, a pattern with brackets or backslashes, a position that is no number, a text of
/// more than 128 bytes for a pattern.
std::optional<std::string> part_of(const std::string& text, std::string_view rest);

/// Whether a pattern of characters, * and ? matches all of a text. Nothing: another pattern.
std::optional<bool> matches_pattern(std::string_view text, std::string_view pattern);

}  // namespace tracecast
