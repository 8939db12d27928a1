/// \file
/// The machine of a published run, from what a table of runs prints of it: GPU, memory, GPUs per node, and words for the links.
///
/// The rule, which holds for every row alike:
///
///   GPU        its part number without maker, board and memory: "NVIDIA A100-SXM4-80GB" is the A100 of 80 GB; a part whose
///              node has no link but PCIe is the PCIe board
///   machine    the one that GPU, network and framework name, else the vendor's reference system
///   node       as many GPUs as printed, with their share of the reference system's NICs; a rack stays one
///   network    "8x NDR InfiniBand 400Gb/s per node", "400Gb/s per GPU", "1600Gb/s RoCE per node", "8x NDR": what it says; a
///              bare rate is each NIC's, the node's where no NIC of the reference system is as fast ("EFA 3200Gb/s")
///
/// Figures that a source calls "not printed", "about" or "assumed" are not taken.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/profile.hpp"
#include "sim/network/cluster.hpp"

namespace tracecast::accuracy {

/// A GPU by its part number in capitals ("A100", "H100-PCIE", "MI250X-GCD"); memory as its name prints it, 0 when it does not.
struct GpuName {
  std::string part;
  double memory_gb = 0;
};
GpuName gpu_name(std::string_view printed);

/// What leaves a node. `nics`: 0 when not printed. `rate`: 0 when not printed; of each NIC, or of the whole node.
struct PrintedNetwork {
  enum class Rate { nic, gpu, node };
  int nics = 0;
  Bandwidth rate;
  Rate of = Rate::nic;
};
/// Empty when nothing is printed that means a number.
std::optional<PrintedNetwork> printed_network(std::string_view words);

/// What a row prints of its machine; 0 and "" for what it does not.
struct PrintedMachine {
  std::string gpu;
  double memory_gb = 0;
  int gpus_per_node = 0;
  std::string links_in_node;
  std::string links_between_nodes;
  std::string framework;
};

/// The data files of a machine.
struct MachineClass {
  const char* topology;
  const char* profile;  ///< "" the topology's
  bool by_network;      ///< the words for its network chose it
};
/// Nothing for a GPU that no machine is known for.
const MachineClass* find_machine(const PrintedMachine& printed);

/// PCIe of a board's generation, where PCIe is what connects the GPUs of a node.
void plug_in(NodeSpec& node, const Profile& profile);

/// Makes the reference system's node the row's. Returns what was changed, one sentence, or "".
std::string fit_node(Cluster& cluster, const PrintedMachine& printed);

}  // namespace tracecast::accuracy
