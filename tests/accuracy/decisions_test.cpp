#include "tools/accuracy/decisions.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/base/quantile.hpp"
#include "sim/base/random.hpp"
#include "tests/support/fitted_runs.hpp"
#include "tests/support/paths.hpp"
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
  std::string text = "source,gpu,params_b,gpu_count,precision\n";
  std::vector<std::pair<double, double>> times;
  for (int i = 0; i < 9; ++i) {
    text += "a,H100,7," + std::to_string(8 << (i % 3)) + ",bf16\n";
    times.emplace_back(1.0, 1.25);
  }
  text += "a,H200,175,1024,fp8\n";
  times.emplace_back(1.0, 0.8);
  const Sample s = sample(text, times);
  const std::vector<const RowForecast*> rows = scored(s.rows);
  const OwnCluster own = own_cluster(s.table, rows);
  CHECK(own.without_similar == 1);
  CHECK(own.before == Approx(0.2));
  // The nine runs alike need 1.25. Two others of the same size correlate by 0.9 among themselves and with the run, the
  // third, of twice or half the GPUs, by 0.9 exp(-(0.25 / 2.2)^2), or with GPUs in the middle all three nearly so.
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
  // Rows 1 and 2 are like row 0; row 3 has another precision, row 4 another lever as well, row 5 another GPU.
  const Sample s = sample(
      "source,gpu,params_b,gpu_count,precision,recompute\na,H100,7,8,bf16,none\na,H100,7,8,bf16,none\n"
      "a,H100,7,8,bf16,none\na,H100,7,8,fp8,none\na,H100,7,8,fp8,full\na,B200,7,8,bf16,none\n",
      {{1, 1.2}, {1, 1.2}, {1, 1.2}, {1, 1.2}, {1, 1.2}, {1, 1.2}});
  const auto fit = [&](std::vector<const RowForecast*> known) { return own_fit(s.table, s.rows[0], known); };
  const double whole = std::log(1.2);
  CHECK(std::log(fit({&s.rows[1]}).factor) == Approx(0.9 * whole));
  CHECK(fit({&s.rows[1]}).explained == Approx(0.81));
  CHECK(std::log(fit({&s.rows[3]}).factor) == Approx(0.9 * 0.85 * whole));
  CHECK(std::log(fit({&s.rows[4]}).factor) == Approx(0.9 * 0.85 * 0.45 * whole));
  CHECK(fit({&s.rows[5]}).factor == 1);
  CHECK(fit({&s.rows[5]}).runs == 0);
  CHECK(fit({&s.rows[0]}).runs == 0);  // a run does not correct itself
  // Two equal runs: each weighs 0.9 / (1 + 0.9).
  CHECK(std::log(fit({&s.rows[1], &s.rows[2]}).factor) == Approx(1.8 / 1.9 * whole));
  // Four times the GPUs are two doublings of a quarter each: exp(-(0.5 / 2.2)^2).
  const Sample far =
      sample("source,gpu,params_b,gpu_count,precision\na,H100,7,8,bf16\na,H100,7,32,bf16\n", {{1, 1}, {1, 1.2}});
  CHECK(std::log(own_fit(far.table, far.rows[0], {&far.rows[1]}).factor) ==
        Approx(0.9 * std::exp(-std::pow(0.5 / 2.2, 2)) * whole));
}

TEST_CASE("own runs: one and three runs of a source improve forecasts of its others", "[accuracy]") {
  // Published runs, each forecast without its source: median error of each source of at least four, mean over sources.
  const CsvTable evidence = CsvTable::read(source_dir() / "scenarios/runs/published-evidence.csv").value();
  const CsvTable table = CsvTable::read(source_dir() / "scenarios/runs/published.csv").value();
  std::map<std::string, double> error_of;
  for (std::size_t i = 0; i < evidence.rows(); ++i) error_of[evidence.text(i, "id")] = *evidence.number(i, "error");
  std::map<std::string, std::vector<RowForecast>> sources;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const auto found = error_of.find(table.text(i, "id"));
    if (found == error_of.end()) continue;
    RowForecast row;
    row.row = i;
    row.measured_s = 1;
    row.predicted_s = 1 + found->second;
    sources[table.text(i, "source")].push_back(row);
  }
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
        errors.push_back(std::abs((1 + row.error()) * own_fit(table, row, known).factor - 1));
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
  CHECK(one < 0.97 * none);
  CHECK(three < one);
  CHECK(three < 0.95 * none);
}
