#include "sim/network/parameter_server.hpp"

#include <algorithm>

namespace tracecast {
namespace {

double bytes_per_second(Bandwidth rate) { return static_cast<double>(rate.bytes_per_second); }
double bytes(Bytes size) { return static_cast<double>(size.count); }

}  // namespace

ParameterServers parameter_servers(const Cluster& cluster, const GroupPlacement& group, int servers) {
  ParameterServers setup;
  setup.workers = group.ranks;
  setup.servers = servers;
  if (group.nodes > 1) {
    setup.server_rate = cluster.node.nics * bytes_per_second(cluster.node.nic_rate);
    setup.worker_rate = group.nics_per_rank * bytes_per_second(cluster.node.nic_rate);
  } else {
    const bool pcie = cluster.node.link == IntraLink::pcie || cluster.node.link == IntraLink::none;
    setup.server_rate = setup.worker_rate = bytes_per_second(pcie ? cluster.node.pcie : cluster.node.gpu_link);
  }
  return setup;
}

double lone_push_s(const ParameterServers& setup, Bytes size) {
  return bytes(size) / std::min(setup.worker_rate, setup.servers * setup.server_rate);
}

double service_s(const ParameterServers& setup, Bytes size) {
  return setup.workers * bytes(size) / (setup.servers * setup.server_rate);
}

double push_s(const ParameterServers& setup, Bytes size) {
  return std::max(service_s(setup, size), lone_push_s(setup, size));
}

}  // namespace tracecast
