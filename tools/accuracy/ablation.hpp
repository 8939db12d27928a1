/// \file
/// The contribution of each effect: the errors of a table of runs with one effect left out of every forecast, without
/// a new fit.
///
/// Fitting again would hide a missing effect in another parameter (docs/references.md#effect-sizes), so that the
/// scatter inside the sources says more than the level.
#pragma once

#include <string>
#include <vector>

#include "tools/accuracy/errors.hpp"
#include "tools/accuracy/validate.hpp"

namespace tracecast::accuracy {

struct LeftOut {
  const char* name = "";
  const char* left_out = "";  ///< what the forecasts do without it
  void (*change)(RowScenario&) = nullptr;
  /// Options that add an effect. No spans are recorded, since an ablation has no prediction intervals.
  ForecastOptions forecast{};
  void (*change_stack)(Stack&) = nullptr;
  const char* evidence = "";  ///< outside the table of runs; "": the errors of the table are the only reason for it
  int sign = -1;              ///< of the change of step times, for an effect: -1 if steps are shorter without it
};

/// The whole model ("none"), then all effects that can be left out, then those that can be added.
const std::vector<LeftOut>& effects();

/// Rules and settings that could also be chosen by the errors of the table (nested.hpp).
const std::vector<LeftOut>& rules();

struct Ablation {
  const LeftOut* effect = nullptr;
  Measure dense;
  Measure all;
  int dense_rows = 0;
  int all_rows = 0;
  double within_10 = 0;      ///< share of dense rows
  double shift = 0;          ///< median relative change of the step times of dense rows, signed
  double largest_shift = 0;  ///< the largest median of one source
};

/// One line per effect, the first of which is the whole model. The lines point to `left_out`.
/// Errors: those of validate.
Result<std::vector<Ablation>> ablate(const CsvTable& table, const RowLibrary& library, const ValidateOptions& options,
                                     const std::vector<LeftOut>& left_out = effects());

/// A Markdown table.
std::string ablation_page(const std::vector<Ablation>& lines);

}  // namespace tracecast::accuracy
