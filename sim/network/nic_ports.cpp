#include "sim/network/nic_ports.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

namespace tracecast {

NicPorts::NicPorts(const Cluster& cluster) : gpus_(cluster.node.gpus) {
  if (cluster.node.nics == 0) return;
  const int hosts = cluster.node.hosts();
  count_ = std::min(cluster.node.nics * hosts, gpus_);
  per_host_ = std::max(1, count_ / hosts);
  usual_ = domain(cluster, kNoNode);
  for (const NetworkFaults::SlowNic& slow : cluster.faults.slow_nics)
    if (!others_.contains(slow.node)) others_[slow.node] = domain(cluster, slow.node);
}

NicPorts::Domain NicPorts::domain(const Cluster& cluster, int node) const {
  Domain result;
  for (const double speed : nic_speeds(cluster, node))
    result.nic_rates.push_back({std::llround(static_cast<double>(cluster.node.nic_rate.bytes_per_second) * speed)});
  std::vector<bool> works;  // [port] of one host
  for (int port = 0; port < count_; ++port) {
    std::vector<int> working;
    Bandwidth slowest = cluster.node.nic_rate;
    const auto [first, last] = nics_of_gpu(cluster.node, gpu_next_to(port));
    for (int nic = first; nic < last; ++nic) {
      const Bandwidth rate = result.nic_rates[static_cast<std::size_t>(nic)];
      if (rate.bytes_per_second == 0) continue;
      working.push_back(nic);
      slowest = std::min(slowest, rate);
    }
    works.push_back(!working.empty());
    result.port_rates.push_back({slowest.bytes_per_second * static_cast<std::int64_t>(working.size())});
    result.nics.push_back(std::move(working));
    if (static_cast<int>(works.size()) < per_host_) continue;
    const int first_port = port + 1 - per_host_;
    for (const int used : nics_in_use(works)) result.in_use.push_back(first_port + used);
    works.clear();
  }
  return result;
}

bool NicPorts::equal() const {
  const std::vector<Bandwidth>& rates = usual_.port_rates;
  return others_.empty() && std::adjacent_find(rates.begin(), rates.end(), std::not_equal_to()) == rates.end();
}

}  // namespace tracecast
