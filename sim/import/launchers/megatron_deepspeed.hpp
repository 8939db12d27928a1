/// \file
/// Megatron-DeepSpeed: Megatron-LM's arguments beside --deepspeed.   Source: docs/references.md#format-megatron
#pragma once

#include "sim/import/launchers/run_import.hpp"

namespace tracecast {

/// Puts the stack, the stage of ZeRO, and sequences divided as Ulysses does. The rest of what DeepSpeed does is in a file of its own,
/// which is not read: it keeps its defaults, which is said.
/// Error: the stage of ZeRO is not there.   Requires what import_megatron_settings puts before: types of numbers, sharding
void import_megatron_deepspeed(RunImport& run);

}  // namespace tracecast
