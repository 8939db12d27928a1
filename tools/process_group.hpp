/// \file
/// The processes that a launcher (mpirun) started together with this one.
#pragma once

#include <memory>

#include "sim/base/result.hpp"
#include "sim/search/shared_rounds.hpp"

namespace tracecast::cli {

/// Null when this process was started alone. MPI is a separate module (tools/mpi) that is loaded only here: from the
/// folder of the program in a build tree, from lib/tracecast in an installation.
/// Errors: started by mpirun with others, but built without MPI.
Result<std::unique_ptr<ProcessGroup>> launched_processes();

}  // namespace tracecast::cli
