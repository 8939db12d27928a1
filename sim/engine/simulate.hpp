/// \file
/// The entry to the simulator: one step of a step graph over a network.
///
/// A graph has every rank of one or more jobs, or it is folded: one rank for each class of ranks that do the same.
/// Folded or not, each rank gets the same times, to the picosecond (docs/folding.md).
///
///   isolated  each transfer takes what it takes alone: for teaching, and for lower bounds
///   fluid     transfers in flight share links max-min (sim/network/fluid.hpp); the default
///   simgrid   every flow of every transfer that shares a link, in SimGrid
///
/// With shared links every stream advances as far as it can between two completions of transfers. When all streams wait, the
/// network advances to its next completion, and the streams that waited for it continue. They start transfers at that instant
/// or later, so the network never has to go back in time.
#pragma once

#include <optional>
#include <string>

#include "sim/base/result.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/timeline.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {

/// The network of a simulation, with the links of the machine if transfers share them.
class StepNetwork {
 public:
  StepNetwork() = default;  ///< isolated
  /// `architecture`: of the GPUs, as ClusterLinks takes it.
  StepNetwork(NetworkKind kind, const Cluster& machine, const std::string& architecture);

  NetworkKind kind() const { return kind_; }
  /// Null with `isolated`.
  const ClusterLinks* links() const { return links_ ? &*links_ : nullptr; }

 private:
  NetworkKind kind_ = NetworkKind::isolated;
  std::optional<ClusterLinks> links_;
};

/// Simulates one step.   Requires for `fluid` a graph with every rank or with its loads, for `simgrid` one with every rank.
/// Errors: a deadlock; with simgrid: too large, or no SimGrid in this build.
[[nodiscard]] Result<Timeline> simulate(const StepGraph& graph, const StepNetwork& network = {},
                                        const EngineOptions& options = {});

}  // namespace tracecast
