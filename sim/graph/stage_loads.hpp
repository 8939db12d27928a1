/// \file
/// Folding of a step with shared links by the plan's coordinates, without visiting all ranks.
///
/// The classes of ranks and communicators are those of the folded graph without sharing: one for each pipeline rank. Links are
/// classified once, by the users that cross them, and the partition is then checked exactly (link_classes.hpp). If it is not
/// stable, the ranks of the pipeline ranks are divided (stage_parts.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "sim/graph/groups.hpp"
#include "sim/graph/stage_parts.hpp"
#include "sim/graph/step_graph.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/plan/plan.hpp"

namespace tracecast {

/// How a graph with one rank for each stage folds; without ranks: it stays as it is.
/// `folded`: the graph that build_step_graph made without unfolding; `groups`: those of its plan.
/// Nothing if the ranks of a pipeline rank are of several classes there, or if paths are hashed.
std::optional<StageParts> fold_stages(const StepGraph& folded, const Plan& plan, const Groups& groups,
                                      const ClusterLinks& links);

/// Gives the graph its loads, and divides its ranks.
void apply(StageParts parts, StepGraph& folded);

/// The answers for the last graphs, for graphs with the same transfers: neighbouring layouts of a search often differ only in
/// what ranks compute. Thread-safe.   Requires the same cluster in all calls
class KnownLoads {
 public:
  /// As fold_stages(), with the same answer.
  std::optional<StageParts> fold_stages(const StepGraph& folded, const Plan& plan, const Groups& groups,
                                        const ClusterLinks& links);

 private:
  static constexpr std::size_t kMost = 32;
  struct Answer {
    std::vector<std::int64_t> transfers;  ///< and their ranks: everything that decides the loads
    StageParts parts;
  };
  std::mutex mutex_;
  std::vector<std::shared_ptr<const Answer>> answers_;  ///< kMost at most, the oldest is replaced
  std::size_t oldest_ = 0;
};

}  // namespace tracecast
