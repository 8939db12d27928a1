/// \file
/// The NCCL calls that a recorded kernel runs, and how other ranks know them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/io/trace.hpp"

namespace tracecast {

class RecordedCalls {
 public:
  /// `trace` must outlive it.
  explicit RecordedCalls(const Trace& trace);
  /// The calls of this kernel, if the trace has them: one, or those of a group of calls.
  std::vector<const TraceCollective*> of(const TraceKernel& kernel) const;

 private:
  std::map<std::int64_t, std::vector<const TraceCollective*>> collectives_;  ///< [start]
};

/// What it moves, at most kMaxCollectiveBytes elements.
Bytes bytes_of(const TraceCollective& call);

/// Group and sequence number by which other ranks know a kernel's calls; none for a kernel that runs several collectives, and for a
/// message of which one of the two ranks is not known. Calls whose number was not recorded have one below 0 for each kind of collective;
/// messages without a number are a group for each rank that sends and rank that receives.
/// Requires at least one call.
std::optional<std::pair<std::uint64_t, std::int64_t>> name_of_calls(const std::vector<const TraceCollective*>& calls);

}  // namespace tracecast
