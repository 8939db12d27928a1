/// \file
/// The interface between the program and its module libtracecast_simgrid.so.
///
/// Only the simulating child process loads the module. Both are built together and share the layout of these types.
#pragma once

#include <string>

#include "sim/network/simgrid.hpp"

/// Builds the platform of `network`, runs `driver` in an actor on it, and stores its result in `answer`.
/// Once per process. Throws what SimGrid and the driver throw.
extern "C" void tracecast_simgrid_simulate(const tracecast::SimGridNetwork& network,
                                           const tracecast::SimGridDriver& driver, std::string& answer);
