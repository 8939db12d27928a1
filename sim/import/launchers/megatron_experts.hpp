/// \file
/// What Megatron-LM's arguments, or the YAML of Megatron-Bridge and NeMo, say of the work of experts.
#pragma once

#include "sim/import/launchers/run_import.hpp"

namespace tracecast {

/// Requires that the model was imported.
bool has_megatron_experts(const RunImport& run);

/// How tokens reach experts and are multiplied there. With `bridge` a recipe has set what is absent.
void import_megatron_experts(RunImport& run, bool bridge);

}  // namespace tracecast
