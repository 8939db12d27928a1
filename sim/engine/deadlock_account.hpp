/// Why a simulation cannot go on, in terms of its streams.
#pragma once

#include "sim/base/result.hpp"
#include "sim/engine/state.hpp"

namespace tracecast::engine {

/// Requires a simulation in which every stream waits or has finished, and one has not finished.
Error account_of_deadlock(State& state);

}  // namespace tracecast::engine
