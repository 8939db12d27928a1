/// \file
/// Times of transfers for a step whose file has sizes only, from the network model of a machine.
#pragma once

#include <cstdint>
#include <string>

#include "sim/base/result.hpp"
#include "sim/cost/profile.hpp"
#include "sim/import/imported_graph.hpp"
#include "sim/network/cluster.hpp"

namespace tracecast {

/// Collectives and messages without a time take that of the network, without other traffic; a note counts them. Collectives run over
/// their group of a run of `ranks` (0: those that the file says), if the file describes its groups, else over all. A message takes the
/// time between its two ranks; one whose ranks are not in the file keeps none.
/// Errors: a step whose sizes may mean anything (ImportedGraph::sizes); ranks that the file does not say, contradicts, or that the
/// machine does not have; a message of a rank that is not among them; those of check_durations.
Result<void> time_transfers(ImportedGraph& step, Cluster cluster, const Profile& profile, int ranks,
                            const std::string& file);

/// Collectives and messages that have a size and no time: they take none until time_transfers.
std::int64_t untimed_transfers(const ImportedGraph& step);
/// "give --topology and --gpus, which time them", or why that is not possible.
std::string advice_for_untimed(const ImportedGraph& step);

}  // namespace tracecast
