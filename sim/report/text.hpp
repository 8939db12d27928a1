/// \file
/// Building blocks of text for a terminal: widths, colours, bars, wrapped paragraphs.
///
/// Nothing here reads the environment: the caller passes the page width and whether to use Unicode and colour.
/// Columns are code points; every character that the pages use is one column wide.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace tracecast {

struct TextStyle {
  int width = 80;        ///< columns of the page
  bool unicode = false;  ///< blocks and lines instead of # and -
  bool colour = false;   ///< ANSI escape sequences
};

enum class Colour { red, green, yellow, blue, magenta, cyan, grey, bold };

/// `text` in a colour, or unchanged if the style has no colour.
std::string paint(std::string_view text, Colour colour, const TextStyle& style);

/// `text` with these words in a colour, where they first occur: after a paragraph is wrapped, which may have divided them.
std::string paint_first(std::string text, std::string_view words, Colour colour, const TextStyle& style);

/// Columns that `text` (UTF-8, no escape sequences) takes.
int columns(std::string_view text);

/// Padded with spaces to `width` columns; longer text is cut with an ellipsis.
std::string pad_right(std::string_view text, int width, const TextStyle& style = {});
std::string pad_left(std::string_view text, int width);

/// A table whose widths are given once, for its header and its rows.
class TextTable {
 public:
  /// A column of negative width is aligned to the left. `gap` blanks separate columns, and rows begin with `indent`.
  explicit TextTable(std::vector<int> widths, int indent = 2, int gap = 1);

  /// A line without a newline, nor blanks at its end. Cells are anything that fmt formats; those longer than their column are
  /// not cut. The last columns may be left out.
  template <class... Cells>
  std::string line(const Cells&... cells) const {
    return joined({fmt::format("{}", cells)...});
  }
  template <class... Cells>
  std::string row(const Cells&... cells) const {
    return line(cells...) + "\n";
  }

 private:
  std::string joined(const std::vector<std::string>& cells) const;

  std::vector<int> widths_;
  int indent_;
  int gap_;
};

/// A bar of `width` columns of which `fraction` (clamped to 0 .. 1) is filled, in eighths of a column with
/// Unicode. A positive fraction always shows. The rest is blank.
std::string bar(double fraction, int width, const TextStyle& style);

/// For the end of a line.
std::string without_trailing_blanks(std::string text);

/// A heading over the full width: "Memory ─────────────".
std::string heading(std::string_view title, const TextStyle& style);

/// Words wrapped to style.width, a number together with its unit; the first line begins with `first`, the others with as many blanks.
/// Ends with a newline.
std::string paragraph(std::string_view first, std::string_view text, const TextStyle& style);

/// Four significant digits with thousands in groups: 1,234,567 · 12.34 · 0.1234.
std::string number(double value, int significant = 4);

/// A share as a percentage: "12.3 %".
std::string percent(double share, int decimals = 1);
/// "+12.3 %"; "0.0 %" of what rounds to it.
std::string signed_percent(double share, int decimals = 1);

/// Seconds in the unit that suits them: "12.3 ms".
std::string time_text(double seconds);

/// Between the parts of a line: " · ", or ", " without Unicode.
std::string_view separator(const TextStyle& style);
/// Of a product: "×", or "x" without Unicode.
std::string_view times(const TextStyle& style);

/// "15.6 T tokens", "300 B tokens", "1 token".
std::string tokens_text(double tokens);

/// A duration in a readable unit, with three digits: "0 s", "3.20 h", "54.1 days", "1.30 years".
std::string duration_in_words(double seconds);

/// A number of days as it was given: "30 days", "1 day".
std::string given_days(double days);

/// "23.8 days"; less than a tenth of a day in a smaller unit: "9.12 min".
std::string days_text(double days);
/// "23.8 days (P10 22.1, P90 25.6)".
std::string days_text(double days, double p10, double p90);

}  // namespace tracecast
