/// \file
/// Times of transfers for a step whose file has sizes only, from the network model of a machine.
#pragma once

#include <string>

#include "sim/base/result.hpp"
#include "sim/cost/profile.hpp"
#include "sim/import/imported_graph.hpp"
#include "sim/network/cluster.hpp"

namespace tracecast {

/// Collectives and messages without a time take that of the network, without other traffic; a note counts them. Collectives run over
/// the first `ranks` GPUs of the machine. A message takes the time between its two ranks; one whose ranks are not in the file keeps none.
/// Errors: a step whose sizes are not those of one rank's input (ImportedGraph::sizes_of_input); ranks that the machine does not
/// have; a message of a rank that is not among them.
Result<void> time_transfers(ImportedGraph& step, Cluster cluster, const Profile& profile, int ranks,
                            const std::string& file);

}  // namespace tracecast
