/// \file
/// A step graph as Chakra execution traces, one a rank, so that other simulators (ASTRA-sim, Genie) can run it.
///
///   operator      computation with its duration, FLOPs and bytes; what only waits takes no time
///   collective    its kind, size and group; its duration is our forecast's, which a simulator of networks ignores
///   message       a send or receive with the other rank and a tag that both sides agree on
///   launch        the time that the host takes to issue an operation: a node of the CPU, each after the one before
///
/// A node depends (data_deps) on the node before it on its stream, on the events that it waits for, and on its launch. Nodes of no
/// duration and durations below a microsecond are common: Chakra counts whole microseconds, and what rounding leaves is carried to
/// the next node of the stream. The exact duration is in the attribute `tracecast.duration_ps`, which our importer reads.
///
/// Sizes are what a rank puts in, as ASTRA-sim takes them: of an all_gather the share of one rank. A ring of send_recv becomes a
/// send to the next member and a receive from the one before.
///
/// Source: docs/references.md#format-chakra; Chakra schema 0.0.4 (et_def.proto); attributes that must be there:
/// ASTRA-sim's Workload.cc and feeder_v3; docs/formats/steps.md.
#pragma once

#include <cstddef>
#include <string>

#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// Attribute of nodes that holds the duration unrounded.
inline constexpr const char* kChakraDuration = "tracecast.duration_ps";

/// The trace of graph.ranks[rank]. Requires a graph with every rank (unfolded).
std::string to_chakra(const StepGraph& graph, std::size_t rank);

/// The groups that `pg_name` of the traces refers to, as ASTRA-sim's comm-group configuration: {"1": [0, 1, …], …}.
std::string chakra_groups(const StepGraph& graph);

}  // namespace tracecast
