/// \file
/// Fits laws to observed lifetimes, with confidence intervals.
///
/// A lifetime begins when a part is new, replaced or first observed, and ends when it fails. It is censored if the part
/// had not failed when the observation ended.
/// Source: Lawless, Statistical Models and Methods for Lifetime Data, 2nd ed., chapters 4 and 5.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/result.hpp"

namespace tracecast {

/// `count` parts that worked for so long and had not failed.
struct Censored {
  double age_s = 0;
  std::int64_t count = 1;
};

struct Lifetimes {
  std::vector<double> failed_s;
  std::vector<Censored> censored;
};

struct IntervalEstimate {
  double value = 0;
  double low = 0;
  double high = 0;
};

/// Mean time between failures in seconds of a process with a constant rate, from `exposure_s` part-seconds:
/// mean = T/n, from 2T / chi2(1-a/2; 2n+2) to 2T / chi2(a/2; 2n). Without a failure the mean and its upper end are
/// infinite. Requires exposure_s > 0, failures >= 0.
IntervalEstimate exponential_mean_s(int failures, double exposure_s, double confidence);

struct WeibullFit {
  IntervalEstimate shape;
  IntervalEstimate mean_s;
  double log_likelihood = 0;
  double p_value = 1;  ///< of the exponential law against this fit (likelihood ratio, one degree of freedom)
};

/// Maximum likelihood with right censoring; intervals from the observed information of (log scale, log shape).
/// Errors: fewer than three failures, or all failures at one age.
Result<WeibullFit> fit_weibull(const Lifetimes& lifetimes, double confidence);

}  // namespace tracecast
