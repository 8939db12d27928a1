/// \file
/// From measured operators and collectives to a recorded profile.
///
/// The measurements themselves come first in every forecast; behind them stand models for shapes that were not measured,
/// with efficiencies that are medians over what was. Their residual is that of leaving each measurement out in turn and
/// forecasting it from the others.
#pragma once

#include <string>
#include <vector>

#include "kernels/samples.hpp"
#include "kernels/suite.hpp"
#include "sim/cost/profile.hpp"

namespace tracecast {

/// Measurements of a suite. `operators[i]` is of Suite::operators[i], `collectives[i]` of Suite::collectives[i].
struct SuiteSamples {
  std::vector<Samples> operators;
  std::vector<Samples> collectives;
};

/// What is known of the machine besides the measurements.
struct RecordedOn {
  std::string device;  ///< "AMD EPYC, 2 of 2 cores busy"
  std::string source;  ///< date, libraries, suite
  int ranks = 1;       ///< that ran at the same time
  Bytes memory;        ///< for one rank
};

/// Of a CPU: one thread a rank, fp32, no overlap, no launch cost.   Requires at least one measured GEMM.
Profile recorded_cpu_profile(const Suite& suite, const SuiteSamples& samples, const RecordedOn& where);

/// Of a GPU: its fitted profile `base` with what was measured put before it. Kernels were timed hot, with cold operands and
/// one behind the other, as in a step; so there is no in-training factor. `launch_s`: host time of a launch, 0: not measured.
Profile recorded_gpu_profile(Profile base, std::vector<MeasuredOperator> operators,
                             std::vector<MeasuredCollective> collectives, const RecordedOn& where, double launch_s);

/// The shipped profile of a GPU by the name that its driver gives it ("NVIDIA H200" -> "h200"); "" when none is of it.
std::string shipped_profile_of(const std::string& gpu);

/// Mean |log(forecast / measured)| over all measured operators, each forecast from the others.
double leave_one_out_residual(const Profile& profile);

}  // namespace tracecast
