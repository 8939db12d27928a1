// docs/validation/misses.md explains every run that is missed by more than 25 %: none of docs/validation/accuracy-sources.md is
// missing, and what it says of changed rows is forecast anew.
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"
#include "tools/accuracy/validate.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;

namespace {

const DataPaths kData{source_dir() / "scenarios", source_dir() / "topologies", source_dir() / "kernels/profiles"};

std::string page(const char* name) { return content_of(source_dir() / "docs/validation" / name); }

/// Percentage points. Profiles and stacks that are fitted anew by more ask for a new page.
constexpr double kMargin = 4;

/// The cells of a line of a Markdown table; none for any other line.
std::vector<std::string> cells(const std::string& line) {
  std::vector<std::string> out;
  if (!line.starts_with("| ")) return out;
  std::istringstream text(line.substr(2));
  for (std::string cell; std::getline(text, cell, '|');) {
    const std::size_t first = cell.find_first_not_of(' ');
    out.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
  }
  return out;
}

std::vector<std::vector<std::string>> lines_of(const std::string& text, const std::string& heading) {
  std::vector<std::vector<std::string>> lines;
  const std::size_t begin = text.find(heading);
  if (begin == std::string::npos) return lines;
  const std::size_t end = text.find("\n## ", begin + heading.size());
  std::istringstream section(text.substr(begin, end == std::string::npos ? end : end - begin));
  for (std::string line; std::getline(section, line);)
    if (std::vector<std::string> row = cells(line); !row.empty()) lines.push_back(std::move(row));
  return lines;
}

/// One line of the page's tables: a row of the table of runs, and it with columns that say something else.
struct Miss {
  std::string id;
  double error = 0;     ///< percent, as it is
  std::string changed;  ///< "tp=2,pp=4"; "" something else than columns was changed
  double then = 0;
};

std::vector<Miss> misses() {
  std::vector<Miss> out;
  for (const std::vector<std::string>& row : lines_of(page("misses.md"), "## Every run that is missed")) {
    if (row.size() < 6 || row[0].find('-') == std::string::npos || row[0].starts_with("--")) continue;
    const bool columns = row[3].starts_with("`") && row[3].find('=') != std::string::npos;
    out.push_back({row[0], std::stod(row[2]), columns ? row[3].substr(1, row[3].size() - 2) : "", std::stod(row[4])});
  }
  return out;
}

double error_of(const CsvTable& table, const RowLibrary& library) {
  const std::vector<RowForecast> rows = validate(table, library).value();
  REQUIRE(rows.size() == 1);
  REQUIRE(rows[0].scored());
  return 100 * rows[0].error();
}

CsvTable with(CsvTable table, const std::string& changed) {
  std::istringstream changes(changed);
  for (std::string change; std::getline(changes, change, ',');) {
    const std::size_t equals = change.find('=');
    table = table.with(change.substr(0, equals), change.substr(equals + 1));
    // What follows from the degrees and the micro-batch.
    if (change.starts_with("tp=") || change.starts_with("pp=")) table = table.with("dp", "");
    if (change.starts_with("micro_batch=") && changed.find("num_micro") == std::string::npos)
      table = table.with("num_microbatches", "");
  }
  return table;
}

}  // namespace

TEST_CASE("no run that is missed by more than 25 % is without an explanation", "[accuracy][docs]") {
  const std::string text = page("misses.md");
  int far_off = 0;
  for (const std::vector<std::string>& row : lines_of(page("accuracy-sources.md"), "## Worst rows")) {
    if (row.size() < 5 || row[0].find('-') == std::string::npos || row[0].starts_with("--")) continue;
    const double error = std::stod(row[4]);
    if (std::abs(error) <= 25) continue;
    ++far_off;
    CAPTURE(row[0], error);
    CHECK(text.find("| " + row[0] + " |") != std::string::npos);
  }
  CHECK(far_off > 10);
}

TEST_CASE("what the page of misses says of changed runs is so", "[accuracy][docs]") {
  const std::filesystem::path runs = source_dir() / "scenarios/runs/published.csv";
  const CsvTable table = CsvTable::read(runs).value();
  const RowLibrary library = RowLibrary::open(kData).value();
  const std::vector<Miss> all = misses();
  REQUIRE(all.size() > 30);
  int checked = 0;
  for (const Miss& miss : all) {
    const CsvTable row = table.only("id", {miss.id});
    CAPTURE(miss.id, miss.changed);
    REQUIRE(row.rows() == 1);
    // Those without experts and long pipelines, whose steps are built quickly.
    if (!row.text(0, "moe_experts").empty() || row.number(0, "num_microbatches").value_or(1) > 64) continue;
    CHECK(error_of(row, library) == Approx(miss.error).margin(kMargin));
    if (miss.changed.empty()) continue;
    CHECK(error_of(with(row, miss.changed), library) == Approx(miss.then).margin(kMargin));
    ++checked;
  }
  CHECK(checked > 5);
}
