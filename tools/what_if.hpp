/// \file
/// Requests of the what-if page: one request in, one answer out, each one line of JSON. Uses the same readers and
/// messages as the command line.
///
///   {"what": "catalog"}    names of scenarios, topologies, failure models, schedules; stacks and recomputations
///   {"what": "forecast", "scenario": NAME, "set": {KEY: VALUE, …},
///    "failures": {"model": NAME, "days": 54, "mtbf_hours": 3, "checkpoint": "20 min", "spares": 8}}
///
/// "set" works like --set on the command line. Without "failures", nothing fails.
/// The answer has "ok": true, or "ok": false and "errors", a list of sentences. A layout that does not fit is "ok":
/// true.
///
/// Only shipped files are read: names, never paths.
#pragma once

#include <string>

#include "sim/io/files.hpp"

namespace tracecast::cli {

/// Always returns one JSON object without line breaks, for any request.
std::string answer_what_if(const std::string& request, const DataPaths& data);

}  // namespace tracecast::cli
