// docs/coverage.md is made by tools/coverage from the titles of the tests: what it says is still there.
#include <set>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>

#include "tests/e2e/shell.hpp"
#include "tests/support/paths.hpp"

using namespace tracecast;

namespace {

const std::filesystem::path kRoot = source_dir();

std::set<std::string> titles() {
  std::set<std::string> all;
  std::istringstream lines([] {
    const Sandbox sandbox;
    return sandbox
        .run("(" + std::filesystem::read_symlink("/proc/self/exe").string() + " --list-test-names-only || true)")
        .out;
  }());
  for (std::string line; std::getline(lines, line);) all.insert(line);
  return all;
}

/// Rows of the page: id and tests.
std::vector<std::pair<std::string, std::vector<std::string>>> rows_of_page() {
  std::vector<std::pair<std::string, std::vector<std::string>>> rows;
  std::istringstream lines(content_of(kRoot / "docs" / "coverage.md"));
  for (std::string line; std::getline(lines, line);) {
    if (line.size() < 4 || line[0] != '|' || line[3] != '-' || line[2] < '0' || line[2] > '9') continue;
    const std::size_t first = line.find(" | ", 2);
    const std::size_t second = line.find(" | ", first + 3);
    std::string cell = line.substr(second + 3, line.size() - 2 - second - 3);
    for (std::size_t at = 0; (at = cell.find("\\|", at)) != std::string::npos;) cell.erase(at, 1);
    std::vector<std::string> tests;
    if (!cell.starts_with("**open**") && cell != "context only")
      for (std::size_t begin = 0; begin <= cell.size();) {
        const std::size_t end = std::min(cell.find("<br>", begin), cell.size());
        tests.push_back(cell.substr(begin, end - begin));
        begin = end + 4;
      }
    rows.emplace_back(line.substr(2, first - 2), tests);
  }
  return rows;
}

std::vector<std::string> ids_of_list() {
  std::vector<std::string> ids;
  std::istringstream lines(content_of(kRoot / "tests" / "seeds" / "rows.txt"));
  for (std::string line; std::getline(lines, line);)
    if (!line.empty() && line[0] != '#') ids.push_back(line.substr(0, line.find(' ')));
  return ids;
}

}  // namespace

TEST_CASE("docs/coverage.md has every row, and names no test that is not there", "[docs]") {
  const std::set<std::string> known = titles();
  std::vector<std::string> ids;
  for (const auto& [id, tests] : rows_of_page()) {
    ids.push_back(id);
    for (const std::string& test : tests) {
      INFO(id << ": run tools/coverage");
      CHECK(known.count(test) == 1);
    }
  }
  CHECK(ids == ids_of_list());
}

TEST_CASE("tests name only rows that there are", "[docs]") {
  const std::vector<std::string> list = ids_of_list();
  const std::set<std::string> rows(list.begin(), list.end());
  for (const std::string& title : titles()) {
    std::istringstream head(title.substr(0, title.find(':')));
    for (std::string word; head >> word;) {
      const bool is_id = word.size() >= 3 && word.size() <= 4 && word[1] == '-' &&
                         word.find_first_not_of("0123456789-") == std::string::npos;
      if (!is_id) break;
      INFO(title);
      CHECK(rows.count(word) == 1);
    }
  }
}
