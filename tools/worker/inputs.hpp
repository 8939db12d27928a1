/// \file
/// Input that CPU and GPU workers share: scenario and suite.
#pragma once

#include <string>
#include <vector>

#include "kernels/operands.hpp"
#include "kernels/suite.hpp"
#include "sim/io/scenario.hpp"
#include "tools/worker/worker.hpp"

namespace CLI {
class App;
}

namespace tracecast::worker {

/// SCENARIO and --set; the further options of `execute`; those of `profile`.
void add_scenario_options(CLI::App& command, ExecuteOptions& options);
void add_execute_options(CLI::App& command, ExecuteOptions& options);
void add_profile_options(CLI::App& command, ProfileOptions& options);

Result<Scenario> load_scenario(const ExecuteOptions& options);

/// The operators of the scenarios, then the requested suite. `largest`: largest collective, for a suite without its own
/// sizes.
Result<Suite> suite_of(const ProfileOptions& options, Bytes largest);

/// Requires a scenario that has been forecast.
Widths widths_of(const Scenario& scenario);

}  // namespace tracecast::worker
