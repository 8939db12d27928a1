/// \file
/// Folding of a step with shared links whose stages are of several classes: a stage's ranks do the same work, but some share
/// their links with other traffic than the others (a rank at the root of a tree, say).
///
/// Ranks, communicators, senders and links are refined together (refinement.hpp), one of each orbit under rotations of nodes and
/// of blocks of nodes (link_orbits.hpp): what one of an orbit sees, all of them see, rotated. So the classes are those that refining all ranks gives
/// (folded_step.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/graph/stage_users.hpp"

namespace tracecast {

/// The ranks and communicators of a graph with one rank for each stage, divided into classes.
struct StageParts {
  struct Members {
    std::int32_t communicator = 0;      ///< of the undivided graph
    std::vector<std::int32_t> members;  ///< indices into `ranks`, ascending
  };
  std::vector<Rank> ranks;  ///< by representative
  std::vector<Members> communicators;
  FoldedLoads loads;
};

/// Nothing if a rotation does not map the groups of some slot to each other.
/// `folded`: the graph of the users; it has one rank for each stage
std::optional<StageParts> divide_stages(const StepGraph& folded, const Plan& plan, const Groups& groups,
                                        const StageUsers& users);

}  // namespace tracecast
