/// \file
/// From CUPTI's activity records to a trace: the seam, as thin as it can be. Needs CUPTI's headers, not its library.
#pragma once

#include <cupti.h>

#include "tracer/trace_writer.hpp"

namespace tracecast {

/// Writes one record; kinds that a trace has no use for are passed over.
void write_record(const CUpti_Activity& record, TraceWriter& writer);

/// The kinds that write_record takes: what a recorder enables.
extern const CUpti_ActivityKind kRecordedKinds[];
extern const int kRecordedKindCount;

}  // namespace tracecast
