/// \file
/// Parts that several JSON outputs share.
#pragma once

#include <nlohmann/json.hpp>

#include "sim/economics/economics.hpp"
#include "sim/forecast/goodput_forecast.hpp"
#include "sim/plan/memory.hpp"

namespace tracecast {

/// {"low": …, "typical": …, "high": …}
nlohmann::ordered_json range_json(const Range3& range);

/// {"weights": …, "gradients": …, …} in GiB
nlohmann::ordered_json memory_by_kind_json(const MemoryByKind& memory);

/// {"productive": 0.9, "degraded": 0.01, …}: shares of the time.
nlohmann::ordered_json waterfall_json(const GoodputForecast& report);

}  // namespace tracecast
