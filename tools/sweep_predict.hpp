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

/// `scenario` and `overrides` as for predict. Overrides that begin with "topology." change the machine.
Result<Scenario> read_with_topology(const std::string& scenario, const std::vector<std::string>& overrides);

Result<ExitCode> sweep_predict(const SweepOptions& sweep, const std::string& scenario,
                               const std::vector<std::string>& overrides, const ForecastOptions& options, bool json,
                               const Context& context);

}  // namespace tracecast::cli
