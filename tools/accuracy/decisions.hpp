/// \file
/// How well forecasts support decisions: ratios and orders of runs of one source, in which the bias of the source
/// cancels.
#pragma once

#include <vector>

#include "sim/io/csv_table.hpp"
#include "tools/accuracy/row_forecast.hpp"

namespace tracecast::accuracy {

/// Errors of ratios of the times of two runs, |forecast ratio / measured ratio - 1|.
struct RatioErrors {
  int pairs = 0;
  double mean = 0;
  double median = 0;
  double worst = 0;
};

/// Pairs of one source, model, GPU and layout with consecutive GPU counts: ratio of the step times.
RatioErrors scaling_ratios(const CsvTable& table, const std::vector<const RowForecast*>& rows);

/// Pairs of one source, model, GPU count, batch and micro-batch that differ only in the schedule or its virtual stages.
RatioErrors schedule_ratios(const CsvTable& table, const std::vector<const RowForecast*>& rows);

struct OrderOfPairs {
  int pairs = 0;  ///< of one source, model, GPU, count and batch whose times differ by more than the threshold
  int right = 0;  ///< ordered as measured
  double share() const { return pairs > 0 ? static_cast<double>(right) / pairs : 0; }
};
OrderOfPairs order_of_pairs(const CsvTable& table, const std::vector<const RowForecast*>& rows, double threshold);

/// Time lost by choosing the layout that is forecast to be fastest instead of the fastest one: mean over groups of at
/// least three runs of one source, model, GPU, count and batch.
struct CostOfChoice {
  int groups = 0;
  int best = 0;  ///< groups where the choice is the fastest
  double mean = 0;
};
CostOfChoice cost_of_choice(const CsvTable& table, const std::vector<const RowForecast*>& rows);

/// Errors of runs before and after own_fit() (own_runs.hpp) with the three most similar other runs of their source: median
/// per source of at least eight runs, mean over sources.
struct OwnCluster {
  int sources = 0;
  int rows = 0;
  int without_similar = 0;  ///< rows with fewer than three similar ones
  double before = 0;
  double after = 0;
};
OwnCluster own_cluster(const CsvTable& table, const std::vector<const RowForecast*>& rows);

}  // namespace tracecast::accuracy
