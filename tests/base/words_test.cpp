#include "sim/base/words.hpp"

#include <cstdint>

#include <catch2/catch.hpp>

using namespace tracecast;

using Views = std::vector<std::string_view>;

TEST_CASE("lines: an end of a line closes it, and what follows the last one counts", "[base]") {
  CHECK(lines_of("").empty());
  CHECK(lines_of("a\n\nb") == Views{"a", "", "b"});
  CHECK(lines_of("a\r\nb\n") == Views{"a\r", "b"});
  CHECK(lines_of("\n") == Views{""});
}

TEST_CASE("words: what stands between blanks, and never nothing", "[base]") {
  CHECK(words_of(" \t\r").empty());
  CHECK(words_of("  one\ttwo  three\r") == Views{"one", "two", "three"});
  CHECK(words_of("[1, 2]", "[], ") == Views{"1", "2"});
}

TEST_CASE("words: blanks at the ends go, those inside stay", "[base]") {
  CHECK(trimmed("\t a b \r") == "a b");
  CHECK(trimmed(" \t").empty());
  CHECK(trimmed("a\n") == "a\n");
  CHECK(trimmed(" a\n", " \n") == "a");
}

TEST_CASE("words: only ASCII letters have a lower case", "[base]") { CHECK(lower_case("NVLink-4 Ä") == "nvlink-4 Ä"); }

TEST_CASE("words: a number is all of the text, in the range of its type, and finite", "[base]") {
  CHECK(number_of<int>("-12") == -12);
  CHECK(number_of<double>("1.5e3") == 1500);
  for (const char* const text : {"", " 1", "1 ", "+1", "1.5", "0x10", "2147483648"}) CHECK_FALSE(number_of<int>(text));
  CHECK(number_of<std::int64_t>("2147483648") == 2147483648);
  for (const char* const text : {"nan", "inf", "1e999", "1.5s"}) CHECK_FALSE(number_of<double>(text));
}
