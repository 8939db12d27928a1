#include "sim/base/result.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("errors print as file:line: key = value: message", "[base]") {
  CHECK(to_string(Diagnostic{"a.json", 18, "parallel.tp", "12", "does not divide model.heads = 128"}) ==
        "a.json:18: parallel.tp = 12: does not divide model.heads = 128");
  CHECK(to_string(Diagnostic{"a.json", 0, "", "", "is empty"}) == "a.json: is empty");
  CHECK(to_string(Diagnostic{"", 0, "tp", "", "is missing"}) == "tp: is missing");
  CHECK(to_string(Diagnostic{"", 0, "a\nb", "", "is\todd"}) == "a?b: is?odd");
  CHECK(to_string(Error{{{"", 0, "", "", "one"}, {"", 0, "", "", "two"}}}) == "one\ntwo");
}

TEST_CASE("the nearest word is found when it looks like a typing mistake", "[base]") {
  const std::vector<std::string> words{"bandwidth", "latency", "tp"};
  CHECK(nearest_match("bandwith", words) == "bandwidth");
  CHECK(nearest_match("latncy", words) == "latency");
  CHECK(nearest_match("tpp", words) == "tp");
  CHECK(nearest_match("latnecy", words) == "latency");  // neighbours swapped are one mistake
  CHECK(nearest_match("pt", words) == "tp");
  CHECK(nearest_match("colour", words).empty());
}
