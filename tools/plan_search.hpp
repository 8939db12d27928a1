/// \file
/// The search of `tracecast plan`: all machines of a request, their goodput, the ranking and the upgrades.
#pragma once

#include "sim/base/result.hpp"
#include "sim/report/plan_report.hpp"
#include "tools/commands.hpp"
#include "tools/plan_request.hpp"
#include "tools/process_group.hpp"

namespace tracecast::cli {

/// `group`: processes that share the work; null: only this one. Ctrl-C ends the search with the best so far.
/// Errors: those of forecasts and histories; results that cannot be kept.
Result<PlanReport> plan_search(PlanRequest request, ProcessGroup* group, const Context& context);

}  // namespace tracecast::cli
