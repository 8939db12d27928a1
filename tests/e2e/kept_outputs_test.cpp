// No output changes unnoticed: forecasts of all shipped scenarios, and every command's text, pages and files for some of them.
// If a change was meant, tools/scripts/refresh-docs writes tests/data/kept_outputs.txt anew, and its diff is part of the change.
#include <filesystem>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>

#include "tests/e2e/shell.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/paths.hpp"

using namespace tracecast;

TEST_CASE("no output has changed since tests/data/kept_outputs.txt was written", "[e2e][kept]") {
  const std::filesystem::path root = source_dir();
  const Sandbox sandbox;
  const Outcome now = sandbox.run("'" + (root / "tools/scripts/kept-outputs").string() + "' '" + tracecast_binary() +
                                  "' " + std::to_string(test::kKeptOutputs));
  REQUIRE(now.code == 0);
  std::istringstream kept(content_of(root / "tests/data/kept_outputs.txt"));
  std::istringstream lines(now.out);
  int compared = 0;
  for (std::string before, after; std::getline(kept, before); ++compared) {
    REQUIRE(std::getline(lines, after));
    CHECK(before == after);
  }
  CHECK(compared > 100);
}
