/// \file
/// Output of an executed step, for CPU and GPU workers.
#pragma once

#include <vector>

#include "sim/forecast/forecast.hpp"
#include "sim/io/scenario.hpp"
#include "tools/worker/worker.hpp"

namespace tracecast::worker {

/// timeline.json and trace.json of the step nearest to the lower quartile, in the folder of --out.
Result<void> write_steps(const ExecuteOptions& options, const Scenario& scenario, ForecastRun& run,
                         const std::vector<Timeline>& steps);

}  // namespace tracecast::worker
