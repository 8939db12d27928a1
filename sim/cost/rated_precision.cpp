#include "sim/cost/rated_precision.hpp"

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

}  // namespace tracecast
