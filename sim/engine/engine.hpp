/// \file
/// The event engine: simulates one step of a step graph.
///
/// Unless transfers share links or slow compute there is no event queue. Each stream advances by maxima and sums until it
/// needs a time that is not known yet. An incomplete rendezvous keeps a list of waiting streams; runnable streams are kept
/// on a stack. All merges are maxima, so the result depends neither on the order in which runnable streams are taken nor on
/// the number of threads.
#pragma once

#include <cstdint>
#include <limits>

#include "sim/base/result.hpp"
#include "sim/engine/timeline.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

class FlowNetwork;
struct Profile;
class SharedTransfers;

/// How concurrent transfers slow each other: the network that simulates them, and which transfers share links in it.
struct LinkSharing {
  FlowNetwork& network;
  const SharedTransfers& transfers;
};

struct EngineOptions {
  bool record_spans = false;
  int threads = 1;            ///< for large graphs; one if spans are recorded, links are shared or compute is slowed
  bool every_period = false;  ///< simulates the whole steady state, period by period: for tests
  /// A step that is found to take longer is given up (Timeline::given_up); 0: no limit. It may also be simulated to its end. Only
  /// where transfers slow compute.   Requires micro-batches that take the same time (VaryingWork)
  Duration longest{};
  const Profile* slowing_gpu = nullptr;  ///< transfers slow compute as on this GPU (gpu_sharing.hpp); null: not
};

/// A state of more bytes is refused: a million ranks that are simulated one by one take about 35 GB.
inline constexpr double kMostMemory = 16e9;

/// Clocks are int64 picoseconds, which span 106 days. Transfers that share links may take until here, so that the work that
/// follows them still fits.
inline constexpr Duration kLongestSharing{std::numeric_limits<std::int64_t>::max() / 4};

/// Simulates one step on all ranks of the graph. Called by simulate() (simulate.hpp), which chooses the network.
/// `sharing`: null: each transfer lasts as in the graph.
/// Requires that operations and transfers which may follow each other take less than kLongestSharing together, each as long
///          as alone: forecast() and the readers of foreign step graphs and recordings refuse longer ones
/// Errors: a deadlock, described as a cycle of ranks and operations; a state above kMostMemory; transfers that share links
///         beyond kLongestSharing
Result<Timeline> run_engine(const StepGraph& graph, const EngineOptions& options, const LinkSharing* sharing = nullptr);

}  // namespace tracecast
