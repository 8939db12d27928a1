/// \file
/// Which settings of a job rule out values that a search would try: ddp every sharding, a vocabulary that is not padded most
/// tensor-parallel degrees.
#pragma once

#include <string>
#include <vector>

#include "sim/search/space.hpp"

namespace tracecast {

/// "parallel.data_parallel = ddp rules out zero_stage 1, 3 (2 of 3 values)": a sentence for each setting that differs from its
/// default, and each choice. A value counts as ruled out if neither the scenario's own layout nor the simplest one is possible with
/// it, and one of them is with the default of that setting alone.
/// Leaves out: what only several settings together, or a combination of choices, make impossible.
std::vector<std::string> ruled_out(const Scenario& scenario, const SearchSpace& space);

}  // namespace tracecast
