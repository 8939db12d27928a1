/// \file
/// What DeepSpeed does, whoever starts it: its own file (deepspeed.cpp) or Accelerate's (accelerate.cpp).
/// Source: docs/references.md#format-deepspeed
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/import/launchers/run_import.hpp"

namespace tracecast {

/// A stage of ZeRO, with DeepSpeed's own overlap: all at stage 3, nothing below.
void put_deepspeed_stage(RunImport& run, std::int64_t stage, std::string_view key);

/// At stage 0 the optimizer of bf16 (BF16_Optimizer) divides its states over the data-parallel ranks as at stage 1, adds gradients up in
/// fp32 and reduces them in bf16, which is said. Not where the user sets the stage.   Requires put_deepspeed_stage, training.dtype
void import_bf16_optimizer(RunImport& run, std::string_view stage);

/// The optimizer and the parameters on the host, where the settings name a device other than "none". Disks are taken as memory,
/// and what has no effect (parameters below stage 3, or without the optimizer) stays on the GPU, which is said.
/// Error: the optimizer with stage 0.   Requires put_deepspeed_stage
void import_deepspeed_offload(RunImport& run, std::string_view optimizer, std::string_view parameters);

}  // namespace tracecast
