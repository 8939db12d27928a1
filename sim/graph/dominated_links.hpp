/// \file
/// Links that cannot decide a rate, because another link always decides first.
///
/// A link U is dominated by a link N if every transfer on U crosses N, and
///
///   weight on U / capacity of U <= weight on N / capacity of N        for each of these transfers
///
/// Let all rates be given but those of the flows that share U, and let these rise together. When U is full at rate t,
///
///   load of N >= (capacity of N / capacity of U) x load of U = capacity of N        the transfers of U alone
///
/// so N is full at t or below. In every round of the solver (max_min.hpp) the share of N is at most that of U, also rounded down;
/// if U has the smallest share, N has it too, and gives it to all flows of U. So rates without U are the same integers.
/// An example is the uplink of a leaf switch in a folded graph: all NICs below it are one class, whose flows cross it.
#pragma once

#include "sim/graph/step_graph.hpp"
#include "sim/network/cluster_links.hpp"

namespace tracecast {

/// Drops the loads on links that are dominated by others. Of links that dominate each other one is kept.
void drop_dominated_links(FoldedLoads& loads, const ClusterLinks& links);

}  // namespace tracecast
