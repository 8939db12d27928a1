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
  CHECK(duration_in_words(7.88e-6) == "7.88 us");
  CHECK(duration_in_words(0) == "0 s");
  CHECK(duration_in_words(30) == "30.0 s");
  CHECK(duration_in_words(3600) == "60.0 min");
  CHECK(duration_in_words(10 * 3600) == "10.0 h");
  CHECK(duration_in_words(54 * 86400) == "54.0 days");
  CHECK(duration_in_words(1000 * 86400.0) == "2.74 years");
}

TEST_CASE("tokens are counted in units that can be read", "[report][text]") {
  CHECK(tokens_text(15.6e12) == "15.6 T tokens");
  CHECK(tokens_text(1e12) == "1 T tokens");
  CHECK(tokens_text(300e9) == "300 B tokens");
  CHECK(tokens_text(4'194'304) == "4.194 M tokens");
  CHECK(tokens_text(8192) == "8.192 k tokens");
  CHECK(tokens_text(999) == "999 tokens");
  CHECK(tokens_text(1) == "1 token");
}

TEST_CASE("days are shown in smaller units where they have too many zeros", "[report][text]") {
  CHECK(days_text(23.84) == "23.8 days");
  CHECK(days_text(0.1, 0.09, 0.11) == "0.100 days (P10 0.0900, P90 0.110)");
  CHECK(days_text(0.05, 0.04, 0.11) == "72.0 min (P10 57.6, P90 158)");
  CHECK(given_days(1) == "1 day");
  CHECK(given_days(0.5) == "0.5 days");
}

TEST_CASE("words in a wrapped paragraph are painted, unless the wrapping divided them", "[report]") {
  const TextStyle wide{.width = 40, .colour = true};
  CHECK(paint_first(paragraph("", "it does not fit", wide), "not fit", Colour::red, wide) ==
        "it does " + paint("not fit", Colour::red, wide) + "\n");
  const TextStyle narrow{.width = 12, .colour = true};
  CHECK(paint_first(paragraph("", "it does not fit", narrow), "not fit", Colour::red, narrow) == "it does not\nfit\n");
}

TEST_CASE("a signed percentage that rounds to nothing has no sign", "[report][text]") {
  CHECK(signed_percent(0.0004) == "0.0 %");
  CHECK(signed_percent(-0.0004) == "0.0 %");
  CHECK(signed_percent(0.0006) == "+0.1 %");
  CHECK(signed_percent(-0.0004, 2) == "-0.04 %");
}
