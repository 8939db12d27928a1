#include "tools/accuracy/decisions.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/base/quantile.hpp"
#include "sim/base/random.hpp"
#include "tests/support/fitted_runs.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"
#include "tools/accuracy/calibration.hpp"
#include "tools/accuracy/errors.hpp"
#include "tools/accuracy/own_runs.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;

namespace {

/// Rows as if they had been forecast, for a table with these lines.
struct Sample {
  CsvTable table;
  std::vector<RowForecast> rows;
};
Sample sample(const std::string& text, const std::vector<std::pair<double, double>>& predicted_measured) {
  Sample s{CsvTable::parse(text, "t.csv").value(), {}};
  for (std::size_t i = 0; i < predicted_measured.size(); ++i) {
    RowForecast row;
    row.row = i;
    row.source = s.table.text(i, "source");
    std::tie(row.predicted_s, row.measured_s) = predicted_measured[i];
    s.rows.push_back(row);
  }
  return s;
}

RunTraits run_on(const char* gpu, int gpus) {
  RunTraits traits{.gpu = gpu, .precision = "bf16"};
  traits.doublings[7] = std::log2(gpus);
  return traits;
}

/// Published runs, each forecast without its source.
std::vector<RowForecast> published_runs() {
  const CsvTable evidence = CsvTable::read(source_dir() / "scenarios/runs/published-evidence.csv").value();
  const CsvTable table = CsvTable::read(source_dir() / "scenarios/runs/published.csv").value();
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  std::map<std::string, double> error_of;
  for (std::size_t i = 0; i < evidence.rows(); ++i) error_of[evidence.text(i, "id")] = *evidence.number(i, "error");
  std::vector<RowForecast> rows;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const auto found = error_of.find(table.text(i, "id"));
    if (found == error_of.end()) continue;
    RowForecast row;
    row.row = i;
    row.source = table.text(i, "source");
    row.traits = run_traits(scenario_of_row(table, i, library).value());
    row.moe = row.traits.experts;
    row.measured_s = 1;
    row.predicted_s = 1 + found->second;
    rows.push_back(row);
  }
  return rows;
}

}  // namespace

TEST_CASE("scaling and schedules: ratios, in which a common bias cancels", "[oracle][accuracy]") {
  const Sample scaling = sample("source,model_name,gpu,gpu_count\na,m,A100,8\na,m,A100,16\n", {{12, 10}, {6.6, 5}});
  CHECK(scaling_ratios(scaling.table, scored(scaling.rows)).pairs == 1);
  CHECK(scaling_ratios(scaling.table, scored(scaling.rows)).mean == Approx(1 - 1.2 / 1.32));
  const Sample schedules =
      sample("source,model_name,gpu,gpu_count,schedule\na,m,A100,16,1f1b\na,m,A100,16,zb_1p\n", {{6.6, 5}, {6, 5}});
  CHECK(schedule_ratios(schedules.table, scored(schedules.rows)).mean == Approx(0.1));
}

TEST_CASE("order of pairs and the cost of choosing the forecast's best", "[oracle][accuracy]") {
  const Sample s =
      sample("source,model_name,gpu,gpu_count\na,m,A100,8\na,m,A100,8\na,m,A100,8\n", {{10, 10}, {9, 12}, {20, 20}});
  const OrderOfPairs order = order_of_pairs(s.table, scored(s.rows), 0.15);
  CHECK(order.pairs == 3);
  CHECK(order.right == 2);  // 10 against 12 is the wrong way round
  const CostOfChoice cost = cost_of_choice(s.table, scored(s.rows));
  CHECK(cost.groups == 1);
  CHECK(cost.best == 0);
  CHECK(cost.mean == Approx(0.2));
}

TEST_CASE("own cluster: corrected by three runs alike, left out where there are not three", "[oracle][accuracy]") {
  std::string text = "source\n";
  for (int i = 0; i < 10; ++i) text += "a\n";
  Sample s = sample(text, std::vector<std::pair<double, double>>(10, {1.0, 1.25}));
  for (std::size_t i = 0; i < 9; ++i) s.rows[i].traits = run_on("h100", 8 << (i % 3));
  s.rows[9].traits = run_on("h200", 1024);
  const OwnCluster own = own_cluster(s.table, scored(s.rows));
  CHECK(own.without_similar == 1);
  CHECK(own.before == Approx(0.2));
  // The nine runs alike need 1.25. Two others of the same size correlate by 0.9 among themselves and with the run, the
  // third, of twice or half the GPUs, by 0.9 exp(-(0.25 / 1.4)^2), or with GPUs in the middle all three nearly so.
  CHECK(own.after > 0.005);
  CHECK(own.after < 0.02);
}

TEST_CASE("the fit finds the factors that made the data", "[oracle][accuracy]") {
  // 60 runs of six sources on one architecture: gemm 6 % slower, attention 8 % faster than forecast.
  RandomStream random(3, 0, 0);
  const std::vector<RowForecast> rows = runs_of_sources(60, 6, [&](int, RowForecast& row) {
    const double gemm = 1 + 4 * random.uniform(), attention = 3 * random.uniform();
    row.sensitivities.path_s[static_cast<std::size_t>(CostParameter::gemm)] = gemm;
    row.sensitivities.path_s[static_cast<std::size_t>(CostParameter::attention)] = attention;
    row.predicted_s = gemm + attention;
    row.measured_s = 1.06 * gemm + 0.92 * attention;
  });
  const CalibrationFit fit = fit_factors(scored(rows));
  const CostScales& factors = fit.factors.at("Hopper");
  // The priors (3 and 6 %) and the offsets of the six sources keep it short.
  CHECK(factors[static_cast<std::size_t>(CostParameter::gemm)] == Approx(1.06).epsilon(0.04));
  CHECK(factors[static_cast<std::size_t>(CostParameter::gemm)] > 1.015);
  CHECK(factors[static_cast<std::size_t>(CostParameter::attention)] == Approx(0.92).epsilon(0.05));
  CHECK(factors[static_cast<std::size_t>(CostParameter::attention)] < 0.97);
  CHECK(factors[static_cast<std::size_t>(CostParameter::host)] == Approx(1));  // nothing is known of it
  for (const auto& [source, offset] : fit.source_offset) CHECK(std::abs(offset) < 0.06);
}

TEST_CASE("own runs: the correction by one and by two measured runs, by hand", "[oracle][accuracy]") {
  // Rows 1 and 2 are like row 0; row 3 has another precision, row 4 another lever as well, row 5 another GPU, row 6 experts.
  std::vector<RowForecast> rows(7);
  for (RowForecast& row : rows) {
    row.predicted_s = 1;
    row.measured_s = 1.2;
    row.traits = run_on("h100", 8);
  }
  rows[3].traits.precision = rows[4].traits.precision = "fp8";
  rows[4].traits.levers[0] = "full recomputation";
  rows[5].traits.gpu = "b200";
  rows[6].traits.experts = true;
  const auto fit = [&](std::vector<const RowForecast*> known) { return own_fit(rows[0], known); };
  const double whole = std::log(1.2);
  CHECK(std::log(fit({&rows[1]}).factor) == Approx(0.9 * whole));
  CHECK(fit({&rows[1]}).explained == Approx(0.81));
  CHECK(std::log(fit({&rows[3]}).factor) == Approx(0.9 * 0.85 * whole));
  CHECK(std::log(fit({&rows[4]}).factor) == Approx(0.9 * 0.85 * 0.45 * whole));
  for (const std::size_t unlike : {5U, 6U}) {
    CHECK(fit({&rows[unlike]}).factor == 1);
    CHECK(fit({&rows[unlike]}).runs == 0);
  }
  CHECK(fit({&rows[0]}).factor == fit({&rows[1]}).factor);  // its own measurement counts as that of a run like it
  // Two equal runs: each weighs 0.9 / (1 + 0.9).
  CHECK(std::log(fit({&rows[1], &rows[2]}).factor) == Approx(1.8 / 1.9 * whole));
  // Four times the GPUs are two doublings of a quarter each: exp(-(0.5 / 1.4)^2).
  rows[1].traits = run_on("h100", 32);
  CHECK(std::log(fit({&rows[1]}).factor) == Approx(0.9 * std::exp(-std::pow(0.5 / 1.4, 2)) * whole));
}

TEST_CASE("own runs: any set of measured runs gives a finite correction and explains at most all",
          "[property][accuracy]") {
  const auto seed = GENERATE(range(1U, 21U));
  CAPTURE(seed);
  RandomStream random(seed, 0, 0);
  std::vector<RowForecast> rows(40);
  for (RowForecast& row : rows) {
    row.predicted_s = 1;
    row.measured_s = 0.5 + random.uniform();
    row.traits = run_on("h100", 8);
    for (double& doublings : row.traits.doublings) doublings += static_cast<double>(random.below(3));
  }
  std::vector<const RowForecast*> known;
  for (std::size_t i = 1; i < rows.size(); ++i) known.push_back(&rows[i]);
  const OwnFit fit = own_fit(rows[0], known);
  CHECK(fit.runs > 0);
  CHECK(fit.factor > 0.25);
  CHECK(fit.factor < 4);
  CHECK(fit.explained > 0);
  CHECK(fit.explained < 1);
}

TEST_CASE("own runs: a grid of runs all slower by the same factor is corrected by no more", "[oracle][accuracy]") {
  // Corners of a square of tensor degrees and micro-batches, which one scale of distances along the axes made contradict each other.
  std::vector<RowForecast> rows(4);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].predicted_s = 1;
    rows[i].measured_s = 1.3;
    rows[i].traits = run_on("h100", 64);
    rows[i].traits.doublings[2] = i % 2 == 0 ? 0 : 2;
    rows[i].traits.doublings[3] = i / 2 == 0 ? 0 : 2;
  }
  const OwnFit fit = own_fit(rows[3], {&rows[0], &rows[1], &rows[2]});
  CHECK(fit.factor > 1.1);
  CHECK(fit.factor < 1.3);
}

TEST_CASE("own runs: one and three runs of a source improve forecasts of its others", "[accuracy]") {
  const std::vector<RowForecast> all = published_runs();
  std::map<std::string, std::vector<RowForecast>> sources;
  for (const RowForecast& row : all) sources[row.source].push_back(row);
  const auto error_with = [&](std::size_t runs) {
    double sum = 0;
    int counted = 0;
    for (const auto& [source, rows] : sources) {
      if (rows.size() < 4) continue;
      std::vector<double> errors;
      RandomStream random(3, 0, static_cast<std::uint32_t>(counted));
      for (const RowForecast& row : rows) {
        std::vector<const RowForecast*> known;
        while (known.size() < runs) {
          const RowForecast* other = &rows[random.below(rows.size())];
          if (other != &row && std::ranges::find(known, other) == known.end()) known.push_back(other);
        }
        errors.push_back(std::abs((1 + row.error()) * own_fit(row, known).factor - 1));
      }
      sum += median(errors);
      ++counted;
    }
    return sum / counted;
  };
  const double none = error_with(0);
  const double one = error_with(1);
  const double three = error_with(3);
  INFO(none << " " << one << " " << three);
  CHECK(none < 0.05);  // 4.1, 3.7 and 3.6 % in November 2026
  CHECK(one < 0.97 * none);
  CHECK(three < one);
  CHECK(three < 0.95 * none);
}

TEST_CASE("own runs: all other runs and the three most similar ones of a source correct its dense runs", "[accuracy]") {
  const std::vector<RowForecast> all = published_runs();
  std::map<std::string, std::vector<const RowForecast*>> sources;
  for (const RowForecast& row : all)
    if (!row.moe) sources[row.source].push_back(&row);
  std::erase_if(sources, [](const auto& source) { return source.second.size() < 8; });
  // Mean over sources of the mean error when the `count` most similar runs correct each.
  const auto error_with = [&](std::size_t count) {
    double sum = 0;
    for (const auto& [source, rows] : sources)
      for (const RowForecast* row : rows) {
        std::vector<const RowForecast*> others = rows;
        std::erase(others, row);
        std::ranges::stable_sort(others, std::greater<>(), [&](const RowForecast* other) {
          return error_correlation(row->traits, other->traits);
        });
        others.resize(std::min(others.size(), count));
        sum += std::abs((1 + row->error()) * own_fit(*row, others).factor - 1) / static_cast<double>(rows.size());
      }
    return sum / static_cast<double>(sources.size());
  };
  CHECK(sources.size() >= 15);
  const double none = error_with(0);
  const double three = error_with(3);
  CHECK(none < 0.065);  // 5.6 and 3.5 % in November 2026
  CHECK(three < 0.7 * none);
  CHECK(std::abs(error_with(1000) - three) < 0.05 * none);  // more runs help no more
}
