#include "sim/report/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "sim/base/quantity_text.hpp"
#include "sim/base/result.hpp"
#include "sim/base/units.hpp"
#include "sim/base/words.hpp"

namespace tracecast {
namespace {

bool begins_code_point(char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }

/// The first `count` code points.
std::string_view head(std::string_view text, int count) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (begins_code_point(text[i]) && count-- == 0) return text.substr(0, i);
  }
  return text;
}

std::string blanks(int count) { return std::string(static_cast<std::size_t>(std::max(0, count)), ' '); }

std::string repeat(std::string_view piece, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += piece;
  return out;
}

const char* escape(Colour colour) {
  switch (colour) {
    case Colour::red:
      return "\x1b[31m";
    case Colour::green:
      return "\x1b[32m";
    case Colour::yellow:
      return "\x1b[33m";
    case Colour::blue:
      return "\x1b[34m";
    case Colour::magenta:
      return "\x1b[35m";
    case Colour::cyan:
      return "\x1b[36m";
    case Colour::grey:
      return "\x1b[90m";
    case Colour::bold:
      return "\x1b[1m";
  }
  return "";
}

}  // namespace

std::string paint(std::string_view text, Colour colour, const TextStyle& style) {
  if (!style.colour || text.empty()) return std::string(text);
  return fmt::format("{}{}\x1b[0m", escape(colour), text);
}

std::string paint_first(std::string text, std::string_view words, Colour colour, const TextStyle& style) {
  const std::size_t at = text.find(words);
  return at == std::string::npos ? text : text.replace(at, words.size(), paint(words, colour, style));
}

int columns(std::string_view text) {
  return static_cast<int>(std::count_if(text.begin(), text.end(), begins_code_point));
}

std::string pad_right(std::string_view text, int width, const TextStyle& style) {
  const int have = columns(text);
  if (have <= width) return std::string(text) + blanks(width - have);
  const std::string_view ellipsis = style.unicode ? "…" : "..";
  return std::string(head(text, std::max(0, width - columns(ellipsis)))) + std::string(ellipsis);
}

std::string pad_left(std::string_view text, int width) { return blanks(width - columns(text)) + std::string(text); }

TextTable::TextTable(std::vector<int> widths, int indent, int gap)
    : widths_(std::move(widths)), indent_(indent), gap_(gap) {}

std::string TextTable::joined(const std::vector<std::string>& cells) const {
  TRACECAST_ASSERT(cells.size() <= widths_.size(), "every cell has a column");
  std::string text = blanks(indent_);
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string padding = blanks(std::abs(widths_[i]) - columns(cells[i]));
    if (i > 0) text += blanks(gap_);
    text += widths_[i] < 0 ? cells[i] + padding : padding + cells[i];
  }
  return without_trailing_blanks(std::move(text));
}

std::string bar(double fraction, int width, const TextStyle& style) {
  static constexpr std::array<std::string_view, 8> kEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const double clamped = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0.0;
  const int steps = style.unicode ? 8 : 1;
  int filled = static_cast<int>(std::lround(clamped * width * steps));
  if (clamped > 0 && style.unicode) filled = std::max(filled, 1);
  std::string out = repeat(style.unicode ? "█" : "#", filled / steps);
  int used = filled / steps;
  if (filled % steps != 0) {
    out += kEighths[static_cast<std::size_t>(filled % steps)];
    ++used;
  }
  return out + blanks(width - used);
}

std::string without_trailing_blanks(std::string text) {
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string heading(std::string_view title, const TextStyle& style) {
  const std::string line = repeat(style.unicode ? "─" : "-", style.width - columns(title) - 1);
  return paint(title, Colour::bold, style) + " " + paint(line, Colour::grey, style) + "\n";
}

namespace {

/// The end of the word of `text` from `at` on; a number ends with the word behind it, "4.2 GB/s" or "7 %".
std::size_t end_of_word(std::string_view text, std::size_t at) {
  const std::size_t end = std::min(text.find(' ', at), text.size());
  const bool number = end > at && is_digit(text[end - 1]) && text.find_first_not_of("(+-.,0123456789", at) == end;
  if (!number || end + 1 >= text.size() || text[end + 1] == ' ' || is_digit(text[end + 1])) return end;
  return std::min(text.find(' ', end + 1), text.size());
}

}  // namespace

std::string paragraph(std::string_view first, std::string_view text, const TextStyle& style) {
  const std::string indent = blanks(columns(first));
  std::string out(first);
  int used = columns(first);
  bool at_start = true;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = end_of_word(text, at);
    const std::string_view word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    if (!at_start && used + 1 + columns(word) > style.width) {
      out += "\n" + indent;
      used = columns(indent);
      at_start = true;
    }
    if (!at_start) out += ' ';
    out += word;
    used += columns(word) + (at_start ? 0 : 1);
    at_start = false;
  }
  return out + "\n";
}

std::string number(double value, int significant) {
  if (!std::isfinite(value)) return fmt::format("{}", value);
  // The exponent after rounding: 999.96 has four digits as 1,000 and not as 1,000.0.
  const std::string scientific = fmt::format("{:.{}e}", value, significant - 1);
  const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
  const int decimals = std::max(0, significant - 1 - exponent);
  std::string text = fmt::format("{:.{}f}", value, decimals);
  const std::size_t begin = text[0] == '-' ? 1 : 0;
  std::size_t point = std::min(text.find('.'), text.size());
  while (point > begin + 3) {
    point -= 3;
    text.insert(point, ",");
  }
  return text;
}

std::string percent(double share, int decimals) { return fmt::format("{:.{}f} %", 100 * share, decimals); }
std::string signed_percent(double share, int decimals) {
  const std::string text = fmt::format("{:+.{}f} %", 100 * share, decimals);
  return text.find_first_of("123456789in") == std::string::npos ? text.substr(1) : text;
}

std::string time_text(double seconds) { return to_text(from_seconds(seconds)); }

std::string_view separator(const TextStyle& style) { return style.unicode ? " · " : ", "; }
std::string_view times(const TextStyle& style) { return style.unicode ? "×" : "x"; }

std::string tokens_text(double tokens) {
  constexpr std::array<std::pair<double, std::string_view>, 5> kUnits{
      {{1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1e3, " k"}, {1, ""}}};
  const auto* unit = std::find_if(kUnits.begin(), kUnits.end() - 1, [=](const auto& u) { return tokens >= u.first; });
  return fmt::format("{:.4g}{} token{}", tokens / unit->first, unit->second, plural(tokens));
}

namespace {

/// The unit in which a duration has few digits, and its seconds.
std::pair<double, const char*> long_unit(double seconds) {
  if (seconds < 120) return {1, "s"};
  if (seconds < 2 * kSecondsPerHour) return {60, "min"};
  if (seconds < 2 * kSecondsPerDay) return {kSecondsPerHour, "h"};
  if (seconds < 2 * kSecondsPerYear) return {kSecondsPerDay, "days"};
  return {kSecondsPerYear, "years"};
}

}  // namespace

std::string duration_in_words(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds > 0 && seconds < 0.01) return time_text(seconds);
  const auto [each, unit] = long_unit(seconds);
  return number(seconds / each, 3) + " " + unit;
}

namespace {
constexpr double kFewDays = 0.1;  ///< below, days have too many zeros to be read
}

std::string given_days(double days) { return fmt::format("{:g} day{}", days, plural(days)); }

std::string days_text(double days) {
  return days < kFewDays ? duration_in_words(days * kSecondsPerDay) : number(days, 3) + " days";
}

std::string days_text(double days, double p10, double p90) {
  const auto [each, unit] = days >= kFewDays ? std::pair(kSecondsPerDay, "days") : long_unit(days * kSecondsPerDay);
  const auto in_unit = [&, each = each](double value) { return number(value * kSecondsPerDay / each, 3); };
  return fmt::format("{} {} (P10 {}, P90 {})", in_unit(days), unit, in_unit(p10), in_unit(p90));
}

}  // namespace tracecast
