/// \file
/// Lockstep runs: the work of a whole group of ranks between two points where one of them needs other ranks.
///
/// Where tensor-parallel ranks are simulated one by one, they meet in every collective of a layer. If the members of a group
/// run one program at one speed, become ready at the same instant, and nothing disturbs them, they stay together: each of
/// them takes the times of a fused run (fused_runs.hpp), as if its collectives concerned this rank only. So the last member
/// that becomes ready starts the run on all of them, as one step of the engine.
///
/// A run is one step only if, on every member,
///
///   - it is isolated, as a fused run is, and the transfers beside it leave equal speeds from its begin to its end;
///   - nothing that it records is seen before its end (RunTimes::one_step).
///
/// Otherwise its operations are executed on their own streams, each rank by itself. Until then a member that is ready has
/// only waited: it does nothing that other ranks see before the first collective, for which it needs all members.
/// Not used when spans are recorded.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/local_streams.hpp"

namespace tracecast::engine {

/// Those that lockstep runs contain, of `count`.
LocalStreams streams_of(const Lockstep& lockstep, std::size_t count);

/// The stream with the most collectives that a fused run could contain if they concerned one rank only. Its groups are those
/// whose members run one program at one speed, and whose collectives share no link. `shared`: as in find_local_streams.
Lockstep find_lockstep(const StepGraph& graph, const SharedTransfers* shared);

/// Operations of one template, of the compute stream and of Lockstep::stream.
struct LockstepRun {
  std::int32_t fused_run = -1;  ///< index into FusedRuns::all
  std::int32_t end = 0;         ///< index into CompiledGraph::stream_ops: after its compute
  std::int32_t first_transfer = 0;
  std::int32_t end_transfers = 0;
  std::int32_t operations = 0;  ///< of one rank
};

}  // namespace tracecast::engine
