/// \file
/// A user's own incidents as a failure model: a CSV of what failed and when, fitted with confidence intervals.
///
///     # gpus = 1024
///     # gpus_per_node = 8
///     # start = 2025-01-01
///     # end = 2025-03-01
///     time,component,part,effect
///     2025-01-03T04:05,gpu,node17/3,crash
///     2025-01-09T11:30,software,,hang
///
/// `time` is a date, or date and time (UTC), or hours since the start; `component` is a word, in upper or lower case (the
/// known ones are those of Component; lines are grouped by the word and the effect); `part`, optional, names the part
/// uniquely; `effect`, optional, is crash or hang. docs/formats/incidents.md.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/reliability/failure_model.hpp"
#include "sim/reliability/fit.hpp"

namespace tracecast {

/// What was fitted to the crashes or the hangs of one component.
struct FittedKind {
  std::string name;
  int failures = 0;
  std::int64_t parts = 1;
  IntervalEstimate exponential_mean_s;  ///< of one part
  std::optional<WeibullFit> weibull;    ///< when all failed parts are named and at least three failed
};

struct IncidentLog {
  Machine machine;
  double duration_s = 0;
  FailureModel model;            ///< Weibull where the exponential law is rejected at the 5 % level, else exponential
  std::vector<FittedKind> fits;  ///< as model.kinds
};

/// Errors: an unreadable file; a missing header line; a line with too few columns; a time that does not parse or is
/// outside the observation; an unknown effect. All are reported, with lines.
Result<IncidentLog> read_incident_log(const std::filesystem::path& path);

/// The same from text; `file` names it in messages.
Result<IncidentLog> parse_incident_log(const std::string& text, const std::string& file);

}  // namespace tracecast
