#include "sim/report/text.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;

namespace {
constexpr TextStyle kPlain{.width = 20};
constexpr TextStyle kRich{.width = 20, .unicode = true, .colour = true};
}  // namespace

TEST_CASE("columns counts characters, not bytes", "[report][text]") {
  CHECK(columns("abc") == 3);
  CHECK(columns("█▌x") == 3);
  CHECK(columns("") == 0);
}

TEST_CASE("padding gives the asked width and cuts what is too long", "[report][text]") {
  CHECK(pad_right("ab", 4) == "ab  ");
  CHECK(pad_left("ab", 4) == "  ab");
  CHECK(pad_right("abcdef", 4) == "ab..");
  CHECK(pad_right("abcdef", 4, kRich) == "abc…");
  CHECK(pad_right("▌▌▌▌", 4, kRich) == "▌▌▌▌");
}

TEST_CASE("a bar fills its share in eighths, and never hides a positive share", "[report][text]") {
  CHECK(bar(0.5, 4, kPlain) == "##  ");
  CHECK(bar(1e-9, 4, kPlain) == "    ");
  CHECK(bar(1e-9, 4, kRich) == "▏   ");
  CHECK(bar(0, 4, kPlain) == "    ");
  CHECK(bar(7, 4, kPlain) == "####");
  // 0.53125 of 4 columns are 17 eighths: two full blocks and one eighth.
  CHECK(bar(0.53125, 4, kRich) == "██▏ ");
  for (int i = 0; i <= 100; ++i) CHECK(columns(bar(i / 100.0, 13, kRich)) == 13);
}

TEST_CASE("colours appear only when asked for", "[report][text]") {
  CHECK(paint("x", Colour::red, kPlain) == "x");
  CHECK(paint("x", Colour::red, kRich) == "\x1b[31mx\x1b[0m");
}

TEST_CASE("a heading fills the line", "[report][text]") {
  CHECK(heading("Memory", kPlain) == "Memory -------------\n");
}

TEST_CASE("paragraphs wrap at the width and hang below their first words", "[report][text]") {
  CHECK(paragraph("  - ", "one two three four five", kPlain) == "  - one two three\n    four five\n");
  // Exactly 20 columns fit on the line, 21 do not.
  CHECK(paragraph("", "one_three_ five_nine x", kPlain) == "one_three_ five_nine\nx\n");
  CHECK(paragraph("", "it moves 12 GB (+37.9 s) by 5", TextStyle{.width = 12}) == "it moves\n12 GB\n(+37.9 s) by\n5\n");
  CHECK(paragraph("", "one_three_ five_nine_", kPlain) == "one_three_\nfive_nine_\n");
}

TEST_CASE("numbers keep their significant digits and group thousands", "[report][text]") {
  CHECK(number(1234567) == "1,234,567");
  CHECK(number(12.345678) == "12.35");
  CHECK(number(0.123456) == "0.1235");
  CHECK(number(999.96) == "1,000");
  CHECK(number(-12345) == "-12,345");
  CHECK(number(0) == "0.000");
  CHECK(number(100, 3) == "100");
}

TEST_CASE("spans of time are said as people say them", "[report][text]") {
  CHECK(duration_in_words(30) == "30.0 s");
  CHECK(duration_in_words(3600) == "60.0 min");
  CHECK(duration_in_words(10 * 3600) == "10.0 h");
  CHECK(duration_in_words(54 * 86400) == "54.0 days");
  CHECK(duration_in_words(1000 * 86400.0) == "2.74 years");
}
