/// \file
/// Memory of model states as the documents behind the requirements count it, in GB.
#pragma once

#include <cstdint>

#include "sim/plan/parameter_states.hpp"

namespace tracecast::test {

inline double gb(Bytes bytes) { return static_cast<double>(bytes.count) * 1e-9; }

/// The ZeRO paper's 2 + 2 + 12 bytes per parameter.
inline Training sixteen_bytes() {
  return {.seq_length = 4096, .global_batch_size = 8, .grad_reduce_dtype = Precision::bf16};
}

inline double states_gb(std::int64_t parameters, int zero_stage, int shards) {
  return gb(model_states(parameters, sixteen_bytes(), zero_stage, shards).total());
}

}  // namespace tracecast::test
