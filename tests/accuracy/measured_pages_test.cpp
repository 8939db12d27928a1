// docs/validation/kernels.md and collectives.md say what `validate --kernels` and `--collectives` give.
#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"
#include "tools/accuracy/kernel_tables.hpp"
#include "tools/accuracy/measured_tables.hpp"
#include "tools/accuracy/samples_report.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;

namespace {

const std::filesystem::path kShared = measurements_of_others();

std::string page(const char* name) { return content_of(source_dir() / "docs/validation" / name); }

/// A number in the page's line of a group: cell 0 is its first one.
double printed(const std::string& text, const std::string& group, int cell) {
  std::size_t at = text.find("| " + group + " |");
  if (at == std::string::npos) return -1;
  at += group.size() + 3;
  for (; cell >= 0; --cell) at = text.find('|', at) + 1;
  return std::stod(text.substr(at));
}

/// Of all tables of kernels below `folder`, in the order of their names.
std::vector<MeasuredSample> measured_kernels(const std::filesystem::path& folder) {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (const std::string name = entry.path().string(); name.ends_with(".csv") || name.ends_with(".csv.gz"))
      files.insert(entry.path());
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  std::vector<MeasuredSample> samples;
  for (const std::filesystem::path& file : files) {
    const Result<CsvTable> table = CsvTable::read(file);
    if (!table || !is_kernel_table(*table)) continue;
    const std::vector<MeasuredSample> more = validate_kernels(*table, library).value();
    samples.insert(samples.end(), more.begin(), more.end());
  }
  return samples;
}

}  // namespace

TEST_CASE("the page of operators has the table that the profiles give, line by line", "[accuracy][docs]") {
  if (!std::filesystem::exists(kShared)) {
    WARN("skipped: " << kShared << " is absent");
    return;
  }
  const std::string text = page("kernels.md");
  const std::string printed_table = text.substr(text.find("| group | samples |"));
  std::string table;
  std::istringstream lines(samples_markdown(measured_kernels(kShared / "kernels"), false));
  for (std::string line; std::getline(lines, line);)
    if (line.find(": not counted)") == std::string::npos) table += line + "\n";
  // To make it again: the first command of the page, without the groups that are not counted.
  CHECK(printed_table == table);
}

TEST_CASE("published kernels: every source is explained, and the profiles that were fitted to them agree with them",
          "[accuracy][docs]") {
  const CsvTable table = CsvTable::read(source_dir() / "scenarios/runs/kernels.csv").value();
  const std::string explained = content_of(source_dir() / "scenarios/runs/README.md");
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string source = table.text(row, "source");
    INFO(source);
    REQUIRE(explained.find("\n| `" + source + "` | ") != std::string::npos);
  }
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  for (const SampleErrors& e : sample_errors(validate_kernels(table, library).value(), false)) {
    CAPTURE(e.group);
    CHECK(e.mean < 0.11);
    CHECK(std::abs(e.bias) < 0.11);
  }
}

TEST_CASE("the page of collectives has not drifted from what the topologies say", "[accuracy][docs]") {
  if (!std::filesystem::exists(kShared)) {
    WARN("skipped: " << kShared << " is absent");
    return;
  }
  const std::string text = page("collectives.md");
  const CsvTable table = CsvTable::read(kShared / "collectives/aiconfigurator/nccl_intranode.csv.gz").value();
  const std::vector<MeasuredSample> samples =
      validate_collectives(table, RowLibrary::open(shipped_data()).value()).value();
  const std::vector<SampleErrors> errors = sample_errors(samples, true);
  REQUIRE(errors.size() > 10);
  for (const SampleErrors& e : errors) {
    if (e.group == "all" || !e.excluded.empty()) continue;
    CAPTURE(e.group);
    CHECK(printed(text, e.group, 0) == e.samples);
    CHECK(printed(text, e.group, 1) == Approx(100 * e.mean).margin(0.3));
  }
}
