/// The model in Megatron-LM's arguments.
#pragma once

#include "sim/io/launchers/run_import.hpp"

namespace tracecast {

/// Puts what the arguments say about the model. A file that gives layers and width describes a model of its own, with
/// Megatron's defaults for what it leaves out; otherwise its arguments change the model that was given.
void import_megatron_model(RunImport& run);

}  // namespace tracecast
