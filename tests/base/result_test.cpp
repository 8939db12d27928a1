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

TEST_CASE("a message stays short, whatever a file or an option brought into it", "[base]") {
  const std::string megabyte(1'000'000, 'x');
  const std::string text = to_string(Diagnostic{"a.csv", 1, megabyte, megabyte, megabyte});
  CHECK(text.size() < 10'000);
  CHECK(text.find("... (1000000 bytes)") != std::string::npos);
  std::string umlauts;  // cut between characters, not inside one
  for (int i = 0; i < 2'000; ++i) umlauts += i == 0 ? "x" : "\u00e4";
  const std::string cut = to_string(Diagnostic{"", 0, "", "", umlauts});
  CHECK(cut.substr(cut.find("...") - 2, 2) == "\u00e4");
  Error many;
  many.diagnostics.assign(10'000, Diagnostic{"", 0, "", "", "bad"});
  CHECK(to_string(many).ends_with("bad\nand 9900 more errors"));
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
