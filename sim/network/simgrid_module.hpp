/// \file
/// What the program and its module libtracecast_simgrid.so agree on.
///
/// The program loads the module in the child process that simulates, and only there. Both are built together: they share
/// the layout of these types.
#pragma once

#include <string>

#include "sim/network/simgrid.hpp"

/// Builds the platform of `network`, runs `driver` in an actor on it, and leaves in `answer` what that returned.
/// Once in the life of a process. Throws what SimGrid and the driver throw.
extern "C" void tracecast_simgrid_simulate(const tracecast::SimGridNetwork& network,
                                           const tracecast::SimGridDriver& driver, std::string& answer);
