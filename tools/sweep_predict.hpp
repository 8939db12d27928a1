/// \file
/// `tracecast predict --sweep`: a grid of forecasts in place of one.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/io/files.hpp"
#include "tools/commands.hpp"

namespace tracecast::cli {

struct SweepOptions {
  std::vector<std::string> axes;  ///< of --sweep; empty: no sweep
  std::string csv;
  std::string svg;
};

/// The overrides that begin with "topology.", without that, and the others.
struct DividedOverrides {
  std::vector<std::string> of_topology;
  std::vector<std::string> of_scenario;
};
DividedOverrides divided(const std::vector<std::string>& overrides);

/// The scenario's machine with values of its topology file replaced; a measurement of the file's machine is dropped.
/// Errors: those of read_topology; values that no machine has; another GPU.
Result<void> change_topology(Scenario& scenario, const std::vector<std::string>& overrides, const DataPaths& data);

/// Errors: those of find_file; a sentence where `name` is that of a model.
Result<std::filesystem::path> find_scenario(const std::string& name, const DataPaths& data);

/// `scenario` and `overrides` as for predict. Overrides that begin with "topology." change the machine.
Result<Scenario> read_with_topology(const std::string& scenario, const std::vector<std::string>& overrides);

Result<ExitCode> sweep_predict(const SweepOptions& sweep, const std::string& scenario,
                               const std::vector<std::string>& overrides, const ForecastOptions& options, bool json,
                               const Context& context);

}  // namespace tracecast::cli
