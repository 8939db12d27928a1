/// \file
/// What ranks on CPUs and on GPUs read in the same way: their scenario, their suite.
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

/// SCENARIO and --set; the options that `execute` has beside them; those of `profile`.
void add_scenario_options(CLI::App& command, ExecuteOptions& options);
void add_execute_options(CLI::App& command, ExecuteOptions& options);
void add_profile_options(CLI::App& command, ProfileOptions& options);

Result<Scenario> load_scenario(const ExecuteOptions& options);

/// The operators of the scenarios, then the suite that was asked for. `largest`: of collectives when the suite has
/// none of its own.
Result<Suite> suite_of(const ProfileOptions& options, Bytes largest);

/// Requires a scenario that was forecast before.
Widths widths_of(const Scenario& scenario);

}  // namespace tracecast::worker
