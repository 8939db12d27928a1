/// \file
/// The ports of a scale-up domain, through which its GPUs reach the fabric.
///
/// A port is the NICs next to one GPU, or one NIC that several GPUs share: GPU i of g uses port floor(i p / g) of p. Ports of
/// one index in their host share a leaf of a rail-optimised fabric.
///
/// A message that leaves or arrives through the port of another GPU is forwarded over NVLink between that GPU and its own
/// (NCCL's PXN). A port without a working NIC is replaced by another one of its host (nics_in_use).
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "sim/base/integers.hpp"
#include "sim/network/cluster.hpp"

namespace tracecast {

class NicPorts {
 public:
  /// Requires that every host with NICs keeps one that works
  explicit NicPorts(const Cluster& cluster);

  int count() const { return count_; }  ///< of one domain; 0: no NICs
  int per_host() const { return per_host_; }
  int of_gpu(int gpu) const { return gpu * count_ / gpus_; }
  /// The first GPU next to a port.
  int gpu_next_to(int port) const { return ceil_div(port * gpus_, count_); }
  /// Index of the port within its host.
  int rail_of(int port) const { return port % per_host_; }

  /// The port that is used instead of `port`: itself if it works.
  int in_use(int node, int port) const { return at(node).in_use[static_cast<std::size_t>(port)]; }
  /// Its working NICs, numbered within the domain.
  const std::vector<int>& nics(int node, int port) const { return at(node).nics[static_cast<std::size_t>(port)]; }
  /// The line rate of its working NICs, all as fast as the slowest; 0: none.
  Bandwidth rate(int node, int port) const { return at(node).port_rates[static_cast<std::size_t>(port)]; }
  /// Line rate; 0: failed.
  Bandwidth nic_rate(int node, int nic) const { return at(node).nic_rates[static_cast<std::size_t>(nic)]; }
  /// True if all ports of all nodes have one rate.
  bool equal() const;

  /// Where a message of a GPU leaves or enters its node.
  struct Exit {
    int gpu = 0;   ///< next to the port; the GPU of the message unless it is forwarded
    int port = 0;  ///< that works
  };
  /// `port` -1: the one next to the GPU.   Requires ports
  Exit exit(GpuCoord coord, int port) const {
    const int own = of_gpu(coord.gpu);
    if (port < 0) port = own;
    return {port == own ? coord.gpu : gpu_next_to(port), in_use(coord.node, port)};
  }

 private:
  struct Domain {
    std::vector<Bandwidth> nic_rates;
    std::vector<Bandwidth> port_rates;
    std::vector<std::vector<int>> nics;  ///< [port]
    std::vector<int> in_use;             ///< [port]
  };
  Domain domain(const Cluster& cluster, int node) const;
  const Domain& at(int node) const {
    const auto other = others_.find(node);
    return other == others_.end() ? usual_ : other->second;
  }

  int gpus_;
  int count_ = 0;
  int per_host_ = 1;
  Domain usual_;
  std::map<int, Domain> others_;  ///< [node] with a slow or failed NIC of its own
};

}  // namespace tracecast
