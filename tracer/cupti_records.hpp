/// \file
/// Converts CUPTI activity records to trace records. Needs CUPTI's headers, not its library.
#pragma once

#include <string_view>

#include <cupti.h>

#include "tracer/trace_writer.hpp"

namespace tracecast {

/// Writes one record; kinds that the trace does not store are skipped.
void write_record(const CUpti_Activity& record, TraceWriter& writer);

/// The kinds that write_record handles; a recorder enables these.
extern const CUpti_ActivityKind kRecordedKinds[];
extern const int kRecordedKindCount;

/// A function of the CUDA runtime or driver that launches, copies or waits, by name; calls of others are not recorded: PyTorch makes
/// about ten for each kernel.
bool is_recorded_call(std::string_view name);

}  // namespace tracecast
