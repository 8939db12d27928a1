#include "sim/base/words.hpp"

#include <cstdint>

#include <catch2/catch.hpp>

using namespace tracecast;

using Views = std::vector<std::string_view>;

TEST_CASE("lines: an end of a line closes it, and what follows the last one counts", "[base]") {
  CHECK(split_lines("").empty());
  CHECK(split_lines("a\n\nb") == Views{"a", "", "b"});
  CHECK(split_lines("a\r\nb\n") == Views{"a\r", "b"});
  CHECK(split_lines("\n") == Views{""});
}

TEST_CASE("words: what stands between blanks, and never nothing", "[base]") {
  CHECK(split_words(" \t\r").empty());
  CHECK(split_words("  one\ttwo  three\r") == Views{"one", "two", "three"});
  CHECK(split_words("[1, 2]", "[], ") == Views{"1", "2"});
}

TEST_CASE("words: blanks at the ends go, those inside stay", "[base]") {
  CHECK(trim("\t a b \r") == "a b");
  CHECK(trim(" \t").empty());
  CHECK(trim("a\n") == "a\n");
  CHECK(trim(" a\n", " \n") == "a");
}

TEST_CASE("words: only ASCII letters have a lower case", "[base]") { CHECK(lower_case("NVLink-4 Ä") == "nvlink-4 Ä"); }

TEST_CASE("words: a number is all of the text, in the range of its type, and finite", "[base]") {
  CHECK(parse_number<int>("-12") == -12);
  CHECK(parse_number<double>("1.5e3") == 1500);
  for (const char* const text : {"", " 1", "1 ", "+1", "1.5", "0x10", "2147483648"})
    CHECK_FALSE(parse_number<int>(text));
  CHECK(parse_number<std::int64_t>("2147483648") == 2147483648);
  for (const char* const text : {"nan", "inf", "1e999", "1.5s"}) CHECK_FALSE(parse_number<double>(text));
}

TEST_CASE("words: lines one after the other, without a list of all", "[base]") {
  std::string_view text = "a\n\nb";
  CHECK(take_line(text) == "a");
  CHECK(take_line(text).empty());
  CHECK(take_line(text) == "b");
  CHECK(text.empty());
  CHECK(take_line(text).empty());
}

TEST_CASE("words: digits and parts of a text", "[base]") {
  CHECK((is_digit('0') && is_digit('9')));
  CHECK_FALSE((is_digit('/') || is_digit(':') || is_digit('\xB2')));
  CHECK(contains("tp_comm_overlap", "comm"));
  CHECK(contains("", ""));
  CHECK_FALSE(contains("abc", "ca"));
}
