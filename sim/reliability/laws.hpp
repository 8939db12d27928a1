/// Laws of the time until something happens, and the failures of a fleet of like parts.
///
/// Source: DOMAIN.md 7.1. Weibull with shape k and scale eta: hazard (k/eta)(t/eta)^(k-1), mean eta Gamma(1+1/k);
/// k < 1 is infant mortality (0.7 to 0.8 in logs of large machines), k = 1 is the exponential law.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/random.hpp"

namespace tracecast {

enum class LawKind {
  exponential,
  weibull,
  fixed,  ///< always the mean: maintenance by the calendar, a repair that takes a day
};
const char* to_string(LawKind kind);

struct Law {
  LawKind kind = LawKind::exponential;
  double mean_s = 0;
  double shape = 1;  ///< Weibull only
  bool operator==(const Law&) const = default;
};

/// mean / Gamma(1 + 1/shape).
double weibull_scale_s(const Law& law);

/// One draw. A mean of 0 is 0 seconds.
double draw_s(const Law& law, RandomStream& random);

/// How old the parts are when the job starts. Without meaning for the exponential law.
enum class FleetAge {
  fresh,       ///< all new: infant mortality hits at the start
  stationary,  ///< in service for long: failures come at the mean rate from the start
};
const char* to_string(FleetAge age);

/// The instants at which parts of a fleet fail. A failed part is replaced at once by a new one; the others grow older.
///
/// Exact, at the cost of the failures that are drawn and not of the parts that exist: the cumulative hazards at which n
/// like parts fail first are the order statistics of n exponential variables, whose gaps are independent exponentials
/// with rates n, n-1, … (Renyi 1953); replaced parts, few, are kept one by one.
class FleetFailures {
 public:
  /// `parts` that follow `law` each.   Requires parts >= 0 and a positive mean.
  FleetFailures(const Law& law, std::int64_t parts, FleetAge age, RandomStream random);

  /// Seconds since the start of the next failure; infinity when there is none.
  double next_s() const { return next_s_; }
  /// Goes on to the one after it.
  void pop();

 private:
  double first_failure_s(double cumulative_hazard) const;
  void advance_original();
  void choose();

  Law law_;
  FleetAge age_;
  RandomStream random_;
  double scale_s_ = 0;
  std::int64_t original_;         ///< parts of the start that have not failed yet
  double cumulative_hazard_ = 0;  ///< at which the next of them fails
  double original_next_s_ = 0;
  std::vector<double> replaced_;  ///< heap: next failures of parts that were replaced, soonest on top
  double next_s_ = 0;
};

}  // namespace tracecast
