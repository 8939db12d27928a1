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

/// The optimizer on the host, where the setting `key` names a device other than "none". Disks are taken as memory,
/// which is said.
void import_deepspeed_offload(RunImport& run, std::string_view key);

}  // namespace tracecast
