/// Which streams of a step graph the compute stream may run in passing (segments.hpp), and how a template's operations
/// fall into segments then.
///
/// A stream is an own one if, in every template, each of its operations
///
///   - is a collective in whose communicator no rank meets another, and that shares no link;
///   - waits for local events alone, all recorded before it within its segment;
///   - records nothing, or a local event for which own streams alone wait, later in the template.
///
/// A segment begins where compute waits for anything else than what the same segment recorded.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/graph/step_graph.hpp"

namespace tracecast {
class SharedTransfers;
}

namespace tracecast::engine {

struct OwnStreams {
  bool segments = false;  ///< false: every operation is a step of its own stream
  std::vector<bool> own;  ///< [stream]; the compute stream is
};

/// `shared`: transfers that share links, which end when their network says so; null: none.
OwnStreams find_own_streams(const StepGraph& graph, const SharedTransfers* shared);

/// How the operations of a template fall into segments.
class TemplateReading {
 public:
  TemplateReading(const StepGraph& graph, const OwnStreams& streams)
      : streams_(streams), recorder_(static_cast<std::size_t>(graph.local_events), -1) {}

  /// False: some operation contradicts `streams`, see culprit().
  bool read(const Template& source);

  /// The stream that cannot be an own one; the compute stream: a template records one event twice.
  StreamId culprit() const { return culprit_; }
  /// [operation] its segment within the template; -1: on another stream.
  std::int32_t segment_of(std::size_t op) const { return segment_[op]; }
  std::int32_t segments() const { return count_; }
  /// Whether somebody outside of the operation's segment waits for what it records.
  bool heard_outside(std::size_t op) const { return heard_outside_[op]; }
  /// The operation of this template that records a local event.
  std::int32_t recorder(EventRef local) const { return recorder_[static_cast<std::size_t>(local.base)]; }

 private:
  bool own(const Op& op) const { return op.type != OpType::host_sync && streams_.own[op.stream]; }
  bool waits_inside(const Op& op) const;
  bool place(const Template& source);
  bool find_listeners(const Template& source);

  const OwnStreams& streams_;
  std::vector<std::int32_t> recorder_;  ///< [local event]
  std::vector<std::int32_t> segment_;
  std::vector<bool> heard_outside_;
  std::int32_t count_ = 0;
  StreamId culprit_ = kComputeStream;
};

}  // namespace tracecast::engine
