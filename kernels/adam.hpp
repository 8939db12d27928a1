/// \file
/// What AdamW is told, on CPUs and GPUs alike.
#pragma once

#include <cstdint>

namespace tracecast {

struct AdamSettings {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0.1F;
  std::int64_t step = 1;  ///< from 1: for the correction of the first steps
};

}  // namespace tracecast
