/// \file
/// Fits the corrections of NCCL's model (CollectiveTuning) to measured collectives, one set for each kind of machine.
/// The measurements are not shipped.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/network/cluster.hpp"
#include "tools/accuracy/fit/collective_samples.hpp"

namespace tracecast::accuracy {

/// Machines that share one tuning. Parameters without measurements are those of the parent.
struct FabricKind {
  std::string name;
  std::string parent;                   ///< "" for none
  std::vector<std::string> measured;    ///< topologies whose samples are fitted
  std::vector<std::string> topologies;  ///< all with this tuning; includes `measured`
  /// Known to NCCL without a fit: latency of the NIC plugin, LL128 over the network, SHARP.
  double net_latency_us = 0;
  bool ll128 = true;
  bool sharp = false;
  /// Hops between domains are the parent's, and what a call takes beside them is fitted: its samples are of two domains.
  bool hops_of_parent = false;
};
const std::vector<FabricKind>& fabric_kinds();

/// A sample with its prepared group, ready to be forecast many times.
struct PreparedSample {
  const CollectiveSample* sample = nullptr;
  GroupPlacement group;
  /// Each curve (system, collective, ranks, algorithm) has the same total weight; in it, sizes above 1 MiB count twice.
  double weight = 1;
};

/// `cluster` is the topology of all samples.
std::vector<PreparedSample> prepare(const Cluster& cluster, const std::vector<const CollectiveSample*>& samples);

/// One topology with its samples.
struct Machine {
  Cluster cluster;
  std::string architecture;
  std::vector<PreparedSample> samples;
  bool hops_of_parent = false;  ///< of its kind
};

/// Parameters of links that no sample uses stay as in `start`. Sets `data` and `residual`. Of fewer than two samples for each
/// parameter only net_bandwidth is fitted, and `residual` is at least that of `start`.
CollectiveTuning fit_tuning(const std::vector<Machine>& machines, const CollectiveTuning& start,
                            int evaluations = 12000);

}  // namespace tracecast::accuracy
