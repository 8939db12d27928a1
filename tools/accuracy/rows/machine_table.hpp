/// \file
/// The table of machines that a row may have run on, and the part numbers of GPUs that it names.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tracecast::accuracy {

/// The data files of a machine.
struct MachineClass {
  const char* topology;
  const char* profile;  ///< "": that of the topology
  bool by_network;      ///< it was found by its network, which it has
};

/// The machine of a row is the first entry that has its GPU and whose other fields match.
struct MachineEntry {
  const char* gpu;
  const char* network;    ///< words of inter_node_link, or of a cloud's instance in `gpu`; "" any
  const char* framework;  ///< beginning of framework, in small letters; "" any
  double memory_gb;       ///< 0 any
  int gpus_per_node;      ///< 0 any; below 0: so many, and they are reported
  MachineClass machine;
};
std::span<const MachineEntry> machine_table();

/// True if a machine of the table has a GPU of this part number: "A100", "H100-PCIE", "MI250X-GCD".
bool is_part(std::string_view name);

/// The part numbers of all GPUs that a row may name.
std::string known_gpus();

}  // namespace tracecast::accuracy
