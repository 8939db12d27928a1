/// The event engine: runs a step graph to its end.
///
/// No queue where nothing is shared: every stream advances by maximum and addition until it needs a time that is not
/// known yet; the missing rendezvous remembers who waits, and a stack holds the streams that can go on. The result does
/// not depend on the order in which ready streams are taken (all merges are maxima), so neither on the stack nor on the
/// number of threads.
#pragma once

#include "sim/base/result.hpp"
#include "sim/engine/timeline.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

class FlowNetwork;
class SharedTransfers;

/// How transfers that are in flight together slow each other: which share links, and the network that shares them.
struct LinkSharing {
  FlowNetwork& network;
  const SharedTransfers& transfers;
};

struct EngineOptions {
  bool record_spans = false;
  int threads = 1;                       ///< share the ranks of large graphs; one thread records spans
  const LinkSharing* sharing = nullptr;  ///< null: every transfer takes what the graph says. One thread
};

/// Errors: a deadlock, told as the circle of ranks and operations that wait for each other.
Result<Timeline> simulate(const StepGraph& graph, const EngineOptions& options = {});

}  // namespace tracecast
