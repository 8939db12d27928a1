/// \file
/// What the what-if page asks: one request in, one answer out, both JSON in one line. The same readers and the same
/// sentences as on the command line.
///
///   {"what": "catalog"}    names of scenarios, topologies, failure models, schedules; stacks and recomputations
///   {"what": "forecast", "scenario": NAME, "set": {KEY: VALUE, …},
///    "failures": {"model": NAME, "days": 54, "mtbf_hours": 3, "checkpoint": "20 min", "spares": 8}}
///
/// "set" is what --set is on the command line. "failures" may be absent: then nothing fails.
/// The answer has "ok": true, or "ok": false and "errors", a list of sentences. A forecast that does not fit is an answer.
///
/// Only shipped files are read: names, never paths.
#pragma once

#include <string>

#include "sim/io/files.hpp"

namespace tracecast::cli {

/// Whatever the request is, the answer is one JSON object without line breaks.
std::string answer_what_if(const std::string& request, const DataPaths& data);

}  // namespace tracecast::cli
