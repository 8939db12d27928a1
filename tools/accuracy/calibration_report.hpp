/// \file
/// What `tracecast calibrate` prints, and the pages of docs/validation that it writes: Markdown.
#pragma once

#include <string>

#include "tools/accuracy/calibration.hpp"

namespace tracecast::accuracy {

/// The factors by architecture; errors as the profiles are, fitted, and cross-validated, by model and GPU; bands; decisions.
std::string calibration_page(const CsvTable& table, const CrossValidation& result);

}  // namespace tracecast::accuracy
