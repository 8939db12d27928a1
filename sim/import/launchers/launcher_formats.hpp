/// \file
/// The functions of each launcher, as launcher.cpp lists them; each pair lives in a file of its own.
#pragma once

#include "sim/import/launchers/launcher.hpp"

namespace tracecast {

void import_megatron(RunImport& run);
void import_megatron_bridge(RunImport& run);
void import_deepspeed(RunImport& run);
void import_torchtitan(RunImport& run);
void import_accelerate(RunImport& run);
void import_hugging_face(RunImport& run);

EmittedRun emit_megatron(const Scenario& scenario);
EmittedRun emit_deepspeed(const Scenario& scenario);
EmittedRun emit_torchtitan(const Scenario& scenario);
EmittedRun emit_accelerate(const Scenario& scenario);

}  // namespace tracecast
