/// \file
/// Peaks of a row of the table of data sheets, which is not shipped, by the profile that was made of it.
#pragma once

#include "sim/base/words.hpp"
#include "tests/support/shipped.hpp"
#include "tools/accuracy/fit/specification.hpp"

namespace tracecast {

inline GpuPeak shipped_peak(const char* row, Precision precision) {
  return accuracy::peak_of(shipped_profile(lower_case(row)), precision);
}

}  // namespace tracecast
