/// \file
/// What a request of the what-if page (what_if.hpp) names: its scenario and single values. Names of shipped files are read, never paths.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "sim/base/result.hpp"
#include "sim/io/files.hpp"
#include "sim/io/scenario.hpp"

namespace tracecast::cli {

/// Errors: a key that a forecast's request does not have; a switch that is neither true nor false.
Result<void> check_request(const nlohmann::ordered_json& request);
/// Errors: a key of "failures" that it does not have.
Result<void> check_failure_keys(const nlohmann::ordered_json& failures);

/// The name of a shipped file at `key`.   Errors: there is none, or it could be a path
Result<std::string> name_at(const nlohmann::ordered_json& request, const char* key);
/// A number at `key` of "failures", from low to high; `otherwise` where there is none.
Result<double> number_at(const nlohmann::ordered_json& group, const char* key, double low, double high,
                         double otherwise);
bool is_true(const nlohmann::ordered_json& request, const char* key);

struct Asked {
  Scenario scenario;
  std::string machine;  ///< for RecentSteps
};

/// The scenario of "scenario" or "file" with the values of "set".   Errors: those of readers, paths
Result<Asked> scenario_of(const nlohmann::ordered_json& request, const DataPaths& data);

}  // namespace tracecast::cli
