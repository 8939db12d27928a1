/// \file
/// How well forecasts decide what people decide by: ratios and orders of runs of one source, which the source's own bias leaves
/// alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/accuracy/validate.hpp"

namespace tracecast::accuracy {

/// Errors of the ratio of two runs' times, |forecast ratio / measured ratio - 1|.
struct RatioErrors {
  int pairs = 0;
  double mean = 0;
  double median = 0;
  double worst = 0;
};

/// Pairs of one source, model, GPU and layout whose GPU counts follow each other: ratio of time per token and GPU.
RatioErrors scaling_ratios(const CsvTable& table, const std::vector<const RowForecast*>& rows);

/// Pairs of one source, model, GPU count, batch and micro-batch that differ in the schedule or its chunks only.
RatioErrors schedule_ratios(const CsvTable& table, const std::vector<const RowForecast*>& rows);

struct OrderOfPairs {
  int pairs = 0;  ///< of one source, model, GPU, count and batch whose times differ by more than the threshold
  int right = 0;  ///< ordered as measured
  double share() const { return pairs > 0 ? static_cast<double>(right) / pairs : 0; }
};
OrderOfPairs order_of_pairs(const CsvTable& table, const std::vector<const RowForecast*>& rows, double threshold);

/// What choosing the forecast's fastest layout costs against the measured fastest, mean over groups of at least three runs of
/// one source, model, GPU, count and batch.
struct CostOfChoice {
  int groups = 0;
  int best = 0;  ///< groups whose forecast best is the best
  double mean = 0;
};
CostOfChoice cost_of_choice(const CsvTable& table, const std::vector<const RowForecast*>& rows);

/// A run's likeness to another: 0 the same, infinite on another GPU. Doublings of size, length, micro-batch and degrees count,
/// so do another precision, recomputation or stack.
double distance(const CsvTable& table, const RowForecast& a, const RowForecast& b);

/// Of runs farther than this one cannot learn a scale: docs/references.md#one-scale, unlike rows harm.
inline constexpr double kAlike = 3.0;

/// The factor measured / forecast of the three most similar of `known` (geometric mean), when three are alike.
std::optional<double> own_scale(const CsvTable& table, const RowForecast& row,
                                const std::vector<const RowForecast*>& known);

/// Error of every run when three runs like it are known, by source of at least eight: median per source, mean over sources.
struct OwnCluster {
  int sources = 0;
  int rows = 0;
  int refused = 0;  ///< rows without three that are alike
  double before = 0;
  double after = 0;
};
OwnCluster own_cluster(const CsvTable& table, const std::vector<const RowForecast*>& rows);

}  // namespace tracecast::accuracy
