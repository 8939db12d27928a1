/// \file
/// The search of `tracecast plan`: all machines of a request, their goodput, the ranking and the upgrades.
#pragma once

#include <string>

#include "sim/base/result.hpp"
#include "sim/report/plan_report.hpp"
#include "tools/commands.hpp"
#include "tools/plan_request.hpp"
#include "tools/process_group.hpp"

namespace tracecast::cli {

/// `group`: processes that share the work; null: only this one. Ctrl-C ends the search with the best so far.
/// `store_failure`: why the store of --out took no more results, or gave none; the report holds without it. Empty: it did.
/// Errors: those of forecasts and histories; a store that cannot be opened.
Result<PlanReport> plan_search(PlanRequest request, ProcessGroup* group, const Context& context,
                               std::string& store_failure);

}  // namespace tracecast::cli
