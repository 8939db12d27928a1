/// \file
/// Errors on runs left out of the fits: factors, and which rules are used, are fitted and chosen in a training part, and only the
/// runs left out of it are scored. The settings of rules were chosen with all runs in view.
///
/// Four ways of leaving out:
///
///   source        the runs of one source, or of all tables of one publisher that repeat each other's runs (publishers())
///   stack         the runs of one software stack
///   generation    the runs on one GPU architecture
///   time          all runs published after a date, at kForwardDates; a run counts with the last date before it
///
/// In each training part
///
///   factors   are fitted (calibration.hpp); an architecture without runs gets the common ones
///   rules     (rules() of ablation.hpp) without evidence outside the table are used only if the error with them is
///             smaller than without them: the measure of errors.hpp, of dense runs, of those with experts, or both, as the
///             rule changes them, on parts of the training part that were left out of it in turn (kInnerParts groups of
///             sources). A rule that no run of the training part tests is not used; one that runs of other stacks test keeps the setting
///             that all runs gave it
///   bands     get their widths (band_fit.hpp) from the same inner errors, and from those of parts of the training part
///             whose stacks, and whose architectures, were left out of it in turn
///
/// The inner errors are of the first order: times on the critical path add, and rules do not interact. The held-out
/// runs are simulated with the rules and factors of their fold.
/// Leaves out: profiles' kernel and network models (fitted to kernels and collectives alone) and what a stack does by
/// its source code.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "tools/accuracy/ablation.hpp"
#include "tools/accuracy/band_fit.hpp"
#include "tools/accuracy/calibration.hpp"
#include "tools/accuracy/validate.hpp"

namespace tracecast::accuracy {

inline constexpr std::array<double, 3> kForwardDates{2024.0, 2025.0, 2026.0};
inline constexpr int kInnerParts = 5;

/// Of every rule, in the order of rules(): it is used.
using RuleSet = std::vector<bool>;

/// One training part, and what was fitted and chosen in it.
struct Fold {
  std::string left_out;               ///< "Hopper", "after 2024"
  std::vector<std::size_t> train{};   ///< rows of the table
  std::vector<std::size_t> tested{};  ///< those that this fold forecasts
  RuleSet used{};
  CalibrationFit fit{};
  RunBand band{};
  KnownRuns known{};
};

struct Way {
  std::string name;
  std::vector<Fold> folds{};
  std::vector<RowForecast> held_out{};  ///< [row of the table], as simulated by its fold
};

/// A rule in the nested scores: the measure (percent / 100) of all dense runs and of those with experts, of the first
/// order, without a choice: with the rule and without it, all others as chosen.
struct RuleScore {
  const LeftOut* rule = nullptr;
  int rows = 0;                                            ///< whose forecast it changes
  int folds_used = 0;                                      ///< of all ways
  int folds = 0;                                           ///< in whose training part a run tests it
  std::map<std::string, std::array<double, 2>> dense{};    ///< by way: with, without
  std::map<std::string, std::array<double, 2>> experts{};  ///< by way: with, without
};

/// The same for the factor of one kind of work: with, and with the time of the isolated kernel.
struct FactorScore {
  CostParameter kind{};
  std::map<std::string, std::array<double, 2>> dense{};
  std::map<std::string, std::array<double, 2>> experts{};
};

struct Nested {
  std::vector<RowForecast> plain;  ///< as shipped
  std::vector<Way> ways;           ///< source, stack, generation, time
  std::vector<Way> dates;          ///< each date with all that was published after it
  std::vector<RuleScore> rules;
  std::vector<FactorScore> factors;
  RunBand band;          ///< fitted to all rows: kRunBand
  int free_factors = 0;  ///< of the fit to all rows: kinds of work and architectures that runs determine
};

/// Year of publication of every row: that of its source in `sources` (columns source, published), or of the release in its framework's
/// name ("26.04") or the month in its `source_path` ("2025-06"), if that is later.
/// Errors: a source that `sources` lacks.
Result<std::vector<double>> publication_years(const CsvTable& table, const CsvTable& sources);

/// [source] who published it, if `sources` says so (column publisher): what several tables of one publisher have in common is one source
/// for those who leave it out, since it repeats runs. Else the source itself.
std::map<std::string, std::string> publishers(const CsvTable& sources);

/// Errors: those of validate and of publication_years.
Result<Nested> nested_scores(const CsvTable& table, const CsvTable& sources, const RowLibrary& library,
                             const ValidateOptions& options);

}  // namespace tracecast::accuracy
