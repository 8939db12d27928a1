/// \file
/// Operators as pages and traces name them.
#pragma once

#include <string>

#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// "qkv", "qkv wgrad", or "qkv dgrad (again)" for a recomputation.
std::string operator_name(const CostedOperator& used);

/// "bf16 8192 x 4608 x 16384": precision and sides.
std::string shape_text(const Operator& op);

}  // namespace tracecast
