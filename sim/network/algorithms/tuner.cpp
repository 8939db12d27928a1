#include "sim/network/algorithms/tuner.hpp"

#include <algorithm>
#include <cmath>

namespace tracecast {
namespace {

constexpr TunerLimits kVolta{{20, 20, 20}, {20, 20, 20}, {26.5, 18.5, 10}, {26.5, 18.5, 10}, 0, 39};
constexpr TunerLimits kAmpere{{20, 20, 20}, {20, 20, 20}, {24, 23.6, 17.8}, {24, 23.6, 17.8}, 0, 87.7};
constexpr TunerLimits kHopper{{36.7, 36.7, 36.7}, {36.7, 36.7, 29}, {38.7, 41.4, 36}, {0, 57.7, 45.5}, 0.85, 141};
constexpr TunerLimits kBlackwell{{40, 40, 40}, {55.6, 31.67, 20}, {70, 42.8, 24}, {0, 96, 80}, 0.74, 282};

}  // namespace

const TunerLimits& tuner_limits(NcclArchitecture architecture) {
  switch (architecture) {
    case NcclArchitecture::volta:
      return kVolta;
    case NcclArchitecture::ampere:
      return kAmpere;
    case NcclArchitecture::hopper:
      return kHopper;
    case NcclArchitecture::blackwell:
      return kBlackwell;
  }
  return kAmpere;
}

std::size_t nodes_index(int nodes) { return static_cast<std::size_t>(std::min(nodes, 3) - 1); }

double log2_floor(int n) { return std::floor(std::log2(static_cast<double>(n))); }

/// With one rank per node NCCL takes the tree's value for every algorithm.
double TunerContext::inter(const HopLatency& hop) const {
  const double network = comm.ranks_per_node == 1 ? kTreeHop.network[p] : hop.network[p];
  return network + comm.plugin_latency_us * (protocol == Protocol::simple ? 2 : 1);
}

double TunerContext::overhead() const {
  if (comm.nodes == 1) return 0;
  return (comm.amd_cpu ? 2.0 : 1.0) * (protocol == Protocol::simple ? 3 : 1);
}

double TunerContext::ll_limit() const {
  if (comm.nodes == 1) return limits().ll_one_node;
  if (comm.amd_cpu) return comm.nodes == 2 ? 22.5 : 19;
  return comm.nodes == 2 ? 39 : 20.4;
}

int TunerContext::rounds() const {
  if (is(Collective::all_reduce)) return 2 * (comm.ranks - 1);
  return is(Collective::broadcast) ? comm.ranks : comm.ranks - 1;
}

double nvls_channel_rate(const TunerContext& context) {
  const NcclGraph& graph = context.comm.nvls;
  const double ranks = context.comm.ranks_per_node;
  double rate = graph.intra * context.limits().nvls_efficiency * (graph.channels - 1) / graph.channels;
  rate *= context.is(Collective::all_reduce) ? 2 : (ranks - 1) / ranks;
  return rate;
}

}  // namespace tracecast
