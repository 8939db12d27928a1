/// \file
/// The executor: runs one rank's program of a step graph on a device, operation by operation in the order of issue.
///
/// What is executed is the very graph that was simulated: same schedule, same operators, same collectives in the same
/// order. A Device runs one thing at a time (graph/without_overlap.hpp): waits and events are fulfilled by the order
/// alone. GPUs run streams beside each other: kernels/cuda/step_runner.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/timeline.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// What a rank does its work with. Every call returns when the work is done.
class Device {
 public:
  virtual ~Device() = default;
  virtual void compute(const Operator& op) = 0;
  /// `communicator`: index into StepGraph::communicators.
  virtual void collective(const CollectiveCall& call, std::int32_t communicator) = 0;
  virtual void send(ChannelEnd to, std::int32_t microbatch, Bytes size) = 0;
  virtual void receive(std::int32_t channel, std::int32_t microbatch, Bytes size) = 0;
  /// The same clock on all ranks.
  virtual Duration now() = 0;
};

/// One operation as a rank ran it. Plain numbers: ranks send them to each other as bytes.
struct ExecutedOp {
  std::int32_t item = 0;  ///< of the rank's program
  std::int32_t op = 0;    ///< index into Template::ops
  Duration begin;
  Duration end;
};

/// Operations that take time, in order. Those that only wait, and host_sync, are fulfilled by the order.
/// Requires a graph of without_overlap() with every rank in it.
std::vector<ExecutedOp> execute_rank(const StepGraph& graph, std::int32_t rank, Device& device);

/// The timeline of a step from what each rank ran, in the words of the engine.
///
///   transfers   begin to move when the last member has come (a message: when it was sent); until then the rank waits,
///               which is bubble; the rest is exposed communication, since nothing hides it
///   computation is compute, or optimizer in templates of that phase
///   between     two operations of a rank lies host time
///   the end     of a rank that is done before the last one is bubble
///
/// Times count from the first begin of any rank. `ranks[r]`: the operations of StepGraph::ranks[r], in order.
Timeline timeline_of(const StepGraph& graph, const std::vector<std::vector<ExecutedOp>>& ranks);

/// The same where streams ran beside each other. `ranks[r]` has every operation but host_sync in the order of issue, those
/// that only wait too (they end when what they wait for has ended).
///
///   the compute stream   idle before an operation is exposed communication while a transfer that it waits for moves,
///                        bubble while that transfer waits for others, else host
///   other streams        cost a rank nothing but what the compute stream waits for
Timeline overlapped_timeline_of(const StepGraph& graph, const std::vector<std::vector<ExecutedOp>>& ranks);

}  // namespace tracecast
