/// \file
/// The page of a plan for decision makers: the question, the answer in two sentences, days against money, days against GPUs,
/// the money line by line, what limits the step, what would change the answer, and every assumption with its source.
///
/// One file without scripts that opens without a network and prints (tools/page/decision.html).
#pragma once

#include <string>

#include "sim/report/page_metadata.hpp"
#include "sim/report/plan_report.hpp"

namespace tracecast {

std::string decision_page(const PlanReport& report, const PageMetadata& metadata);

}  // namespace tracecast
