// Published figures of failures and restarts, and their forecasts.
#include "tools/accuracy/failure_figures.hpp"

#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/io/failure_file.hpp"
#include "sim/report/text.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;

namespace {

const std::filesystem::path kScenarios = source_dir() / "scenarios";

CsvTable csv(const char* name) { return CsvTable::read(kScenarios / "runs" / name).value(); }

CsvTable without_goodput(const CsvTable& figures) {
  const CsvTable how = csv("failure-forecasts.csv");
  std::vector<std::string> ids;
  for (std::size_t row = 0; row < how.rows(); ++row)
    if (how.text(row, "quantity") != "goodput") ids.push_back(how.text(row, "id"));
  return figures.only("id", ids);
}

}  // namespace

TEST_CASE("the law of starts passes through points that follow it", "[oracle][accuracy][reliability]") {
  const StartLaw exact{90, 6, 0.5, 1.3};
  std::vector<StartTimes> points;
  for (const double gpus : {1000.0, 16'384.0, 98'304.0})
    points.push_back({gpus, exact.restart_s(gpus), exact.communicators_s(gpus)});
  const StartLaw fitted = fit_start_law(points);
  CHECK(fitted.base_s == Approx(90));
  CHECK(fitted.per_1k_s == Approx(6));
  CHECK(fitted.communicators_per_1k_s == Approx(0.5));
  CHECK(fitted.exponent == Approx(1.3));
  CHECK(exact.restart_s(4000) == Approx(90 + 24 + 0.5 * 6.0629).epsilon(1e-4));  // 4^1.3
}

TEST_CASE("shipped failure models start jobs by the law fitted to published restarts", "[accuracy][reliability]") {
  const CsvTable table = csv("published-failures.csv");
  std::map<double, StartTimes> by_size;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const double gpus = table.number(row, "gpu_count").value_or(0), value = table.number(row, "value").value_or(0);
    if (table.text(row, "category") == "cold restart") by_size[gpus].restart_s = value;
    if (table.text(row, "metric") == "collective_library_init_time") by_size[gpus].communicators_s = value;
  }
  REQUIRE(by_size.size() == 4);
  std::vector<StartTimes> points;
  for (auto& [gpus, times] : by_size) points.push_back({gpus, times.restart_s, times.communicators_s});
  const StartLaw law = fit_start_law(points);
  for (const char* name : {"llama3-54-days", "meta-h100-2025", "b200-504", "gb200-nvl72"}) {
    CAPTURE(name);
    const RecoveryPolicy r =
        read_failure_file(kScenarios / "failures" / (std::string(name) + ".json")).value().recovery;
    CHECK(seconds(r.scheduler + r.container + r.warm_up) == Approx(law.base_s).epsilon(0.06));  // load is apart
    CHECK(seconds(r.start_per_1k_ranks) == Approx(law.per_1k_s).epsilon(0.001));
    CHECK(seconds(r.communicators_per_1k_ranks) == Approx(law.communicators_per_1k_s).epsilon(0.001));
    CHECK(r.communicators_exponent == Approx(law.exponent).epsilon(0.001));
    for (const StartTimes& p : points) {
      const Machine machine{static_cast<int>(p.gpus), 8};
      CHECK(seconds(communicator_time(r, machine)) == Approx(p.communicators_s).epsilon(0.12));
      CHECK(seconds(restart_time(r, machine, SpareState::cold)) == Approx(p.restart_s).epsilon(0.15));
    }
  }
}

TEST_CASE("every published figure is forecast, or a reason says why not", "[accuracy][reliability]") {
  CsvTable table = csv("published-failures.csv");
  if (test::kSanitized) table = without_goodput(table);  // other tests simulate jobs
  const FailureFigures all = forecast_failure_figures(table, shipped_data(), 2).value();
  int left_out = 0;
  for (const auto& [why, count] : all.left_out) {
    CHECK(!why.empty());
    left_out += count;
  }
  CHECK(all.figures.size() + static_cast<std::size_t>(left_out) == table.rows());
  const auto forecast = [&](const std::string& run, double gpus, const std::string& name) {
    for (const FailureFigure& f : all.figures)
      if (f.run == run && f.gpus == gpus && f.name == name) return f.forecast;
    FAIL("no figure " << run << ": " << name);
    return 0.0;
  };
  // Llama 3's 419 interruptions per GPU and day give 504 B200 in 55 days 13.1.
  CHECK(forecast("504-GPU cluster", 504, "failures") == Approx(419.0 / 54 / 16384 * 504 * 55).epsilon(1e-3));
  // Restart of a size by the law of the three others: base 95.7 s, 6.4 s per 1000 GPUs, communicators 117 s.
  CHECK(forecast("cold recovery", 65'536, "recovery time, cold restart") == Approx(626).epsilon(0.005));
  // The share of HBM in Llama 3's table of 678 interruptions.
  CHECK(forecast("32K-GPU class training", 32'768, "gpu hbm3 memory") == Approx(678 * 72.0 / 419).epsilon(1e-3));
  const std::string page = failure_figures_page(all, {.width = 80});
  CHECK(page.find("failures per 1000 node days") != std::string::npos);  // units are printed
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) CHECK(columns(line) <= 100);
  if (test::kSanitized) return;
  const double synchronous = forecast("about 98K GPUs", 98'304, "effective training time, fully synchronous restart");
  const double tolerant = forecast("about 98K GPUs", 98'304, "effective training time, fault tolerant replicas");
  CHECK(synchronous == Approx(44).margin(14));
  CHECK(tolerant == Approx(80).margin(22));
  CHECK(tolerant > 1.5 * synchronous);
}
