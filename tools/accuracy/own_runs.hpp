/// \file
/// A forecast corrected by measured runs of the same cluster, from one run up.
///
/// The error log(measured / forecast) of two runs has the correlation
///
///   0.9 x 0.85 if their precision differs x 0.45 for each lever that differs x exp(-(d / 2.2)^2),   0 on different GPUs
///
/// d: distance of size, length, micro-batch, degrees and GPUs in doublings (layout_distance, decisions.hpp); levers: recomputation, software,
/// compilation, schedule, ZeRO stage. The correction is the best linear estimate from the known errors (kriging with mean
/// 0), so that a run that tells nothing changes nothing. The numbers are rounded from pairs of published runs of one source
/// and GPU, whose errors correlate by 0.86 to 0.91 (same precision and levers, d < 1.5), 0.39 (d 1.5 to 3), 0.73 to 0.83
/// (other precision) and 0.31 to 0.39 (other levers); docs/references.md#one-scale.
#pragma once

#include <string>
#include <vector>

#include "sim/io/csv_table.hpp"
#include "tools/accuracy/row_forecast.hpp"

namespace tracecast::accuracy {

/// Correlation of the errors of two different runs, 0 to 0.9.
double error_correlation(const CsvTable& table, const RowForecast& a, const RowForecast& b);

struct OwnFit {
  double factor = 1;     ///< on the forecast
  double explained = 0;  ///< share of the variance of its error that the known runs take away
  int runs = 0;          ///< known runs that say anything about it
  double low_s = 0;      ///< 90 % interval of the corrected step time
  double high_s = 0;
};

/// `known`: runs with a measured time; the run itself is not used.
OwnFit own_fit(const CsvTable& table, const RowForecast& row, const std::vector<const RowForecast*>& known);

/// "bf16, full recomputation, Megatron-LM, 1f1b, ZeRO 1": what the correction tells apart.
std::string levers_text(const CsvTable& table, const RowForecast& row);

}  // namespace tracecast::accuracy
