/// \file
/// A forecast as one JSON object: what `predict --json` prints and what --out writes as result.json.
///
/// Described by docs/schema/result.schema.json and docs/formats/result.md. Keys come in a fixed order; the same input
/// gives the same bytes, apart from engine.wall_s and engine.peak_rss_mib.
#pragma once

#include <string>

#include "sim/forecast/change.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/io/scenario.hpp"

namespace tracecast {

/// Indented by two spaces, with a newline at the end. `measured` and the tokens to train come from the scenario.
std::string result_json(const Scenario& scenario, const Forecast& forecast, const Unchanged* unchanged = nullptr);

}  // namespace tracecast
