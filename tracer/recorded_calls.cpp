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
  const Collective collective = collective_of(first.name).value_or(Collective::all_reduce);
  const auto kind = static_cast<std::int64_t>(collective);
  const auto group_of = [&first](int from, int to) {
    const auto pair = static_cast<std::uint64_t>(from) << 32U | static_cast<std::uint64_t>(to);
    return first.communicator ^ (pair * 0x9E3779B97F4A7C15U);
  };
  if (first.sequence < 0) {
    if (collective != Collective::send_recv) return std::pair(first.communicator, -1 - kind);
    if (first.peer < 0 || first.rank < 0 || calls.size() > 1) return std::nullopt;
    const bool sends = first.name == "Send";
    return std::pair(sends ? group_of(first.rank, first.peer) : group_of(first.peer, first.rank), -1 - kind);
  }
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
  const bool upwards = (named->name == "Send") == (named->rank < named->peer);
  return std::pair(group_of(std::min(first.rank, first.peer), std::max(first.rank, first.peer)),
                   (kind * 2 + (upwards ? 0 : 1)) * kNumbers + named->sequence);
}

}  // namespace tracecast
