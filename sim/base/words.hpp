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

/// Blanks within a line. A carriage return is one, so that Windows line ends are ignored.
inline constexpr std::string_view kBlanks = " \t\r";

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Has `text` the letters of `part` one after another, also inside of a word?
constexpr bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// Removes the first line and returns it without its end: for texts of millions of lines.
std::string_view take_line(std::string_view& text);

/// The lines without their ends; what follows the last end of a line is one if there is something.
std::vector<std::string_view> split_lines(std::string_view text);

/// The words between blanks; none of them is empty.
std::vector<std::string_view> split_words(std::string_view line, std::string_view blanks = kBlanks);

/// The parts between separators, also empty ones: "a,,b" has three, and an empty text one.
std::vector<std::string_view> split(std::string_view text, char separator = ',');

/// Without the blanks at both ends.
std::string_view trim(std::string_view text, std::string_view blanks = kBlanks);

/// "tensor_parallel" as "tensor parallel".
std::string spaced(std::string_view name);

/// The end of a noun behind `count`: "" or "s".
constexpr std::string_view plural(auto count) { return count == 1 ? "" : "s"; }

/// A to Z as a to z.
std::string lower_case(std::string_view text);

/// The number that is the whole text: finite, without blanks, without '+'. Empty if the text is anything else.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>)
    if (!std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace tracecast
