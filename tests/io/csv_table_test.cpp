#include "sim/io/csv_table.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;

TEST_CASE("csv: quotes, line breaks inside them, carriage returns and a byte order mark", "[io]") {
  const CsvTable table =
      CsvTable::parse("\xEF\xBB\xBFid,text,x\r\n1,\"a, \"\"b\"\"\nc\",2.5\r\n\n2,,\n", "t.csv").value();
  REQUIRE(table.rows() == 2);
  CHECK(table.text(0, "text") == "a, \"b\"\nc");
  CHECK(table.number(0, "x") == 2.5);
  CHECK(table.line(1) == 5);
  CHECK(table.text(1, "text").empty());
  CHECK_FALSE(table.number(1, "x"));
  CHECK(table.text(1, "no such column").empty());
  CHECK(table.has("x"));
}

TEST_CASE("csv: what is not a number is none", "[io]") {
  const CsvTable table = CsvTable::parse("x\n1e3\n1e999\nnan\n3 apples\n", "t.csv").value();
  CHECK(table.number(0, "x") == 1000);
  for (const std::size_t row : {1U, 2U, 3U}) CHECK_FALSE(table.number(row, "x"));
}

TEST_CASE("csv: errors name file and line", "[error][io]") {
  const auto message = [](const char* text) { return to_string(CsvTable::parse(text, "t.csv").error()); };
  CHECK(message("") == "t.csv: has no header line");
  CHECK(message("a,b,a\n") == "t.csv:1: a: is a column twice");
  CHECK(message("a,b\n1,2\n1\n") == "t.csv:3: has 1 fields where the header has 2");
  CHECK(message("a\n\"open\n") == "t.csv:3: a quote is not closed");
  CHECK(to_string(CsvTable::read("/nowhere/t.csv").error()) == "/nowhere/t.csv: does not exist");
}

TEST_CASE("csv: some rows, and a column with another value", "[io]") {
  const CsvTable table = CsvTable::parse("id,tp\na,1\nb,2\nc,3\n", "t.csv").value();
  const CsvTable some = table.only("id", {"c", "a"});
  REQUIRE(some.rows() == 2);
  CHECK(some.text(1, "id") == "c");
  CHECK(some.line(1) == 4);
  const CsvTable changed = some.with("tp", "8").with("vp", "2");
  CHECK(changed.text(0, "tp") == "8");
  CHECK(changed.text(1, "vp") == "2");
  CHECK(table.text(0, "tp") == "1");
}
