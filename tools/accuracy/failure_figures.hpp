/// \file
/// The published figures of failures, restarts, checkpoints and goodput (scenarios/runs/published-failures.csv), each
/// beside a forecast by a model that was not fitted to that cluster.
///
/// scenarios/runs/failure-forecasts.csv says for each figure what forecasts it, or why nothing does:
///
///   quantity  failures         expected number, interval or rate of the kinds in `select`, per row's unit; with `total`
///                              the share of it that these kinds have among all interruptions
///             nodes            nodes that are replaced
///             spares           enough_spares()
///             goodput          simulated on `scenario` with `set`
///             checkpoint_size  of the model file `model`
///             restart, warm_restart, communicators
///                              the laws of size, fitted to the other sizes of the table
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/csv_table.hpp"
#include "sim/io/files.hpp"
#include "sim/report/text.hpp"

namespace tracecast::accuracy {

/// Times to start a job of `gpus` GPUs.
struct StartTimes {
  double gpus = 0;
  double restart_s = 0;        ///< of the whole job, communicators included
  double communicators_s = 0;  ///< of that, the communication library
};

/// communicators = a (gpus/1000)^exponent; the rest of a restart = base + per_1k gpus/1000.
struct StartLaw {
  double base_s = 0;
  double per_1k_s = 0;
  double communicators_per_1k_s = 0;
  double exponent = 1;
  double communicators_s(double gpus) const;
  double restart_s(double gpus) const;
};

/// Least squares: of the logarithms for communicators, of relative errors for the rest.
/// Requires at least two points of different size.
StartLaw fit_start_law(const std::vector<StartTimes>& points);

struct FailureFigure {
  std::string run;
  std::string gpu;
  double gpus = 0;
  std::string name;  ///< metric and category
  std::string unit;
  std::string model;  ///< that forecasts it
  double published = 0;
  double forecast = 0;
  bool bound = false;  ///< the published value is a lower bound
  double ratio() const { return forecast / published; }
};

struct FailureFigures {
  std::vector<FailureFigure> figures;
  std::map<std::string, int> left_out;  ///< reason: number of figures
};

/// Is this a table of failures? Its columns say.
bool is_failure_table(const CsvTable& table);

/// Errors: those of the data files; a row of `table` without a row in failure-forecasts.csv; an unknown quantity, unit or
/// kind of failure.
Result<FailureFigures> forecast_failure_figures(const CsvTable& table, const DataPaths& data, int threads);

std::string failure_figures_page(const FailureFigures& figures, const TextStyle& style);
std::string failure_figures_json(const FailureFigures& figures);

}  // namespace tracecast::accuracy
