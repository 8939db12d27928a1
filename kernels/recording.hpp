/// \file
/// Builds a recorded profile from measured operators and collectives.
///
/// A forecast uses the measurements first. Shapes that were not measured use models whose efficiencies are medians over the
/// measured shapes. Their residual is the leave-one-out error: each measurement is forecast from the others.
#pragma once

#include <string>
#include <vector>

#include "kernels/samples.hpp"
#include "kernels/suite.hpp"
#include "sim/cost/profile.hpp"

namespace tracecast {

/// Measurements of a suite. `operators[i]` belongs to Suite::operators[i], `collectives[i]` to Suite::collectives[i].
struct SuiteSamples {
  std::vector<Samples> operators;
  std::vector<Samples> collectives;
};

/// Description of the measured machine.
struct RecordedOn {
  std::string device;  ///< "AMD EPYC, 2 of 2 cores busy"
  std::string source;  ///< date, libraries, suite
  int ranks = 1;       ///< running at the same time
  Bytes memory;        ///< per rank
};

/// Profile of a CPU: one thread per rank, fp32, no overlap, no launch cost.   Requires at least one measured GEMM.
Profile recorded_cpu_profile(const Suite& suite, const SuiteSamples& samples, const RecordedOn& where);

/// Profile of a GPU: the fitted profile `base` with the measurements added; they take precedence. Kernels were timed back to
/// back on a hot GPU with cold operands, as in a step, so there is no in-training factor. `launch_s`: host time of a launch,
/// 0: not measured.
Profile recorded_gpu_profile(Profile base, std::vector<MeasuredOperator> operators,
                             std::vector<MeasuredCollective> collectives, const RecordedOn& where, double launch_s);

/// The shipped profile for the GPU name that the driver reports ("NVIDIA H200" -> "h200"); "" if there is none.
std::string shipped_profile_of(const std::string& gpu);

/// Mean |log(forecast / measured)| over all measured operators, each forecast from the others.
double leave_one_out_residual(const Profile& profile);

}  // namespace tracecast
