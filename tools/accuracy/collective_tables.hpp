/// \file
/// Published tables of measured collectives, each row with the shipped topology that stands for the machine.
///
/// A table is recognised by its columns (docs/formats/runs.md): our own, and those of nccl-tests as collected here,
/// aiconfigurator's nccl_intranode, Vidur's network profiles and SimAI's ratios of the NIC rate.
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
  std::string topology;  ///< file stem in topologies/; "" none stands for the machine
  int ranks = 0;
  CollectiveCall call;  ///< with the algorithm that was forced, if one was
  double seconds = 0;
  bool guessed = false;  ///< the machine is not known by name: the reference system of its GPU stands for it
  std::string aside;     ///< why it does not count ("its source calls the settings bad"); "" it does
};

/// Has it the columns of one of them?
bool is_collective_table(const CsvTable& table);

/// Out-of-place times begin with warm-up: the smaller of both counts.
/// Errors: a table with other columns; a field that is no number; an unknown word.
Result<std::vector<CollectiveSample>> read_collectives(const CsvTable& table);

}  // namespace tracecast::accuracy
