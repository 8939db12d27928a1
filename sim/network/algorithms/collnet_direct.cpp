/// \file
/// CollNet direct: reduction in the network (SHARP), all ranks of a node exchange directly.
#include <algorithm>

#include "sim/network/algorithms/algorithm.hpp"
#include "sim/network/algorithms/flow_parts.hpp"
#include "sim/network/algorithms/tuner.hpp"

namespace tracecast {
namespace {

constexpr HopLatency kHop{{0, 0, 3.7}, {0, 0, 3.7}, {0, 0, 31.0}};

void tune(const TunerContext& c, NcclCost& cost) {
  const NcclGraph& graph = c.comm.collnet;
  if (c.protocol != Protocol::simple || graph.channels == 0 || c.comm.nodes == 1) return;
  const double ranks = c.comm.ranks_per_node;
  const bool new_gpu =
      c.comm.architecture == NcclArchitecture::hopper || c.comm.architecture == NcclArchitecture::blackwell;
  if (c.is(Collective::all_reduce)) {
    const double factor = (1 + ranks / graph.channels) / 2;
    cost.bandwidth = graph.channels * graph.intra / factor * (new_gpu ? 0.85 : 1) * 0.5;
  } else if (c.gathers()) {
    // NCCL counts 0.9 channels of the network for every rank; ranks that share a NIC have one together.
    const double network = 0.9 * graph.inter * std::min<double>(ranks, graph.channels);
    cost.bandwidth = std::min(ranks * graph.intra, network) * 0.5;
  } else {
    return;
  }
  cost.channels = graph.channels;
  cost.intra_us = 2 * (std::min(1.0, ranks - 1) * c.intra(kHop) + (ranks - 1) * 0.4);
  cost.intra_hops = ranks > 1 ? 2 : 0;
  cost.inter_hops = 1;
  cost.inter_us = c.inter(kHop);
}

}  // namespace

constinit const CollectiveAlgorithm kCollnetDirect{.value = Algorithm::collnet_direct,
                                                   .tune = tune,
                                                   .missing_hardware = needs_sharp,
                                                   .busiest_node = through_network,
                                                   .flows = network_reduction_flows};

}  // namespace tracecast
