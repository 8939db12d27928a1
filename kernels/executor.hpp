/// \file
/// The executor: runs one rank's program of a step graph on a device, one operation at a time in issue order.
///
/// It executes the same graph as the simulation: same schedule, operators and collectives in the same order. A Device runs one
/// operation at a time (graph/without_overlap.hpp), so the order alone satisfies waits and events. GPUs run streams
/// concurrently: kernels/cuda/step_runner.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/timeline.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// The device of a rank. Every call returns when its work is done.
class Device {
 public:
  virtual ~Device() = default;
  virtual void compute(const Operator& op) = 0;
  /// `communicator`: index into StepGraph::communicators.
  virtual void collective(const CollectiveCall& call, std::int32_t communicator) = 0;
  virtual void send(ChannelEnd to, std::int32_t microbatch, Bytes size) = 0;
  virtual void receive(std::int32_t channel, std::int32_t microbatch, Bytes size) = 0;
  /// All ranks use the same clock.
  virtual Duration now() = 0;
};

/// One executed operation of a rank. Trivially copyable: ranks exchange them as bytes.
struct ExecutedOp {
  std::int32_t item = 0;  ///< of the rank's program
  std::int32_t op = 0;    ///< index into Template::ops
  Duration begin;
  Duration end;
};

/// Returns the operations that take time, in order. Pure waits and host_sync are satisfied by the order.
/// Requires a graph of without_overlap() with every rank in it.
std::vector<ExecutedOp> execute_rank(const StepGraph& graph, std::int32_t rank, Device& device);

/// The timeline of a step from the executed operations of each rank, with the engine's categories.
///
///   transfers    start when the last member has joined (a message: when it was sent); the wait before that is bubble, the
///                rest is exposed communication, since nothing overlaps
///   computation  is compute, or optimizer in templates of that phase
///   gaps         between two operations of a rank are host time
///   the end      after a rank's last operation, until all ranks are done, is bubble
///
/// Times are relative to the first begin of any rank. `ranks[r]`: the operations of StepGraph::ranks[r], in order.
Timeline timeline_of(const StepGraph& graph, const std::vector<std::vector<ExecutedOp>>& ranks);

/// The same for concurrent streams. `ranks[r]` has every operation except host_sync in issue order, including pure waits (they
/// end when the operation they wait for ends).
///
///   the compute stream   idle time before an operation is exposed communication while an awaited transfer moves, bubble
///                        while that transfer waits for other ranks, otherwise host time
///   other streams        count only while the compute stream waits for them
Timeline overlapped_timeline_of(const StepGraph& graph, const std::vector<std::vector<ExecutedOp>>& ranks);

}  // namespace tracecast
