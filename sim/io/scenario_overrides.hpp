/// \file
/// What follows from values of --set: other values of the file that no longer fit them.
#pragma once

#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/scenario.hpp"

namespace tracecast {

/// The file of a KeyLocation on the command line.
inline constexpr const char* kOverrides = "--set";

/// A degree of the file that no longer fits those of --set follows from them. Without an override the file is checked
/// as it is.
void derive_degrees(Scenario& scenario);

/// A measurement is of the run in the file. It still holds if --set changes only what a real run does not know.
void drop_measurement(Scenario& scenario);

/// The profile lists the available kernels. A run moved to another machine with --set falls back to that GPU's first
/// kernel if the file's kernel is missing there; the report mentions it (attention_text).
void check_attention_kernel(Scenario& scenario, std::vector<Diagnostic>& errors);
/// As with the kernel: on another machine attention falls back to 16 bit. A dtype without attention is the plan's to refuse.
void check_fp8_attention(Scenario& scenario, std::vector<Diagnostic>& errors);

}  // namespace tracecast
