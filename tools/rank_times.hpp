/// \file
/// The table of where each rank's time went, for every command that shows a step.
#pragma once

#include <string>

#include "sim/io/step_record.hpp"
#include "sim/report/text.hpp"

namespace tracecast::cli {

/// A heading and a line per rank: computation, exposed communication, bubble, host and optimizer. A recording that is not
/// matched to a forecast does not say what belongs to the optimizer; then this column is left out.
std::string rank_times(const StepRecord& record, const std::string& title, const TextStyle& style);

}  // namespace tracecast::cli
