/// \file
/// The latest forecasts of a session of the what-if page. Settings that do not concern the step (failures, checkpoints), and
/// settings that were shown shortly before, need no new forecast; a slow rank of another speed needs no new graph.
#pragma once

#include <list>
#include <string>

#include "sim/forecast/forecast.hpp"

namespace tracecast::cli {

class RecentSteps {
 public:
  /// As forecast() with the default options. The run stays valid until the next call.
  /// `machine`: of what the scenario's topology was made, its file and what was changed in it
  /// Errors: those of forecast()
  Result<const ForecastRun*> forecast(const Scenario& scenario, const std::string& machine);

 private:
  struct Step {
    std::string settings;  ///< all but the slow ranks
    Scenario scenario;
    ForecastRun run;
  };

  std::list<Step> latest_first_;
};

}  // namespace tracecast::cli
