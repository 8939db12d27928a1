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

using Texts = std::vector<std::string>;

inline RunGivens givens(const std::string& model, int gpus) {
  return {.model = model, .topology = "dgx-h100", .gpus = gpus, .overrides = {"training.seq_length=4096"}};
}

/// With a batch as well.
inline RunGivens job(const std::string& model, int gpus) {
  return {.model = model,
          .topology = "dgx-h100",
          .gpus = gpus,
          .overrides = {"training.seq_length=4096", "training.global_batch_size=64"}};
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

inline Texts unmapped(const ImportedRun& run) {
  Texts keys;
  for (const UnmappedSetting& each : run.unmapped) keys.push_back(each.key);
  return keys;
}

inline ImportedRun deepspeed(const std::string& settings) {
  return imported("deepspeed", "{\"train_micro_batch_size_per_gpu\": 1" + settings + "}", "ds.json",
                  givens("llama-3.1-8b", 8));
}

inline ImportedRun accelerate(const std::string& settings) {
  return imported("accelerate", "num_processes: 8\nmixed_precision: bf16\n" + settings, "a.yaml",
                  givens("llama-3.1-8b", 8));
}

}  // namespace tracecast
