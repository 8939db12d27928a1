/// \file
/// Settings of AdamW, for CPUs and GPUs.
#pragma once

#include <cstdint>

namespace tracecast {

struct AdamSettings {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.95F;
  float epsilon = 1e-8F;
  float weight_decay = 0.1F;
  std::int64_t step = 1;  ///< starts at 1; used for bias correction
};

}  // namespace tracecast
