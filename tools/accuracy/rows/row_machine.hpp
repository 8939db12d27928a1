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
///   network    network_words.hpp; a rate alone is that of each NIC, or of the node if it is above that of the reference system's
///              NICs ("EFA 3200Gb/s")
#pragma once

#include <string>

#include "sim/cost/profile.hpp"
#include "sim/network/cluster.hpp"
#include "tools/accuracy/rows/machine_table.hpp"

namespace tracecast::accuracy {

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

/// nullptr for an unknown GPU.
const MachineClass* find_machine(const ReportedMachine& reported);

/// Changes the node of the reference system to the reported one. A machine that was found by its network keeps it: its NICs may
/// be known by what they reach, not by their name. Returns what was changed, one sentence, or "".
std::string adapt_node(Cluster& cluster, const ReportedMachine& reported, bool by_network);

}  // namespace tracecast::accuracy
