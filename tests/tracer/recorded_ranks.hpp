/// Recordings made by hand: the step of a scenario as a rank's GPU would have run it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"

namespace tracecast::test {

/// Llama 3.1 8B, tensor-parallel over 8 ranks of a host and data-parallel over what remains.
Scenario scenario_of(int ranks, const std::vector<std::string>& more = {});

/// With every rank.
ForecastRun unfolded_forecast(const Scenario& scenario);

/// The name that a framework's kernel of this kind has.
const char* kernel_name(OperatorKind kind);

/// Calls `kernel` with each operator of a rank's step, in the order in which the host issues them.
void for_each_operator(const StepGraph& graph, const Rank& rank,
                       const std::function<void(const CostedOperator& each)>& kernel);

}  // namespace tracecast::test
