/// \file
/// Explains why a simulation cannot continue, in terms of its streams.
#pragma once

#include "sim/base/result.hpp"
#include "sim/engine/state.hpp"

namespace tracecast::engine {

/// Requires a simulation in which every stream is blocked or finished, and at least one is blocked.
Error deadlock_report(State& state);

}  // namespace tracecast::engine
