#include "tools/accuracy/nested.hpp"

#include <algorithm>
#include <set>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sim/base/random.hpp"
#include "sim/io/files.hpp"
#include "tests/support/fitted_runs.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"
#include "tools/accuracy/errors.hpp"
#include "tools/accuracy/nested_report.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;

namespace {

CsvTable published(const char* name) {
  return CsvTable::read(source_dir() / "scenarios/runs" / (std::string(name) + ".csv")).value();
}

/// Small runs of four sources, three stacks and three architectures, before and after 2024.
CsvTable small_runs() {
  return published("published")
      .only("id", {"korthikanti-1cc7103b", "korthikanti-9233b4d7", "mlm2020-342ef280", "mlm2020-62e59dae",
                   "llmfoundry-4f3b3eb6", "llmfoundry-f2ad69ab", "torchtitan-1732447d"});
}

}  // namespace

TEST_CASE("publication: the year of the source, or of the release or the page if that is later", "[accuracy]") {
  const CsvTable table =
      CsvTable::parse(
          "source,framework,source_path\na,NeMo 24.07,\na,NeMo,\nb,NeMo,\na,NeMo 23.01,\n"
          "a,NeMo,repo h100_202412_x.md\na,NeMo,repo h100_2025-06_x.md\na,NeMo,repo x.md (2026-08-21)\n",
          "t.csv")
          .value();
  const CsvTable sources = CsvTable::parse("source,published\na,2023.5\n", "s.csv").value();
  const Result<std::vector<double>> years = publication_years(table, sources);
  REQUIRE_FALSE(years);
  CHECK(to_string(years.error()).find("t.csv:4: source = b: has no year of publication in s.csv") != std::string::npos);
  const CsvTable known = table.only("source", {"a"});
  const std::vector<double> of = publication_years(known, sources).value();
  CHECK(of[0] == Approx(2024 + 6.5 / 12));
  CHECK(of[1] == Approx(2023.5));
  CHECK(of[2] == Approx(2023.5));  // the page came after the release
  CHECK(of[3] == Approx(2024 + 11.5 / 12));
  CHECK(of[4] == Approx(2025 + 5.5 / 12));
  CHECK(of[5] == Approx(2023.5));  // the day of a copy
}

TEST_CASE("publication: tables of one publisher are left out together", "[accuracy]") {
  const CsvTable sources =
      CsvTable::parse("source,published,publisher\na,2023,p\nb,2024,p\nc,2024,\n", "s.csv").value();
  CHECK(publishers(sources) == std::map<std::string, std::string>{{"a", "p"}, {"b", "p"}, {"c", "c"}});
  const CsvTable without = CsvTable::parse("source,published\na,2023\n", "s.csv").value();
  CHECK(publishers(without).at("a") == "a");
}

TEST_CASE("publication: every shipped run has a year", "[accuracy]") {
  const std::vector<double> years = publication_years(published("published"), published("published-sources")).value();
  CHECK(*std::min_element(years.begin(), years.end()) > 2019);
  CHECK(*std::max_element(years.begin(), years.end()) < 2027);
}

TEST_CASE("an architecture without runs gets what training adds to all others", "[oracle][accuracy]") {
  // GEMMs take 1.2 times the isolated time on two architectures; a third profile has 1.5 times it.
  RandomStream random(5, 0, 0);
  const std::vector<RowForecast> rows = runs_of_sources(80, 8, [&](int i, RowForecast& row) {
    if (i % 2 == 1) row.architecture = "Ampere";
    row.sensitivities.path_s[0] = row.predicted_s = 1 + random.uniform();
    row.measured_s = 1.2 * row.predicted_s;
  });
  FitChoice choice;
  for (const char* name : {"Hopper", "Ampere", "Blackwell"}) choice.shipped[name] = unit_scales();
  choice.shipped["Blackwell"][0] = 1.5;
  const CalibrationFit fit = fit_factors(scored(rows), choice);
  const double common = fit.factors.at("Blackwell")[0] * 1.5;
  CHECK(common > 1.1);  // the priors keep it below 1.2
  CHECK(common < fit.factors.at("Hopper")[0]);
  CHECK(fit.factors.at("Hopper")[0] < 1.2);
  choice.free[0] = false;
  CHECK(fit_factors(scored(rows), choice).factors.at("Blackwell")[0] * 1.5 == Approx(1).epsilon(1e-3));
}

TEST_CASE("one source that is far off hardly moves the factors", "[accuracy]") {
  // Nine sources take 1.2 times the isolated time, give or take 2 %; a tenth takes 1.2 or 1.7 times.
  const auto factor = [](double of_the_tenth) {
    RandomStream random(7, 0, 0);
    const std::vector<RowForecast> rows = runs_of_sources(80, 10, [&](int i, RowForecast& row) {
      row.sensitivities.path_s[0] = row.predicted_s = 1 + random.uniform();
      const double site = 1.2 * (1 + 0.005 * (i % 10 - 4));
      row.measured_s = (i % 10 == 9 ? of_the_tenth : site) * row.predicted_s;
    });
    return fit_factors(scored(rows)).factors.at("Hopper")[0];
  };
  CHECK(factor(1.7) / factor(1.2) < 1.02);  // the mean of the sources grows by 3.5 %
  CHECK(factor(1.7) > factor(1.2));
}

TEST_CASE("no factor lets narrow multiplications gain more than their limit", "[accuracy]") {
  // Multiplications take 1.3 times the isolated time in 16 bit, and the isolated time in 8 bit.
  RandomStream random(6, 0, 0);
  const auto fp8 = static_cast<std::size_t>(CostParameter::gemm_fp8);
  const std::vector<RowForecast> rows = runs_of_sources(80, 8, [&](int i, RowForecast& row) {
    row.sensitivities.path_s[i % 2 == 0 ? 0 : fp8] = row.predicted_s = 1 + random.uniform();
    row.measured_s = (i % 2 == 0 ? 1.3 : 1.0) * row.predicted_s;
  });
  const auto ratio = [&](const FitChoice& choice) {
    const CostScales factors = fit_factors(scored(rows), choice).factors.at("Hopper");
    return factors[0] / factors[fp8];
  };
  FitChoice choice;
  CHECK(ratio(choice) > 1.2);
  choice.most_gemm["Hopper"] = unit_scales();
  choice.most_gemm["Hopper"][fp8] = 1.1;
  CHECK(ratio(choice) == Approx(1.1));
  choice.most_gemm["Hopper"][fp8] = 2;
  CHECK(ratio(choice) == Approx(ratio({})));
}

TEST_CASE("the limit of an 8-bit factor is where peaks or bytes are reached", "[accuracy]") {
  const FitChoice choice = choice_of_profiles(RowLibrary::open(shipped_data()).value()).value();
  for (const char* name : {"h100", "b200", "mi300x"}) {
    INFO(name);
    Profile profile = shipped_profile(name);
    const CostScales& most = choice.most_gemm.at(profile.architecture);
    InTraining& factors = profile.in_training;
    factors.gemm = most[static_cast<std::size_t>(CostParameter::gemm_fp8)] * factors.gemm_fp8;
    double gain = 0;
    for (const Precision precision : {Precision::fp8, Precision::mxfp8, Precision::fp8_block})
      gain = std::max(gain, narrow_gain(profile, precision));
    CHECK(gain == Approx(1).epsilon(2e-4));  // factors have four decimals
    CHECK(gain < 1);
  }
}

TEST_CASE("nested: no run is in the training part of its own fold", "[accuracy]") {
  const CsvTable table = small_runs();
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  // Two tables of one publisher, which are left out together.
  const CsvTable sources = CsvTable::parse(
                               "source,published,publisher\n"
                               "Korthikanti et al. MLSys23 (arXiv 2205.05198),2022.37,NVIDIA\n"
                               "Megatron-LM README 2020,2020.6,NVIDIA\n"
                               "MosaicML llm-foundry benchmarking README,2023.7,\n"
                               "torchtitan benchmarks,2024.9,\n",
                               "s.csv")
                               .value();
  const std::map<std::string, std::string> publisher = publishers(sources);
  const Nested nested = nested_scores(table, sources, library, {.threads = 2}).value();
  std::vector<std::string> names;
  for (const Way& way : nested.ways) {
    names.push_back(way.name);
    std::set<std::size_t> tested;
    for (const Fold& fold : way.folds) {
      CAPTURE(way.name, fold.left_out);
      for (const std::size_t row : fold.tested) {
        CHECK(tested.insert(row).second);
        CHECK(std::find(fold.train.begin(), fold.train.end(), row) == fold.train.end());
        CHECK(way.held_out[row].scored());
        for (const std::size_t other : fold.train) {
          if (way.name == "source")
            CHECK(publisher.at(table.text(row, "source")) != publisher.at(table.text(other, "source")));
          if (way.name == "stack") CHECK(nested.plain[row].stack != nested.plain[other].stack);
          if (way.name == "generation") CHECK(nested.plain[row].architecture != nested.plain[other].architecture);
        }
      }
      // A setting that no run of the training part tests is not used.
      for (std::size_t rule = 0; rule < fold.used.size(); ++rule)
        if (std::string(rules()[rule].name) == "shard-ranks") CHECK_FALSE(fold.used[rule]);
    }
    if (way.name != "time") CHECK(tested.size() == scored(nested.plain).size());
  }
  CHECK(names == std::vector<std::string>{"source", "stack", "generation", "time"});
  REQUIRE(nested.rules.size() == rules().size());
  for (const RuleScore& rule : nested.rules) CHECK(rule.folds_used <= rule.folds);

  const NestedReport report{.nested = nested, .levers = {}, .pairs = {}};
  const nlohmann::json json = nlohmann::json::parse(nested_json(report));
  CHECK(json["ways"]["source"]["rows"].size() == scored(nested.plain).size());
  CHECK(json["worst"]["dense"] >= json["ways"]["stack"]["dense"]["error"]);
  CHECK(nested_page(report, true).find("| generation, dense | 3 |") != std::string::npos);
  CHECK(nested_page(report, true).find("| blocking | BLOOM's launches do not wait for kernels | none |") !=
        std::string::npos);
  CHECK(nested_page(report, false).find("Worst of the four ways: dense") == 0);
}

TEST_CASE("levers: pairs that differ in one lever alone", "[oracle][accuracy]") {
  const CsvTable table = CsvTable::parse(
                             "source,recompute,gpu_count,global_batch_seqs,seq_len\n"
                             "a,none,8,16,100\na,full,8,16,100\na,full,16,32,100\n",
                             "t.csv")
                             .value();
  std::vector<RowForecast> rows(3);
  const double predicted[] = {10, 12, 13}, measured[] = {10, 13, 12.5};
  for (std::size_t i = 0; i < 3; ++i) {
    rows[i].row = i;
    rows[i].predicted_s = predicted[i];
    rows[i].measured_s = measured[i];
  }
  for (const LeverErrors& lever : lever_errors(table, scored(rows))) {
    if (lever.lever == "recomputation") {
      CHECK(lever.pairs == 1);
      CHECK(lever.median == Approx(1 - 1.2 / 1.3));
      CHECK(lever.clear == 1);
      CHECK(lever.right == 1);
    } else if (lever.lever == "scale") {  // the tokens of a GPU are the same: 13/12 forecast, 12.5/13 measured
      CHECK(lever.pairs == 1);
      CHECK(lever.median == Approx(13.0 / 12 / (12.5 / 13) - 1));
      CHECK(lever.clear == 0);
    } else {
      CHECK(lever.pairs == 0);
    }
  }
}

TEST_CASE("published pairs name runs of the table", "[accuracy]") {
  const CsvTable pairs = published("published-pairs"), table = published("published");
  int known = 0;
  for (std::size_t i = 0; i < pairs.rows(); ++i)
    for (const char* column : {"row_a", "row_b"}) {
      if (pairs.text(i, column).empty()) continue;
      CAPTURE(pairs.text(i, column));
      CHECK(table.only("id", {pairs.text(i, column)}).rows() == 1);
      ++known;
    }
  CHECK(known == 16);
  const CsvTable one = pairs.only("id", {"21"});
  const std::vector<PublishedPair> forecast =
      published_pairs(one, table, RowLibrary::open(shipped_data()).value(), {}).value();
  REQUIRE(forecast.size() == 1);
  CHECK(forecast[0].measured == Approx(6150 / 7689.5));
  CHECK(forecast[0].forecast == Approx(0.76).margin(0.08));
}
