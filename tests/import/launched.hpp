/// \file
/// Runs that tests import from files of launchers.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/import/importers.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"

namespace tracecast {

inline RunGivens givens(const std::string& model, int gpus) {
  return {.model = model, .topology = "dgx-h100", .gpus = gpus, .overrides = {"training.seq_length=4096"}};
}

inline ImportedRun imported(const std::string& format, const std::string& content, const std::string& file,
                            const RunGivens& given) {
  return value_of(import_run(format, content, file, given, shipped_data()));
}

inline std::string refusal(const std::string& format, const std::string& content, const std::string& file,
                           const RunGivens& given) {
  const Result<ImportedRun> run = import_run(format, content, file, given, shipped_data());
  REQUIRE_FALSE(run.has_value());
  return to_string(run.error());
}

/// Whether one of the assumptions of a run has these words.
inline bool assumes(const ImportedRun& run, const std::string& words) {
  return std::ranges::any_of(run.assumptions,
                             [&](const std::string& each) { return each.find(words) != std::string::npos; });
}

}  // namespace tracecast
