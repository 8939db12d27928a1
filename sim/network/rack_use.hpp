/// \file
/// How many GPUs of a rack a job uses, where a rack is one scale-up domain of several hosts (GB200 NVL72: 18 trays of 4).
///
/// Schedulers give a job equal parts of racks, in whole trays. A job of 256 GPUs on racks of 72 gets 64 of each: with 72, the
/// fourth rack would be half full, and every second group of 32 ranks would have members in two racks. The rule:
///
///   1. candidates  trays x GPUs of a tray, more than half of the rack, that divide the job
///   2. of these    the one for which most kinds of groups do not cross racks, then the largest
///   3. no candidate, or the job fits in one rack: the whole rack
///
/// Leaves out: racks that are shared with other jobs; spare trays.
/// Source: docs/references.md#gb200-nvl72
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/network/cluster.hpp"

namespace tracecast {

/// True if a scale-up domain has several hosts.
inline bool is_rack(const NodeSpec& node) { return node.gpus > node.gpus_per_host; }

/// True if groups of `span` consecutive ranks have members in as few domains of `gpus` GPUs as possible.
inline bool aligned(int gpus, int span) { return gpus % span == 0 || span % gpus == 0; }

/// Candidates of the rule for a job of `world_size` GPUs, the largest first. `max_nodes`: racks of the machine; 0: any number.
std::vector<int> rack_choices(const NodeSpec& node, int max_nodes, int world_size);

/// GPUs of each rack that the job uses.
/// `spans`: for each kind of group, the number of consecutive ranks that one group has its members in
int gpus_used_per_rack(const NodeSpec& node, int max_nodes, int world_size, std::span<const int> spans);

/// Why a job cannot use so many GPUs of each rack; "": it can.
std::string gpus_per_rack_error(const NodeSpec& node, int max_nodes, int world_size, int gpus);

/// The node with all GPUs of a rack in use.
NodeSpec whole_racks(NodeSpec node);

/// Leaves the other GPUs of every rack unused.   Requires a rack, and whole hosts
void use_gpus_per_rack(NodeSpec& node, int gpus);

}  // namespace tracecast
