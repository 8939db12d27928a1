/// \file
/// The pipeline in Megatron-LM's arguments.
#pragma once

#include <cstdint>

#include "sim/import/launchers/run_import.hpp"

namespace tracecast {

/// Puts the schedule, the chunks of a pipeline rank and the layers of each virtual stage.   Requires the degrees that kMegatronRows
/// has. `layers`: of the model; 0: not known
void import_megatron_pipeline(RunImport& run, std::int64_t layers);

}  // namespace tracecast
