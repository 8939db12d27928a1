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
/// back on a hot GPU with cold operands, as in a step, so there is no in-training factor. The host's times are the base's: a loop of
/// C++ launches faster than a framework.
Profile recorded_gpu_profile(Profile base, std::vector<MeasuredOperator> operators,
                             std::vector<MeasuredCollective> collectives, const RecordedOn& where);

/// Removes measurements that no GPU of the base's kind can have made (sim/cost/plausible.hpp): the reader of a profile refuses them.
/// Returns a sentence for each.
std::vector<std::string> remove_impossible(const Profile& base, std::vector<MeasuredOperator>& operators,
                                           std::vector<MeasuredCollective>& collectives);

/// A shipped profile, the GPU that it describes and its memory.
struct ShippedGpu {
  std::string profile;
  std::string gpu;
  Bytes memory;
};
/// The shipped profiles for a GPU as the driver reports it ("NVIDIA H200" with 141 GB -> "h200"): the same model, form and memory, and
/// among those the ones that share most words with its name. Empty: none; several: the name does not say which.
std::vector<std::string> shipped_profiles_of(const std::string& gpu, Bytes memory,
                                             const std::vector<ShippedGpu>& shipped);

/// Mean |log(forecast / measured)| over all measured operators, each forecast from the others.
double leave_one_out_residual(const Profile& profile);

}  // namespace tracecast
