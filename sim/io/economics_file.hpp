/// \file
/// Reader of scenarios/economics/NAME.json: prices and power (docs/formats/economics.md).
#pragma once

#include <filesystem>

#include "sim/base/result.hpp"
#include "sim/economics/economics.hpp"

namespace tracecast {

/// Bands are [low, typical, high], ascending, not negative.
/// Errors: those of the JSON reader; an invalid band; unknown keys. All are reported, with lines.
Result<Economics> read_economics(const std::filesystem::path& path);

}  // namespace tracecast
