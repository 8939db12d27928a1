/// \file
/// Requests of the what-if page: one request in, one answer out, each one line of JSON. Uses the same readers and
/// messages as the command line.
///
///   {"what": "catalog"}    names of scenarios, topologies, failure models, schedules; stacks and recomputations
///   {"what": "forecast", "scenario": NAME, "file": OBJECT, "set": {KEY: VALUE, …}, "timeline": false, "moving": false,
///    "failures": {"model": NAME, "days": 54, "mtbf_hours": 3, "checkpoint": "20 min", "spares": 8}}
///
/// "set" works like --set on the command line, "topology." included. "file" is a scenario in place of the shipped one; NAME
/// is then for messages. Without "failures", nothing fails. With "timeline", the answer has the passes of each pipeline
/// rank instead of the numbers. With "moving" (a slider is being dragged) there is no "possible", and goodput is less exact.
/// The answer has "ok": true, or "ok": false and "errors", a list of sentences with the key but without a file. A layout
/// that does not fit is "ok": true. "possible" has the values of each control, with the reason where one is impossible.
///
/// Only shipped files are read: names, never paths, also in "file".
#pragma once

#include <string>

#include "sim/io/files.hpp"
#include "tools/recent_steps.hpp"

namespace tracecast::cli {

/// Always returns one JSON object without line breaks, for any request. `recent`: of the session; the answers do not depend
/// on it.
std::string answer_what_if(const std::string& request, const DataPaths& data, RecentSteps& recent);

}  // namespace tracecast::cli
