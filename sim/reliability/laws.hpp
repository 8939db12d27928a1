/// \file
/// Probability laws of the time to an event, and the failures of a fleet of identical parts.
///
/// Source: docs/references.md#failure-laws. Weibull with shape k and scale eta: hazard (k/eta)(t/eta)^(k-1), mean eta
/// Gamma(1+1/k); k < 1 is infant mortality (0.7 to 0.8 in logs of large machines), k = 1 is the exponential law.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/enum_names.hpp"
#include "sim/base/random.hpp"
#include "sim/reliability/job_time.hpp"

namespace tracecast {

enum class LawKind {
  exponential,
  weibull,
  fixed,  ///< always the mean: scheduled maintenance, a repair that takes a day
};
template <>
struct EnumNames<LawKind> {
  static constexpr NamedValue<LawKind> table[] = {
      {LawKind::exponential, "exponential"}, {LawKind::weibull, "weibull"}, {LawKind::fixed, "fixed"}};
};

struct Law {
  LawKind kind = LawKind::exponential;
  double mean_s = 0;
  double shape = 1;  ///< Weibull only
  bool operator==(const Law&) const = default;
};

/// mean / Gamma(1 + 1/shape).
double weibull_scale_s(const Law& law);

/// One draw in seconds. 0 if the mean is 0.
double draw_s(const Law& law, RandomStream& random);

/// Probability that a draw is at least `least`.
double survival(const Law& law, JobTime least);

/// Age of the parts when the job starts. It has no effect with the exponential law.
enum class FleetAge {
  fresh,       ///< all new: infant mortality at the start
  stationary,  ///< in service for a long time: failures at the mean rate from the start
};
template <>
struct EnumNames<FleetAge> {
  static constexpr NamedValue<FleetAge> table[] = {{FleetAge::fresh, "fresh"}, {FleetAge::stationary, "stationary"}};
};

/// Times at which parts of a fleet fail. A new part replaces a failed one at once; the others continue to age.
///
/// Exact, and the cost grows with the number of failures, not of parts: the cumulative hazards at which n identical
/// parts fail first are the order statistics of n exponential variables, whose gaps are independent exponentials with
/// rates n, n-1, … (Renyi 1953). The few replaced parts are stored individually.
class FleetFailures {
 public:
  /// Each of `parts` parts follows `law`. Requires parts >= 0 and a positive mean.
  FleetFailures(const Law& law, std::int64_t parts, FleetAge age, RandomStream random);

  /// Seconds from the start of the job to the next failure; infinity if there is none.
  double next_s() const { return next_s_; }
  /// Advances to the failure after it.
  void pop();

 private:
  double first_failure_s(double cumulative_hazard) const;
  void advance_original();
  void choose();

  Law law_;
  FleetAge age_;
  RandomStream random_;
  double scale_s_ = 0;
  std::int64_t original_;         ///< parts from the start that have not failed yet
  double cumulative_hazard_ = 0;  ///< at which the next one of them fails
  double original_next_s_ = 0;
  std::vector<double> replaced_;  ///< heap: next failures of replaced parts, earliest on top
  double next_s_ = 0;
};

}  // namespace tracecast
