/// \file
/// What each model earns: the measure of a table of runs with one effect left out of every forecast, nothing fitted anew.
///
/// Fitting again would hide a missing effect in another parameter (docs/references.md#effect-sizes), so that the
/// scatter inside the sources says more than the level.
#pragma once

#include <string>
#include <vector>

#include "tools/accuracy/validate.hpp"

namespace tracecast::accuracy {

struct LeftOut {
  const char* name;
  const char* left_out;  ///< what the forecast does without it
  void (*change)(RowScenario&);
  /// Effects that tables of runs are forecast without, put in. No spans: bands are no part of an ablation.
  ForecastOptions forecast{};
};

/// All effects that can be left out, the whole model ("none") first; then those that can be put in.
const std::vector<LeftOut>& effects();

struct Ablation {
  const LeftOut* effect = nullptr;
  Measure dense;
  Measure all;
  int dense_rows = 0;
  int all_rows = 0;
  double within_10 = 0;      ///< share of dense rows
  double shift = 0;          ///< median change of the dense rows' step times against the whole model, signed
  double largest_shift = 0;  ///< largest such change of the median of one source
};

/// One line per effect.
/// Errors: those of validate.
Result<std::vector<Ablation>> ablate(const CsvTable& table, const RowLibrary& library, const ValidateOptions& options);

/// A Markdown table.
std::string ablation_page(const std::vector<Ablation>& lines);

}  // namespace tracecast::accuracy
