/// \file
/// Fits the widths of 90 % bands to errors of runs that were left out of fits (sim/forecast/evidence.hpp).
///
/// The loss is that of a 90 % quantile: an error beyond its half-width costs nine times what the same width costs beyond the
/// error. So nine of ten runs are inside. Each source counts with the root of its number of runs. The width for an architecture
/// that nobody has measured is fitted to left-out architectures, of which each counts the same: the next one is like one of
/// them, not like one of their runs.
/// The share k of the kernels' deviation (RunBand::kernels) is hardly determined: of most measured runs that deviation is 3 to 4 %,
/// and errors do not grow with it. Without more evidence it counts as it is, so that k is the largest of 0, 0.1 … 1 whose
/// loss is that of the best one within the standard error of their difference over sources.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/forecast/evidence.hpp"
#include "tools/accuracy/row_forecast.hpp"

namespace tracecast::accuracy {

/// What the runs of a training part have: novelty_of() for runs that they do not contain.
class KnownRuns {
 public:
  void add(const RowForecast& row);
  Novelty novelty_of(const RowForecast& row) const;

 private:
  std::set<std::pair<bool, std::string>> architectures_;  ///< with experts, name
  std::set<std::pair<bool, std::string>> stacks_;
};

/// A left-out run beside what was known.
struct BandSample {
  std::string source;
  std::string architecture = {};
  double error = 0;  ///< |log(forecast / measured)|
  double deviation = 0;
  Novelty novelty{};
  double weight = 1;
};
BandSample band_sample(const RowForecast& row, const KnownRuns& known);

/// One in ten is outside, so that fewer sources, or architectures, do not determine a width.
inline constexpr std::size_t kSourcesOfWidth = 10;

/// Dense runs that stand in for the sources with experts that `samples` lacks, up to kSourcesOfWidth. `uncalibrated`: dense
/// runs that were forecast without any in-training factor, as models with experts are before the first of them is measured.
std::vector<BandSample> stand_ins_for_experts(const std::vector<BandSample>& samples,
                                              const std::vector<RowForecast>& uncalibrated);

/// The same for the architectures that `samples` has as unmeasured ones: the runs of each stand in for one.
std::vector<BandSample> stand_ins_for_architectures(const std::vector<BandSample>& samples,
                                                    const std::vector<RowForecast>& uncalibrated);

/// Widths are at least 0; without samples of a kind its width is that of kRunBand. `stand_ins`: count for the width of an unmeasured
/// architecture only.
RunBand fit_run_band(const std::vector<BandSample>& samples, const std::vector<BandSample>& stand_ins = {});

}  // namespace tracecast::accuracy
