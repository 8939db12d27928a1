/// \file
/// The machine of a published run, from what its row reports: GPU, memory, GPUs per node, and a description of the
/// links.
///
/// The same rule holds for every row:
///
///   GPU        its part number without maker, board and memory: "NVIDIA A100-SXM4-80GB" is the A100 of 80 GB; where
///              PCIe is the only link in the node, it is the PCIe board; B200 and B300 in racks of 72 are GB200 and GB300
///   machine    found by GPU, network and framework, else the vendor's reference system
///   node       as many GPUs as reported, with their share of the reference system's NICs; racks are not changed
///   network    "8x NDR InfiniBand 400Gb/s per node", "200Gb/s x8", "8 rails of 200Gb/s", "8x 200G", "8x2x200Gb/s", "400Gb/s per GPU",
///              "1600Gb/s RoCE per node", "28.8 Tb/s per rack", "8x NDR". A rate alone is that of each NIC, or of the node if
///              it is above that of the reference system's NICs ("EFA 3200Gb/s")
///
/// Figures that the table calls "not printed", "about" or "assumed" are not used.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/profile.hpp"
#include "sim/network/cluster.hpp"

namespace tracecast::accuracy {

/// A GPU by its part number in capitals ("A100", "H100-PCIE", "MI250X-GCD"), and the memory in its name; 0: none is.
struct GpuName {
  std::string part;
  double memory_gb = 0;
};
GpuName gpu_name(std::string_view reported);

/// The network of a node. `nics`, `rate`: 0 when not reported. `of`: what the rate belongs to.
struct ReportedNetwork {
  enum class Rate { nic, gpu, node, rack };
  int nics = 0;
  Bandwidth rate;
  Rate of = Rate::nic;
  bool each_gpu = false;  ///< has so many NICs
};
/// Empty when the description has no rate.
std::optional<ReportedNetwork> reported_network(std::string_view words);

/// What a row reports about its machine; 0 and "" for the rest.
struct ReportedMachine {
  std::string gpu;
  double memory_gb = 0;
  int gpus_per_node = 0;
  std::string links_in_node;
  std::string links_between_nodes;
  std::string framework;
};

/// GB of one GPU, of the column or the name; 0: neither says it.
double memory_of(const ReportedMachine& reported);

/// The data files of a machine.
struct MachineClass {
  const char* topology;
  const char* profile;  ///< "": that of the topology
  bool by_network;      ///< it was found by its network, which it has
};
/// The part numbers of all GPUs that a row may name.
std::string known_gpus();
/// nullptr for an unknown GPU.
const MachineClass* find_machine(const ReportedMachine& reported);

/// Changes the node of the reference system to the reported one. A machine that was found by its network keeps it: its NICs may
/// be known by what they reach, not by their name. Returns what was changed, one sentence, or "".
std::string adapt_node(Cluster& cluster, const ReportedMachine& reported, bool by_network);

}  // namespace tracecast::accuracy
