/// \file
/// Megatron-DeepSpeed: Megatron-LM's arguments beside --deepspeed.   Source: docs/references.md#format-megatron
#pragma once

#include <cstdint>

#include "sim/import/launchers/run_import.hpp"

namespace tracecast {

/// Puts the stack, the stage of ZeRO, and sequences divided as Ulysses does. The rest of what DeepSpeed does is in a file of its own,
/// which is not read: it keeps its defaults, which is said.
/// Error: the stage of ZeRO is not there.   Requires what import_megatron_settings puts before: types of numbers, sharding
void import_megatron_deepspeed(RunImport& run);

/// How many experts a layer has; 1: none, a dense model.
/// Error: a list, one number for each layer (PR-MoE).
std::int64_t deepspeed_experts(RunImport& run);

/// Puts top-k, experts in every n-th layer, and their capacity, with Megatron-DeepSpeed's defaults: 1, 2, and 1 unless no token may be
/// dropped.   Requires model.moe.experts
void import_deepspeed_experts(RunImport& run);

}  // namespace tracecast
