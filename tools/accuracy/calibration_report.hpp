/// \file
/// The page of `tracecast calibrate --published`, in Markdown, from which docs/validation/accuracy.md and
/// accuracy-sources.md have their tables.
#pragma once

#include <string>

#include "tools/accuracy/calibration.hpp"

namespace tracecast::accuracy {

/// The factors by architecture; errors as the profiles are, fitted, and cross-validated, by model and GPU; bands;
/// decisions.
std::string calibration_page(const CsvTable& table, const CrossValidation& result);

/// scenarios/runs/published-evidence.csv: every scored run with the error of its forecast without its source.
/// Errors: those of scenario_of_row.
Result<std::string> evidence_table(const CsvTable& table, const RowLibrary& library, const CrossValidation& result);

}  // namespace tracecast::accuracy
