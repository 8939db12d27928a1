/// \file
/// The numbers that Megatron-LM's arguments, or the YAML of Megatron-Bridge and NeMo, multiply, reduce and store.
#pragma once

#include "sim/import/launchers/run_import.hpp"

namespace tracecast {

/// Of multiplications and of reduced gradients. With `bridge` a recipe has set what is absent.
void import_megatron_precision(RunImport& run, bool bridge);

/// Of the optimizer's states. Momentum and variance have one type here; the types of gradients and parameters are those without the
/// precision-aware optimizer.
void import_megatron_optimizer_types(RunImport& run);

}  // namespace tracecast
