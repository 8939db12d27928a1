/// \file
/// Why a measured step took longer than its forecast: candidate causes, each simulated with the size that explains the measured
/// time, ranked by how likely they make everything that was measured.
///
///   size       of a cause: found so that the simulated step takes the measured time; the largest that is plausible, if none does
///   misfit     sum over the measured parts of a step, other than its time, of ((simulated - measured) / sigma)^2,
///              sigma = hypot(0.5 % of the step, 3 % of the part); of what is known by rank half the mean over ranks and
///              half the worst rank
///   score      -misfit / 2 + log p; p: the density of log(measured time) that the cause leads to
///              with a size   x = log(1 + size) is exponentially distributed; scale: its usual value (diagnosis.cpp)
///                            p = e^(-x / scale) / scale * dx / d log(simulated step)
///              without       p = e^(-scale) * normal(log(measured / simulated); hypot(1 %, 15 % of the effect))
///              the forecast  p = normal(log(measured / forecast); as wide as its 90 % band)
///   likelihood e^score over the sum of all causes
/// A cause without a size that happens to take the measured time is thus likelier than one whose size can take any time. That the
/// forecast itself is wrong is a cause, too: every part is longer by one factor.
/// One cause at a time. With the step time alone nearly every cause fits, and only its size speaks for or against it: then the
/// likelihoods say which sizes are usual, not what happened. Which NIC or which rank of equal ones it is, times do not tell.
/// Source    sizes and widths are judgements, not fitted; tests hold them to perturbed simulations (diagnosis_test.cpp)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/io/step_record.hpp"

namespace tracecast {

/// What was measured: the step time, and of some or all ranks where it went.
struct StepEvidence {
  double step_s = 0;
  std::optional<StepRecord> record;
  bool some_ranks = false;  ///< the record may be of recordings of some ranks
};

struct DiagnosedCause {
  std::string name;   ///< "slow_rank"
  std::string what;   ///< "rank 37 computes 1.31 times as long"
  std::string check;  ///< how to confirm it
  double size = 0;    ///< 0: the cause is there or not
  double step_s = 0;  ///< simulated with it
  double misfit = 0;
  double likelihood = 0;
  bool explains =
      true;  ///< the simulated time is the measured one, within three standard deviations of what simulations err
};

struct Diagnosis {
  double measured_s = 0;
  double forecast_s = 0;
  Band band;
  int ranks_known = 0;                 ///< ranks whose parts were measured
  std::vector<DiagnosedCause> causes;  ///< the likeliest first; "forecast" is among them
  /// Causes at the front whose likelihoods are within a factor of ten: the evidence does not tell them apart.
  int indistinguishable = 1;
};

/// Requires a positive measured time. Errors: those of forecast(); a measured time far from the forecast (far_off); a record of another
/// number of pipeline ranks.
Result<Diagnosis> diagnose(const Scenario& scenario, const StepEvidence& evidence, const ForecastOptions& options);

}  // namespace tracecast
