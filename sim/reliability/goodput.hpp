/// \file
/// Many histories of one job: expected goodput with its confidence interval, the mean waterfall, the spread over
/// histories, and the best checkpoint interval.
///
/// Deterministic for a seed and independent of the number of threads: history i is a function of (seed, i), histories
/// are added in the order of their numbers, and the stopping rule is applied between batches of fixed sizes.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/reliability/job.hpp"

namespace tracecast {

struct GoodputOptions {
  std::uint64_t seed = 1;
  int min_histories = 64;  ///< the first batch; each further one doubles the number
  int max_histories = 10'000;
  double half_width = 0.0005;  ///< stop when the mean goodput is known to this; 0: run max_histories
  double confidence = 0.95;
  int threads = 1;
  std::function<void(int done, int of)> progress = {};  ///< called from the calling thread between batches
};

/// A mean with its two-sided interval (Student's t). One value has no interval: `standard_error` is infinite, `low` and `high`
/// are the mean.
struct Estimate {
  double mean = 0;
  double low = 0;
  double high = 0;
  double standard_error = 0;
  bool has_interval() const { return std::isfinite(standard_error); }
};

/// Of `values`, summed in their order. Requires at least one value.
Estimate estimate(const std::vector<double>& values, double confidence);

/// Values whose mean is the ratio of sums R = sum(share x wall) / sum(wall), and whose spread is that of this ratio to first
/// order:  v_i = R + wall_i / mean wall x (share_i - R). With equal walls they are the shares.
/// Source: ratio estimator, Cochran, Sampling Techniques, chapter 6
std::vector<double> ratio_values(const std::vector<double>& shares, const std::vector<double>& walls_s);

struct Goodput {
  int histories = 0;
  bool narrow_enough = false;  ///< the stopping rule was met
  int at_target = 0;           ///< histories that trained the tokens of the course
  Estimate goodput;            ///< productive / wall, both summed over histories, whose lengths may differ
  Estimate wall_s;
  Estimate interruptions;                       ///< per history
  Estimate tokens;                              ///< kept progress of a history
  std::array<double, kTimeCategories> share{};  ///< of the wall time of all histories, by TimeCategory
  std::vector<double> events;                   ///< [kind]: mean per history
  std::vector<double> goodputs;                 ///< [history]
  std::vector<double> walls_s;                  ///< [history]
  double checkpoints = 0;                       ///< mean per history
};

/// Errors: check(spec); those of the step times.
Result<Goodput> simulate_goodput(const JobSpec& spec, const StepTimes& steps, const GoodputOptions& options);

/// One checkpoint interval that was tried.
struct IntervalTrial {
  std::int64_t interval_steps = 0;
  Estimate goodput;
};

struct BestInterval {
  std::int64_t interval_steps = 0;  ///< with the highest mean goodput
  std::int64_t at_least = 0;        ///< range of the tried intervals that are not significantly worse
  std::int64_t at_most = 0;
  std::vector<IntervalTrial> trials;  ///< ascending
};

/// Tries intervals from `around / 4` to `around x 4` in steps of sqrt(2), then one on each side of the best. All use
/// the same random draws, options.min_histories histories each. Errors: as simulate_goodput.
Result<BestInterval> best_interval(JobSpec spec, const StepTimes& steps, std::int64_t around,
                                   const GoodputOptions& options);

}  // namespace tracecast
