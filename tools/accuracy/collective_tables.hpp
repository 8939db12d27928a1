/// \file
/// Published tables of measured collectives, each row with the shipped topology of its machine.
///
/// A table is recognised by its columns (docs/formats/runs.md): those of the project's own form, and those of
/// nccl-tests, aiconfigurator's nccl_intranode, Vidur's network profiles and SimAI's ratios of the NIC rate.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/io/csv_table.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast::accuracy {

/// One message size of one curve.
struct CollectiveSample {
  std::size_t row = 0;
  std::string source;  ///< as the data's README names it
  std::string system;
  std::string topology;  ///< file stem in topologies/; "": there is none for the machine
  int ranks = 0;
  int ranks_per_domain = 0;  ///< 0: all of a domain's GPUs, as far as there are ranks
  int nodes = 0;             ///< hosts, with as many ranks on each; 0: not said
  CollectiveCall call;       ///< with the algorithm that was forced, if one was
  double seconds = 0;
  bool guessed = false;  ///< unknown machine: the reference system of its GPU is used
  std::string excluded;  ///< why it does not count ("its source calls the settings bad"); "": it counts
};

/// The ranks of a sample's group on its machine: `ranks_per_domain` in each scale-up domain; else, if each host is a domain, as many on
/// each of its `nodes`; else all of a domain's GPUs.
std::vector<int> ranks_of_group(const Cluster& cluster, const CollectiveSample& sample);

/// True if the table has the columns of one of them.
bool is_collective_table(const CsvTable& table);

/// Of in-place and out-of-place times the smaller one counts, since the latter include warm-up.
/// Errors: a table with other columns; a field that is not a number; an unknown word.
Result<std::vector<CollectiveSample>> read_collectives(const CsvTable& table);

}  // namespace tracecast::accuracy
