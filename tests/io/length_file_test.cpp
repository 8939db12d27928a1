#include "sim/io/length_file.hpp"

#include <catch2/catch.hpp>

#include "tests/support/results.hpp"

using namespace tracecast;

namespace {

std::string error_of(const std::string& text) { return error_text(parse_length_histogram(text, "lengths.txt")); }

}  // namespace

TEST_CASE("lengths of documents: one per line, or with a count", "[io][packing]") {
  const auto histogram = parse_length_histogram("# tokens\n512\n\n2048, 3\r\n512\n 7\t2", "mine").value();
  CHECK(histogram == std::map<std::string, double>{{"512", 2}, {"2048", 3}, {"7", 2}});
}

TEST_CASE("lengths of documents: every mistake has its line", "[error][io][packing]") {
  const std::string allowed = ": is not a number of tokens, with or without a count (allowed: 1 to 999999999)";
  CHECK(error_of("") == "lengths.txt: has no lengths of documents");
  CHECK(error_of("12\nmany") == "lengths.txt:2: length = many" + allowed);
  CHECK(error_of("0") == "lengths.txt:1: length = 0" + allowed);
  CHECK(error_of("12 3 4") == "lengths.txt:1: length = 12 3 4" + allowed);
  CHECK(error_of("12.5") == "lengths.txt:1: length = 12.5" + allowed);
}
