/// \file
/// Switch ports and cables that a machine has between its nodes: what a network costs.
///
/// A NIC has a cable to a port of a leaf. The uplinks of a tier carry the rate below it divided by its oversubscription, and
/// each has a port at both ends:
///
///   cables  r (1 + 1/o1 + 1/(o1 o2) + …)     ports  r (1 + 2/o1 + 2/(o1 o2) + …)     per GPU
///   r   line rate of all NICs of a host / its GPUs; o: FabricTier::oversubscription, over the tiers that this size needs
///
/// A dragonfly or a torus is taken as its tiers, a fabric of unknown structure as a tree of switches of 64 ports without
/// oversubscription. Leaves out: the networks of storage and management, NICs (part of the node),
/// ports of switches that stay empty.
/// Source: docs/references.md#fat-tree; 48 switches of 64 ports for 1,024 NICs in two tiers: docs/references.md#network-prices
#pragma once

#include "sim/network/cluster.hpp"

namespace tracecast {

/// For one GPU, in Gb/s of rate.
struct NetworkHardware {
  double ports = 0;
  double cables = 0;
  bool operator==(const NetworkHardware&) const = default;
};

/// None for a job inside one scale-up domain.
NetworkHardware network_hardware(const Cluster& cluster);

}  // namespace tracecast
