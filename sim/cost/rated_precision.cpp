#include "sim/cost/rated_precision.hpp"

#include <fmt/format.h>

#include "sim/base/result.hpp"

namespace tracecast {

bool eight_bits(Precision precision) {
  return precision == Precision::fp8 || precision == Precision::fp8_block || precision == Precision::mxfp8;
}

std::array<Precision, 5> stand_ins(Precision precision) {
  return {precision, eight_bits(precision) ? Precision::fp8 : precision, Precision::bf16, Precision::fp16,
          Precision::fp32};
}

Precision rated_as(const Profile& profile, Precision precision) {
  for (const Precision candidate : stand_ins(precision))
    if (profile.peak_flops.contains(candidate)) return candidate;
  TRACECAST_ASSERT(false, "a profile has a peak rate");
  return precision;
}

std::string rate_text(const Profile& profile, Precision precision) {
  if (profile.peak_flops.empty()) return "";
  const Precision rated = rated_as(profile, precision);
  // Scales of blocks of 128 are applied by kernels, those of MXFP8 by the hardware.
  const bool same = rated == precision || (rated == Precision::fp8 && precision == Precision::fp8_block);
  if (same) return "";
  return fmt::format("{} has no arithmetic in {}: the rate of {} is taken, in times and in MFU",
                     profile.gpu.empty() ? profile.name : profile.gpu, to_string(precision), to_string(rated));
}

bool few_bits(Precision precision) { return eight_bits(precision) || precision == Precision::nvfp4; }

namespace {

/// True if the profile has no rate for these few bits, so that the operator runs at that of 16 or 32 bit.
bool runs_wide(const Profile& profile, Precision precision) {
  return few_bits(precision) && !profile.peak_flops.empty() && !few_bits(rated_as(profile, precision));
}

}  // namespace

bool multiplies_fp8_either_way(const Profile& profile) {
  return profile.architecture == "Blackwell" || profile.architecture == "Rubin";
}

double gemm_factor(const Profile& profile, Precision precision) {
  const InTraining& factors = profile.in_training;
  // An operator that runs at a wider precision's rate also takes its in-training factor.
  if (runs_wide(profile, precision)) return factors.gemm;
  return precision == Precision::fp8_block ? factors.gemm_fp8_block
         : eight_bits(precision)           ? factors.gemm_fp8
         : precision == Precision::nvfp4   ? factors.gemm_fp4
                                           : factors.gemm;
}

}  // namespace tracecast
