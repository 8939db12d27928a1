/// \file
/// Rank-local streams: streams whose collectives concern one rank only, so that the compute stream can run them itself
/// (fused_runs.hpp); and how the operations of a template are partitioned into fused runs.
///
/// A stream is rank-local if, in every template, each of its operations
///
///   - is a collective whose communicator has one member in this graph, and that shares no link;
///   - waits only for local events, all recorded earlier in its own fused run;
///   - records nothing, or a local event for which only rank-local streams wait, later in the template.
///
/// A fused run begins where compute waits for an event that the current run does not record.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/graph/step_graph.hpp"

namespace tracecast {
class SharedTransfers;
}

namespace tracecast::engine {

struct LocalStreams {
  bool fuses = false;       ///< false: nothing is fused, each operation runs on its own stream
  std::vector<bool> local;  ///< [stream]; the compute stream is always local
};

/// True for a collective that a rank-local stream may have, whatever its communicator.
bool waits_for_local_events(const Op& op);

/// Groups of ranks that run in lockstep (lockstep.hpp): the communicators of one slot, which one stream uses.
struct Lockstep {
  StreamId stream = kComputeStream;
  std::int32_t slot = -1;             ///< of Rank::communicators; -1: none
  std::vector<std::int32_t> members;  ///< [communicator] how many; 0: not in lockstep
};

/// `shared`: transfers that share links, whose ends the network decides; null: none. `lockstep`: the streams are local on ranks
/// that are alone in their group.
LocalStreams find_local_streams(const StepGraph& graph, const SharedTransfers* shared, const Lockstep& lockstep = {});

/// Assigns the operations of one template to fused runs.
class TemplatePartition {
 public:
  TemplatePartition(const StepGraph& graph, const LocalStreams& streams)
      : streams_(streams), recorder_(static_cast<std::size_t>(graph.local_events), -1) {}

  /// False: some operation contradicts `streams`, see offending_stream().
  bool assign(const Template& source);

  /// The stream that cannot be rank-local. The compute stream means that a template records one event twice.
  StreamId offending_stream() const { return offending_stream_; }
  /// [operation] its run within the template; -1: not in a run.
  std::int32_t run_of(std::size_t op) const { return run_[op]; }
  /// The operations of all runs. Run by run; compute in its order, and each collective directly after the last compute that
  /// it depends on, so that all transfers that may move beside an operation come before it.
  const std::vector<std::size_t>& order(const Template& source);
  /// True if an operation outside of the run waits for what `op` records.
  bool visible_outside(std::size_t op) const { return visible_outside_[op]; }
  /// The operation of this template that records a local event.
  std::int32_t recorder(EventRef local) const { return recorder_[static_cast<std::size_t>(local.base)]; }

 private:
  bool is_local(const Op& op) const { return op.type != OpType::host_sync && streams_.local[op.stream]; }
  bool waits_inside(const Op& op) const;
  bool assign_runs(const Template& source);
  bool find_outside_waits(const Template& source);
  std::int32_t last_dependence(const Op& op, const std::vector<std::int32_t>& last_of_stream) const;

  const LocalStreams& streams_;
  std::vector<std::int32_t> recorder_;  ///< [local event]
  std::vector<std::int32_t> run_;
  std::vector<bool> visible_outside_;
  std::vector<std::size_t> order_;
  std::vector<std::int32_t>
      computes_before_;  ///< [operation] number of the last compute that it depends on, or its own
  std::int32_t count_ = 0;
  StreamId offending_stream_ = kComputeStream;
};

}  // namespace tracecast::engine
