/// \file
/// A machine or fabric from a foreign format. No such format has everything that a topology needs: what was assumed is in
/// `notes`, and in the sources of the written file.   docs/formats/topology_import.md
/// Source: docs/references.md#format-nccl, docs/references.md#format-topology
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/network/cluster.hpp"

namespace tracecast {

struct ImportedTopology {
  std::string format;                                       ///< its title
  Cluster cluster;                                          ///< world_size 0; its max_nodes where the file says so
  std::vector<std::pair<std::string, std::int64_t>> found;  ///< what the file holds: {"GPUs", 8}, {"NICs", 12}, …
  std::vector<std::string> notes;                           ///< what was assumed or left out
};

/// Adds what no such format has: how fast collectives over PCIe are. An own export has it.
void complete(Cluster& imported);

/// As a topology file: read_topology gives the same machine back. `origin` is named as the source of what was read.
std::string to_topology_json(const ImportedTopology& imported, const std::string& origin);

}  // namespace tracecast
