/// \file
/// An application of Calculon as the beginning of a scenario, or an execution as its settings.
#pragma once

#include "sim/import/launchers/launcher.hpp"

namespace tracecast {

extern const Launcher kCalculonRun;

}  // namespace tracecast
