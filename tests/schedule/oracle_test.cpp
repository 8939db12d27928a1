/// Every row of the oracle file of pipeline schedules, exactly.
///
/// tests/data/oracles/pipeline.csv was made by an independent simulator in exact arithmetic
/// (docs/references.md#schedule-oracles). Times in it are
/// multiples of 1/4 and chunks take 1/V, so everything here is counted in ticks of 1/4 of 1/V.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/forecast/schedule_runs.hpp"
#include "sim/schedule/schedule.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/pipeline_run.hpp"

using namespace tracecast;

namespace {

constexpr std::int64_t kTicksPerUnit = 4;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

/// The file as rows of column name -> text.
std::vector<std::map<std::string, std::string>> read_rows(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> header = split(line, ',');
  std::vector<std::map<std::string, std::string>> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = split(line, ',');
    std::map<std::string, std::string> row;
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = cells.at(i);
    rows.push_back(row);
  }
  return rows;
}

std::int64_t ticks(const std::string& text) {
  const double value = std::stod(text) * static_cast<double>(kTicksPerUnit);
  REQUIRE(value == std::floor(value));
  return static_cast<std::int64_t>(value);
}

/// "4;3;2;1"
std::string list(const std::vector<int>& values) {
  std::string text;
  for (int value : values) text += (text.empty() ? "" : ";") + std::to_string(value);
  return text;
}

/// A text of the file times the scale of a run is a whole number of ticks.
bool equals(std::int64_t run_ticks, std::int64_t scale, const std::string& text) {
  return static_cast<double>(run_ticks) == std::stod(text) * static_cast<double>(scale * kTicksPerUnit);
}

}  // namespace

TEST_CASE("every row of the oracle file of schedules", "[schedule][oracle]") {
  const std::filesystem::path path = source_dir() / "tests/data/oracles/pipeline.csv";
  const auto rows = read_rows(path);
  CHECK(rows.size() == 303);
  for (auto row : rows) {
    INFO(row["schedule"] << " P=" << row["P"] << " M=" << row["M"] << " V=" << row["V"] << " times " << row["tF"] << " "
                         << row["tB"] << " " << row["tW"] << " " << row["tC"] << " " << row["tFB"]);
    const ScheduleRequest request{.ranks = std::stoi(row["P"]),
                                  .microbatches = std::stoi(row["M"]),
                                  .chunks = std::stoi(row["V"]),
                                  .times = {ticks(row["tF"]), ticks(row["tB"]), ticks(row["tW"]), ticks(row["tC"])}};
    const Result<Schedule> schedule = make_schedule(row["schedule"], request);
    REQUIRE(schedule);
    REQUIRE(check(*schedule));
    std::optional<std::int64_t> overlapped;
    if (!row["tFB"].empty()) overlapped = ticks(row["tFB"]);
    const PipelineTimes times = uniform_times(*schedule, request.times, overlapped);
    const Result<PipelineRun> run = simulate_pipeline(*schedule, times);
    REQUIRE(run);
    CHECK(equals(run->makespan, run->scale, row["makespan"]));
    CHECK(equals(run->ideal, run->scale, row["ideal"]));
    CHECK(equals(run->max_rank_span, run->scale, row["max_rank_span"]));
    CHECK(std::abs(run->bubble_fraction() - std::stod(row["bubble_fraction"])) <= 0.5000001e-10);
    CHECK(list(run->peak_inflight) == row["peak_inflight_per_rank"]);
    CHECK(list(run->peak_inflight_until_weight) == row["peak_inflight_relW_per_rank"]);
    // The engine agrees. The file counts an overlapped pair as its parts, so that its bubbles can be negative.
    const Result<ScheduleRun> simulated = run_schedule(*schedule, times);
    REQUIRE(simulated);
    CHECK(simulated->makespan == run->makespan);
    CHECK(simulated->max_rank_span == run->max_rank_span);
    CHECK(simulated->peak_inflight == run->peak_inflight);
    CHECK(simulated->peak_inflight_until_weight == run->peak_inflight_until_weight);
    CHECK(simulated->bubble_fraction >= 0);
    if (!overlapped) CHECK(simulated->work == run->ideal);
    if (!overlapped) CHECK(simulated->bubble_fraction == Approx(run->bubble_fraction()));
    CHECK(static_cast<double>(schedule->replicas) / schedule->chunks == std::stod(row["act_unit"]));
    CHECK(schedule->replicas == std::stoi(row["param_replicas"]));
    CHECK(list(schedule->weight_versions) == row["weight_versions_per_rank"]);
  }
}
