/// \file
/// Access to the environment of the command line: terminal, environment variables, shipped data, memory used.
/// No other file reads them.
#pragma once

#include <string>

#include "sim/base/result.hpp"
#include "sim/io/files.hpp"
#include "sim/report/text.hpp"

namespace tracecast::cli {

/// Style of standard output. A terminal gets Unicode (unless its locale says otherwise) and colour (unless
/// NO_COLOR is set or TERM is dumb) at its own width, at least 72 columns; a pipe or file gets plain text of
/// 80 columns, in colour if FORCE_COLOR is set.
TextStyle style_of_stdout();

bool stderr_is_terminal();

/// Where scenarios, topologies and profiles are: the directory of TRACECAST_DATA when set, else
/// share/tracecast beside an installed program, else the source tree that this program was built from.
/// Errors: TRACECAST_DATA lacks these folders; none of the candidates exists.
Result<DataPaths> data_paths();

/// A hash of this program's file: another build of the program has another one. Empty if it cannot be read.
std::string program_fingerprint();

/// Peak resident set of this process or of a child process that it waited for (SimGrid's), in MiB.
double peak_rss_mib();

}  // namespace tracecast::cli
