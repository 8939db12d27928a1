/// \file
/// The kernels and copies of one GPU in a recorded step, with what each of them waited for. tracer/replay.hpp states the rules.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "sim/graph/step_graph.hpp"
#include "sim/io/trace.hpp"
#include "tracer/recorded_work.hpp"

namespace tracecast {

/// A kernel or copy to be added to the graph. Times are ns since the begin of the step.
struct Node {
  RecordedWork work;
  std::int64_t issue = 0;
  std::int64_t start = 0;  ///< not before the end of the previous node on its stream
  std::int64_t end = 0;
  std::int64_t ready = 0;      ///< issued, and the previous node has ended
  std::int32_t order = 0;      ///< of issue, on its device
  std::int32_t cause = -1;     ///< node on another stream that it waits for
  std::int32_t previous = -1;  ///< node before it on its stream
  bool is_cause = false;       ///< another node or a host call waits for it
  EventRef event;
  EventRef pause;  ///< end of the pause before a transfer beside the compute stream
};

/// A host call that waited for the end of `cause`.
struct Sync {
  std::int64_t time = 0;  ///< of the call
  std::int32_t cause = -1;
};

/// The nodes of one device and their dependencies.
class DeviceNodes {
 public:
  /// `works` are placed relative to `origin`, ns. `host_end`: how long the step lasts on the host; 0: until its last launch.
  DeviceNodes(const Trace& trace, const std::vector<RecordedWork>& works, std::int64_t origin, std::int64_t host_end);

  std::vector<Node> nodes;                                    ///< in the order of issue
  std::vector<Sync> syncs;                                    ///< by time
  std::map<std::int64_t, std::vector<std::int32_t>> streams;  ///< [recorded number] nodes in order

 private:
  Node& at(std::int32_t index) { return nodes[static_cast<std::size_t>(index)]; }
  /// Orders each stream by begin: launches from several threads may have been recorded out of order.
  void order_streams();
  /// Indices of nodes, sorted by end.
  std::vector<std::int32_t> by_end() const;
  /// The last node to end in (after, until] for which `fits` holds; -1: none.
  template <class Fits>
  std::int32_t last_end(const std::vector<std::int32_t>& ends, std::int64_t after, std::int64_t until, Fits fits);
  void find_causes();
  /// Only if no other thread launches meanwhile: the host is modelled as one stream of launches.
  void find_syncs(const Trace& trace, std::int64_t origin, std::int64_t host_end);
};

}  // namespace tracecast
