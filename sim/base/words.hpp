/// \file
/// Lines, words and numbers of text that other programs wrote.
///
/// What is returned as a view points into the text that was given. Only ASCII letters, digits and blanks mean something.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tracecast {

/// Within a line; a carriage return is one, so that lines of Windows read as others do.
inline constexpr std::string_view kBlanks = " \t\r";

/// The lines without their ends; what follows the last end of a line is one if there is something.
std::vector<std::string_view> lines_of(std::string_view text);

/// What stands between blanks; none of the words is empty.
std::vector<std::string_view> words_of(std::string_view line, std::string_view blanks = kBlanks);

/// Without the blanks at both ends.
std::string_view trimmed(std::string_view text, std::string_view blanks = kBlanks);

/// A to Z as a to z.
std::string lower_case(std::string_view text);

/// The number that `text` is, all of it, and finite: no blank, no '+', nothing behind it. Else empty.
template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>)
    if (!std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace tracecast
