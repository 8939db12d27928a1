/// \file
/// How far a run is from runs that were measured, and how wide its 90 % band is for that.
///
/// The measured runs are those of scenarios/runs/published.csv, each with the error of its forecast when its source is
/// left out of all fits. They are compiled in (scenarios/runs/published-evidence.csv, written by `tracecast calibrate
/// --published published --evidence FILE`), so that every forecast has the same bands.
///
///   measured / forecast is within exp(-w) and exp(w) in nine of ten runs,
///   w = hypot(kernels z sigma, kind + architecture [no such GPU was measured] + stack [none with that software was])
///
/// sigma: relative deviation of the step by the costs of its kernels, transfers and host; z = 1.6449. The other letters
/// are those of RunBand. Kind, architecture and stack are those of runs with the same kind of model, dense or with experts.
/// Leaves out age, scale and precision: fitted to runs of left-out sources, stacks and architectures, their widths are
/// zero (docs/validation/accuracy.md).
#pragma once

#include <string>
#include <vector>

#include "sim/forecast/forecast.hpp"

namespace tracecast {

/// A run that was measured, and the error of its forecast without its source.
struct MeasuredRun {
  std::string id;
  std::string source;
  std::string gpu;           ///< profile: "h100"
  std::string architecture;  ///< "Hopper"
  std::string stack;         ///< "": unknown software
  std::string precision;
  bool experts = false;
  double parameters = 0;
  int ranks = 0;
  double seq_length = 0;
  double measured_s = 0;
  double error = 0;  ///< forecast / measured - 1
};

/// In the order of the table.
const std::vector<MeasuredRun>& measured_runs();

/// What of a run was never measured.
struct Novelty {
  bool experts = false;       ///< the kind of model; not a novelty by itself
  bool architecture = false;  ///< no run of this kind on this GPU architecture
  bool stack = false;         ///< no run of this kind with this software
};
Novelty novelty_of(const Scenario& scenario);
/// The same for a run of a table.
Novelty novelty_of(const std::string& architecture, const std::string& stack, bool experts);

/// Parts of a band's half-width, as logarithms.
struct RunBand {
  double dense = 0;
  double experts = 0;
  double architecture = 0;
  double stack = 0;
  double kernels = 1;

  /// w above.   deviation: sigma
  double half_width(const Novelty& novelty, double deviation) const;
  bool operator==(const RunBand&) const = default;
};

/// Fitted to runs of sources, stacks and architectures left out in turn: printed by `tracecast validate published
/// --nested`, where the bands of left-out runs are fitted in the same way without them.
inline constexpr RunBand kRunBand{
    .dense = 0.131, .experts = 0.194, .architecture = 0.194, .stack = 0.006, .kernels = 0.90};

/// Standard normal quantile at 0.95: half the width of a 90 % interval, in standard deviations.
inline constexpr double kNinetyPercent = 1.6449;

/// From exp(-half_width) to exp(half_width) times the median.
Band band_around(double p50_s, double half_width);

/// Standard deviation of the logarithm of a time with this 90 % interval; 0 without one (p5_s = 0).
double deviation_of(double p5_s, double p95_s);

/// Largest ratio of a forecast and a measured time that calibrations take: the worst published run is off by 3.9 times.
inline constexpr double kFarOff = 4;
/// Why a measured time says more about its unit than about the run that was forecast; "": it may be of that run.
/// most: the largest allowed ratio of measured and forecast; the smallest is 1 / kFarOff
std::string far_off(double measured_s, double forecast_s, double most = kFarOff);

/// A measured run like this one.
struct Likeness {
  const MeasuredRun* run = nullptr;
  double distance = 0;  ///< 0: the same in all that counts
};

/// The closest measured runs, closest first, one for each source and GPU at most. Distance: 4 for another kind of model, 4
/// for another architecture or else 1 for another GPU, 2 for another stack, 1 for another precision, and for each
/// doubling of parameters and sequence length 0.5, of the GPU count 0.25.
std::vector<Likeness> closest_runs(const Scenario& scenario, std::size_t count);

}  // namespace tracecast
