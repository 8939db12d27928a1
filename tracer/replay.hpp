/// \file
/// A recorded step as a step graph: what the engine replays to the duration that it had, and what a change to a part of it
/// can be tried on.
///
///   rank          a GPU of the trace; its NCCL kernels keep the durations that they had (nobody else is there to wait for)
///   stream        as recorded; the one with most computation is the compute stream
///   host          issues every kernel when its launch was called, measured from the launch before; where a call waited
///                 for the GPU (cudaStreamSynchronize …) it waits for the kernel that ended in that call; of a step
///                 ProfilerStep#N it goes on until that range ends
///   event         a kernel that began more than kPause after it could have begun waits for what ended last before it on
///                 another stream
///   gap           what is left between the moment when a kernel could begin and the one when it did (launch latency,
///                 dispatch) is an operator "gap" of that length on its stream
///
/// So a replay of the whole graph gives every kernel the time that it had. Kernels that overlap on one stream are cut at the
/// end of the one before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/base/units.hpp"
#include "sim/graph/step_graph.hpp"
#include "tracer/trace.hpp"

namespace tracecast {

/// A pause before a kernel that is longer than this was a wait for another stream, where one ended in it.
inline constexpr std::int64_t kPauseNs = 10'000;

/// A kernel of NCCL: what identifies the call in the recordings of other ranks.
struct RecordedCall {
  std::uint64_t group = UINT64_MAX;  ///< communicator; UINT64_MAX: not recorded
  std::int64_t sequence = 0;  ///< of the communicator; where that was not recorded, of the rank's kernels of NCCL
  Duration end;               ///< from the begin of the step
};

struct Replay {
  StepGraph graph;
  std::vector<RecordedCall> calls;  ///< [i] what graph.collectives[i] was
  Duration
      recorded;  ///< from the begin of the step on the host to its end there, or to that of its last GPU work if later
  std::int64_t works = 0;  ///< kernels and copies
  std::int64_t waits = 0;  ///< events between streams that were concluded
  std::int64_t syncs = 0;  ///< host calls that waited for the GPU
  std::int64_t met = 0;    ///< collectives in which ranks of several recordings met
};

/// Numbers of the ranges "ProfilerStep#N", ascending.
std::vector<std::int64_t> recorded_steps(const Trace& trace);

/// `step`: what was launched in the range "ProfilerStep#N"; empty: everything.
/// Errors: a step that the trace does not have or in which the GPU did nothing; more than 250 streams.
Result<Replay> replay_graph(const Trace& trace, std::optional<std::int64_t> step, const std::string& file);

/// Recordings of several ranks as one step in which they wait for each other. A collective that all recorded members of its group
/// called, in the same order, becomes a rendezvous that takes as long as on the rank that came last; others keep their durations.
/// Clocks of hosts differ: recordings are shifted so that on average their common collectives end together.
/// Requires at least one replay. Rank numbers that several recordings have are given out anew, from 0.
Replay join_ranks(std::vector<Replay> replays);

}  // namespace tracecast
