/// \file
/// Fits the corrections of NCCL's model (CollectiveTuning) to measured collectives, one set for machines of a kind.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/network/cluster.hpp"
#include "tools/accuracy/fit/collective_samples.hpp"

namespace tracecast::accuracy {

/// Machines that share one tuning. What a kind has no measurements of it takes from its parent.
struct FabricKind {
  std::string name;
  std::string parent;                   ///< "" for none
  std::vector<std::string> measured;    ///< topologies whose samples are fitted
  std::vector<std::string> topologies;  ///< all that get the tuning; includes `measured`
  /// What NCCL knows of the machine, before any fit: NIC plugin latency, LL128 over the network, SHARP.
  double net_latency_us = 0;
  bool ll128 = true;
  bool sharp = false;
};
const std::vector<FabricKind>& fabric_kinds();

/// A sample with its prepared group, ready to be forecast many times.
struct PreparedSample {
  const CollectiveSample* sample = nullptr;
  GroupPlacement group;
  double weight = 1;  ///< each curve (system, collective, ranks, algorithm) counts alike, sizes above 1 MiB twice
};

/// `cluster` is the topology of all samples.
std::vector<PreparedSample> prepare(const Cluster& cluster, const std::vector<const CollectiveSample*>& samples);

/// One topology with its samples.
struct Machine {
  Cluster cluster;
  std::string architecture;
  std::vector<PreparedSample> samples;
};

/// Weighted mean |log(predicted / measured)| under a tuning.
double log_error(const std::vector<Machine>& machines, const CollectiveTuning& tuning);

/// `start` gives what is not fitted: parameters of links that no sample uses. Sets `data` and `residual`.
CollectiveTuning fit_tuning(const std::vector<Machine>& machines, const CollectiveTuning& start,
                            int evaluations = 12000);

}  // namespace tracecast::accuracy
