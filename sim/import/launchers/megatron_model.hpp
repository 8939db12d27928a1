/// \file
/// The model in Megatron-LM's arguments.
#pragma once

#include "sim/import/launchers/run_import.hpp"

namespace tracecast {

/// Puts what the arguments say about the model. Arguments that give layers and width describe a model of their own, with
/// Megatron's defaults for what they leave out; otherwise, and where a recipe stands behind the file (Megatron-Bridge,
/// NeMo), they change the model that was given.
void import_megatron_model(RunImport& run, bool recipe);

}  // namespace tracecast
