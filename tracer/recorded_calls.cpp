#include "tracer/recorded_calls.hpp"

#include <algorithm>

#include "sim/import/kernel_names.hpp"

namespace tracecast {

RecordedCalls::RecordedCalls(const Trace& trace) {
  for (const TraceCollective& c : trace.collectives) collectives_[c.start_ns].push_back(&c);
}

std::vector<const TraceCollective*> RecordedCalls::of(const TraceKernel& kernel) const {
  std::vector<const TraceCollective*> calls;
  const auto found = collectives_.find(kernel.start_ns);
  if (found == collectives_.end()) return calls;
  for (const TraceCollective* each : found->second)
    if (each->end_ns == kernel.end_ns &&
        (calls.empty() || (each->launch != 0 && each->launch == calls.front()->launch)))
      calls.push_back(each);
  return calls;
}

Bytes bytes_of(const TraceCollective& call) {
  return Bytes{std::clamp<std::int64_t>(call.count, 0, kMaxCollectiveBytes) * type_size(call.type)};
}

std::optional<std::pair<std::uint64_t, std::int64_t>> name_of_calls(const std::vector<const TraceCollective*>& calls) {
  const TraceCollective& first = *calls.front();
  constexpr std::int64_t kNumbers = kMaxSequence + 1;  // NCCL counts each function by itself
  const auto kind = static_cast<std::int64_t>(collective_of(first.name).value_or(Collective::all_reduce));
  if (first.sequence < 0) return std::pair(first.communicator, -1 - kind);
  if (first.nodes == 0) return std::pair(first.communicator, kind * kNumbers + first.sequence);  // another profiler
  if (first.peer < 0) {
    if (calls.size() > 1) return std::nullopt;
    return std::pair(first.communicator, kind * kNumbers + first.sequence);
  }
  // Messages between two ranks, in one or both directions: the one from the lower rank names them.
  const TraceCollective* named = &first;
  for (const TraceCollective* each : calls) {
    if (each->peer != first.peer) return std::nullopt;
    if ((each->name == "Send") == (each->rank < each->peer)) named = each;
  }
  const auto low = static_cast<std::uint64_t>(std::min(first.rank, first.peer));
  const auto high = static_cast<std::uint64_t>(std::max(first.rank, first.peer));
  const bool upwards = (named->name == "Send") == (named->rank < named->peer);
  return std::pair(first.communicator ^ ((low << 32U | high) * 0x9E3779B97F4A7C15U),
                   (kind * 2 + (upwards ? 0 : 1)) * kNumbers + named->sequence);
}

}  // namespace tracecast
