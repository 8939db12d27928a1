#include "sim/search/uncertainty.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/io/csv_table.hpp"
#include "tests/support/files.hpp"
#include "tests/support/paths.hpp"

using namespace tracecast;

TEST_CASE("capacity: the shares of errors in common are those of published runs", "[search][accuracy]") {
  // Over pairs of runs of one model and precision: 1 - mean((a - b)^2 / 2) / mean((a^2 + b^2) / 2) of their log errors, each
  // group with the same weight; on one GPU with as many GPUs, or on two different GPUs.
  const CsvTable table = CsvTable::read(source_dir() / "scenarios/runs/published-evidence.csv").value();
  const auto share = [&](bool experts, bool same_gpu) {
    std::map<std::string, std::vector<std::pair<std::string, double>>> groups;
    for (std::size_t i = 0; i < table.rows(); ++i) {
      const auto cell = [&](const char* column) { return table.text(i, column); };
      if ((cell("experts") != "0") != experts) continue;
      const std::string group = cell("parameters") + cell("precision") + (same_gpu ? cell("gpu") + cell("ranks") : "");
      groups[group].emplace_back(cell("gpu"), std::log1p(std::stod(cell("error"))));
    }
    double apart = 0;
    double all = 0;
    for (const auto& [name, runs] : groups) {
      double group_apart = 0;
      double group_all = 0;
      int pairs = 0;
      for (std::size_t i = 0; i < runs.size(); ++i)
        for (std::size_t j = i + 1; j < runs.size(); ++j) {
          if (!same_gpu && runs[i].first == runs[j].first) continue;
          group_apart += std::pow(runs[i].second - runs[j].second, 2) / 2;
          group_all += (std::pow(runs[i].second, 2) + std::pow(runs[j].second, 2)) / 2;
          ++pairs;
        }
      if (pairs == 0) continue;
      apart += group_apart / pairs;
      all += group_all / pairs;
    }
    return std::max(0.0, 1 - apart / all);
  };
  for (const bool experts : {false, true})
    for (const bool same_gpu : {false, true})
      CHECK(shared_error(experts, same_gpu) == Approx(share(experts, same_gpu)).margin(0.05));
  const auto said = [](bool experts, bool same_gpu) { return std::lround(100 * shared_error(experts, same_gpu)); };
  CHECK(content_of(source_dir() / "docs/planning.md")
            .find(fmt::format(
                "{} % of the variance is common on one GPU and {} % on two different GPUs; with experts {} "
                "% and {} %",
                said(false, true), said(false, false), said(true, true), said(true, false))) != std::string::npos);
}
