/// \file
/// Which precision's rate replaces that of arithmetic which a GPU does not have: V100 and bf16, A100 and fp8.
#pragma once

#include <array>
#include <string>

#include "sim/cost/profile.hpp"

namespace tracecast {

bool eight_bits(Precision precision);  ///< fp8 per tensor, per block, and MXFP8
bool few_bits(Precision precision);    ///< 8 or 4

/// `precision` itself, then those whose numbers it borrows, nearest first: fp8 for the 8-bit formats, bf16, fp16, fp32.
std::array<Precision, 5> stand_ins(Precision precision);

/// The first of them for which the profile has a peak rate. Requires a profile with one of them.
Precision rated_as(const Profile& profile, Precision precision);

/// "V100 has no arithmetic in bf16: the rate of fp16 is taken, in times and in MFU"; empty if the GPU has it.
std::string rate_text(const Profile& profile, Precision precision);

/// True if multiplications in fp8 with one scale for a tensor read operands in either direction, so that these need no transposed copy:
/// from Blackwell on.   Source: docs/references.md#te-gemms (is_non_tn_fp8_gemm_supported)
bool multiplies_fp8_either_way(const Profile& profile);

/// The in-training factor of multiplications: of `precision`, or of 16 bit where they run at its rate or at that of 32 bit.
double gemm_factor(const Profile& profile, Precision precision);

}  // namespace tracecast
