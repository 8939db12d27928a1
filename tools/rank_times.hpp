/// \file
/// The table of where each rank's time went, for every command that shows a step.
#pragma once

#include <string>

#include "sim/io/step_record.hpp"
#include "sim/report/text.hpp"

namespace tracecast::cli {

/// A heading and a line per rank: computation, exposed communication, bubble, host and optimizer.
std::string rank_times(const StepRecord& record, const std::string& title, const TextStyle& style);

}  // namespace tracecast::cli
