// What `diagnose` makes of published pairs of runs that differ in one lever: the faster one is forecast, the slower one was measured.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/forecast/diagnosis.hpp"
#include "sim/io/files.hpp"
#include "tests/support/shipped.hpp"
#include "tools/accuracy/errors.hpp"
#include "tools/accuracy/levers.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;

namespace {

struct Tables {
  RowLibrary library = RowLibrary::open(shipped_data()).value();
  CsvTable runs = read_run_table(shipped_data(), "published").value();
  CsvTable pairs = read_run_table(shipped_data(), "published-pairs").value();
};

/// A published pair whose slower run has a cause that `diagnose` knows.
struct SlowedPair {
  std::string id;
  std::string cause;
  Scenario fast;
  double ratio = 0;  ///< of the step times
};

/// Those of published-pairs.csv with these ids.
std::vector<SlowedPair> published(const Tables& tables, const std::map<std::string, std::string>& causes) {
  std::vector<SlowedPair> out;
  for (std::size_t i = 0; i < tables.pairs.rows(); ++i) {
    const std::string& id = tables.pairs.text(i, "id");
    const auto cause = causes.find(id);
    if (cause == causes.end()) continue;
    const double a = tables.pairs.number(i, "a").value(), b = tables.pairs.number(i, "b").value();
    const bool b_is_fast = (tables.pairs.text(i, "unit") == "s") == (b < a);
    const CsvTable fast = changed_row(tables.runs, tables.pairs.text(i, b_is_fast ? "row_b" : "row_a"),
                                      tables.pairs.text(i, b_is_fast ? "set_b" : "set_a"));
    out.push_back({"pair " + id, cause->second, scenario_of_row(fast, 0, tables.library).value().scenario,
                   std::max(a / b, b / a)});
  }
  return out;
}

/// The name of the cause that made the slower run slower; "": the lever has none.
std::string cause_of(const LeverPair& pair, const CsvTable& runs, std::size_t slow, std::size_t fast) {
  const std::string narrow = runs.text(fast, "precision");
  if (pair.lever == "precision" && runs.text(slow, "precision") == "bf16" && narrow != "bf16" && narrow != "fp16")
    return "no_narrow_precision";
  if (pair.lever == "recomputation" && runs.text(slow, "recompute") == "full") return "recompute_full";
  return "";
}

/// Those of the table of runs whose steps differ by more than kCleanChange.
std::vector<SlowedPair> of_table(const Tables& tables) {
  const std::vector<RowForecast> rows = validate(tables.runs, tables.library, {.threads = 2, .bands = false}).value();
  std::vector<SlowedPair> out;
  for (const LeverPair& pair : lever_pairs(tables.runs, scored(rows))) {
    const double ratio = std::max(pair.measured, 1 / pair.measured);
    const RowForecast &slow = pair.measured > 1 ? *pair.b : *pair.a, &fast = pair.measured > 1 ? *pair.a : *pair.b;
    const std::string cause = cause_of(pair, tables.runs, slow.row, fast.row);
    if (cause.empty() || ratio < 1 + kCleanChange) continue;
    out.push_back({fast.id + " and " + slow.id, cause,
                   scenario_of_row(tables.runs, fast.row, tables.library).value().scenario, ratio});
  }
  return out;
}

/// Only the step time is known of a published run.
Diagnosis diagnosed(const SlowedPair& pair) {
  const double fast_s = forecast(pair.fast, {}).value().forecast.step_time_s;
  return diagnose(pair.fast, {.step_s = pair.ratio * fast_s, .record = {}}, {}).value();
}

std::ptrdiff_t place_of(const std::string& cause, const Diagnosis& diagnosis) {
  return std::ranges::find(diagnosis.causes, cause, &DiagnosedCause::name) - diagnosis.causes.begin();
}

}  // namespace

TEST_CASE("diagnosis: that a published run used bf16 in place of fp8 is found from its step time",
          "[accuracy][forecast][diagnosis]") {
  for (const SlowedPair& pair : published(Tables(), {{"21", "no_narrow_precision"}})) {
    const Diagnosis d = diagnosed(pair);
    CHECK(place_of(pair.cause, d) == 0);
    CHECK(d.causes.front().step_s / d.forecast_s == Approx(pair.ratio).epsilon(0.05));
  }
}

TEST_CASE("diagnosis: causes of all published pairs", "[.][published-diagnoses]") {
  const Tables tables;
  std::vector<SlowedPair> pairs = published(
      tables, {{"1", "no_expert_overlap"}, {"9", "routing"}, {"11", "routing"}, {"21", "no_narrow_precision"}});
  for (SlowedPair& pair : of_table(tables)) pairs.push_back(std::move(pair));
  int first = 0;
  int in_front = 0;
  for (const SlowedPair& pair : pairs) {
    const Diagnosis d = diagnosed(pair);
    const std::ptrdiff_t place = place_of(pair.cause, d);
    first += place == 0 ? 1 : 0;
    in_front += place < d.indistinguishable ? 1 : 0;
    fmt::print("{}: {} makes it {:.3f} times as long; place {}, {} not told apart:", pair.id, pair.cause, pair.ratio,
               place + 1, d.indistinguishable);
    for (const DiagnosedCause& c : d.causes)
      if (c.likelihood > 0.05) fmt::print(" {} {:.2f} ({:.3f})", c.name, c.likelihood, c.step_s / d.forecast_s);
    fmt::print("\n");
  }
  fmt::print("{} pairs, {} first, {} in front\n", pairs.size(), first, in_front);
  CHECK(2 * first > static_cast<int>(pairs.size()));
}
