/// \file
/// Machines and fabrics from other people's files, as topologies.
///
///   nccl-topology    NCCL_TOPO_DUMP_FILE and the files that clouds ship: one node
///   nccl-graph       NCCL_GRAPH_DUMP_FILE: the channels that NCCL's search found in one node
///   nvidia-smi       `nvidia-smi topo -m`: one node
///   simgrid          SimGrid platforms: a cluster element, or one that export_simgrid wrote
///   astra-sim        ASTRA-sim's analytical network; the other files of that simulator are refused by name
///   simai-topology   SimAI's topology for ns-3
///   ibnetdiscover, iblinkinfo    InfiniBand fabrics
///
/// None of them says all that a topology has. What was assumed is in `notes`, and in the sources of the written file.
/// Source: docs/references.md#format-nccl, docs/references.md#format-topology; docs/formats/topology_import.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
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

struct TopologyFormat {
  std::string_view name;
  std::string_view title;
  bool (*matches)(std::string_view text);  ///< by its first characters, or by a line that only it has
  /// Errors: one sentence with the line, naming what is damaged or why the file is no topology.
  Result<ImportedTopology> (*read)(std::string_view text, const std::string& file);
};

/// All of them, in the order in which contents are tried.
std::span<const TopologyFormat> topology_formats();

/// `format`: a name of the table; empty: by content. The cluster's name is the stem of `file`.
/// Errors: an unknown format; a content that none of them has; those of the format.
Result<ImportedTopology> import_topology(std::string_view text, const std::string& file, std::string_view format = "");

/// A topology file of our own (JSON), or any that can be imported, by content.
Result<Cluster> read_any_topology(const std::filesystem::path& path, std::vector<std::string>* notes = nullptr);

/// As a topology file: read_topology gives the same node and fabric back. `origin` is named as the source of what was read.
std::string to_topology_json(const ImportedTopology& imported, const std::string& origin);
/// Node, fabric and size of a cluster as a topology file; `source` for all of its numbers.
std::string to_topology_json(const Cluster& cluster, const std::string& description, const std::string& source);

// The formats.
Result<ImportedTopology> read_nccl_topology(std::string_view text, const std::string& file);
Result<ImportedTopology> read_nccl_graph(std::string_view text, const std::string& file);
Result<ImportedTopology> read_nvidia_smi_topology(std::string_view text, const std::string& file);
Result<ImportedTopology> read_astra_sim_network(std::string_view text, const std::string& file);
Result<ImportedTopology> read_simai_topology(std::string_view text, const std::string& file);
Result<ImportedTopology> read_simgrid_platform(std::string_view text, const std::string& file);
Result<ImportedTopology> read_infiniband_fabric(std::string_view text, const std::string& file);

}  // namespace tracecast
