/// \file
/// Reader of scenarios/economics/NAME.json: prices and power (docs/formats/economics.md).
#pragma once

#include <filesystem>

#include "sim/base/result.hpp"
#include "sim/economics/economics.hpp"
#include "sim/io/files.hpp"

namespace tracecast {

/// Bands are [low, typical, high], ascending, not negative.
/// Errors: those of the JSON reader; an invalid band; unknown keys. All are reported, with lines.
Result<Economics> read_economics(const std::filesystem::path& path);

/// The assumption set where none is named.
inline constexpr const char* kUsualPrices = "prices-2026";
/// Errors: as of read_economics().
Result<Economics> read_usual_economics(const DataPaths& data);

}  // namespace tracecast
