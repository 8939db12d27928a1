// docs/validation/accuracy-sources.md says what the shipped profiles and stacks give: some of its sources are forecast anew.
#include <string>

#include <catch2/catch.hpp>

#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"
#include "tools/accuracy/errors.hpp"
#include "tools/accuracy/validate.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;

namespace {

std::string quoted(const std::string& field) { return "\"" + field + "\""; }

/// The table's rows of one source; none of its fields holds a quote.
CsvTable rows_of(const CsvTable& table, const std::string& source) {
  std::string text;
  for (const std::string& column : table.header()) text += (text.empty() ? "" : ",") + quoted(column);
  text += "\n";
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.text(row, "source") != source) continue;
    std::string line;
    for (const std::string& column : table.header())
      line += (line.empty() ? "" : ",") + quoted(table.text(row, column));
    text += line + "\n";
  }
  return CsvTable::parse(text, "rows of " + source).value();
}

/// The median error that the page prints for a source, in percent; below 0: it prints none.
double printed(const std::string& page, const std::string& source) {
  const std::size_t section = page.find("## Sources, as shipped");
  const std::size_t line = page.find("| " + source + " |", section);
  if (section == std::string::npos || line == std::string::npos) return -1;
  std::size_t cell = line + source.size() + 4;                           // behind the source's
  for (int skip = 0; skip < 2; ++skip) cell = page.find('|', cell) + 1;  // GPU, rows
  return std::stod(page.substr(cell));
}

}  // namespace

TEST_CASE("the page of accuracies has not drifted from what the program forecasts", "[accuracy][docs]") {
  const std::filesystem::path runs = source_dir() / "scenarios/runs/published.csv";
  const std::string page = content_of(source_dir() / "docs/validation/accuracy-sources.md");
  const CsvTable table = CsvTable::read(runs).value();
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  // Of both GPUs and four stacks, among those whose steps are built quickly.
  for (const char* source : {"Korthikanti et al. MLSys23 (arXiv 2205.05198)", "NeMo 24.07 performance summary",
                             "NeMo 24.03 long-sequence table", "Zero Bubble ICLR24 (arXiv 2401.10241)"}) {
    CAPTURE(source);
    const std::vector<RowForecast> rows = validate(rows_of(table, source), library, {.threads = 2}).value();
    // Two points: profiles that are fitted anew by more ask for a new page.
    CHECK(printed(page, source) == Approx(100 * summarise(scored(rows)).median).margin(2));
  }
}
