#include "sim/network/measured_network.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace tracecast {
namespace {

/// In a step an all-to-all loads uplinks as links, together with what else is there. Its cost alone has what neighbours send.
class SharedUplinks final : public NetworkModel {
 public:
  explicit SharedUplinks(std::unique_ptr<NetworkModel> model) : model_(std::move(model)) {}
  CollectiveCost cost(const CollectiveCall& call, const GroupPlacement& group) const override {
    GroupPlacement placed = group;
    placed.all_to_all_slowdown = group.uplink_slowdown();
    return model_->cost(call, placed);
  }

 private:
  std::unique_ptr<NetworkModel> model_;
};

/// Measurements of one collective on one number of ranks, by size.
using Curve = std::map<std::int64_t, MeasuredCollective>;
using CurveKey = std::tuple<Collective, int, int>;  ///< ranks, hosts

/// A message has two ends, however many ranks sent one at the same time.
CurveKey curve_key(Collective collective, int ranks, int nodes) {
  const bool message = collective == Collective::send_recv;
  return {collective, message ? 2 : ranks, message ? std::min(2, nodes) : nodes};
}

CollectiveCost cost_of(double seconds, double spread, Provenance provenance) {
  CollectiveCost cost;
  cost.duration = from_seconds(seconds);
  cost.spread = spread;
  cost.provenance = provenance;
  return cost;
}

/// Requires a size from the smallest to the largest measured one.
CollectiveCost read_off(const Curve& curve, std::int64_t size) {
  const auto above = curve.lower_bound(size);
  if (above->first == size) return cost_of(above->second.seconds, above->second.spread, Provenance::measured);
  const MeasuredCollective& below = std::prev(above)->second;
  const double share = std::log(static_cast<double>(size) / static_cast<double>(below.size.count)) /
                       std::log(static_cast<double>(above->first) / static_cast<double>(below.size.count));
  return cost_of(below.seconds * std::pow(above->second.seconds / below.seconds, share),
                 std::max(below.spread, above->second.spread), Provenance::interpolated);
}

double latency_share(const CollectiveCost& cost) { return seconds(cost.latency) / seconds(cost.duration); }

/// The same call of another size.
CollectiveCall resized(CollectiveCall call, Bytes size) {
  const double ratio =
      static_cast<double>(size.count) / static_cast<double>(std::max<std::int64_t>(1, call.size.count));
  call.forwarded.count = std::llround(static_cast<double>(call.forwarded.count) * ratio);
  call.size = size;
  return call;
}

/// Beyond the measured sizes: the model, corrected by the measurement at that end (measured_network.hpp).
CollectiveCost extrapolate(const NetworkModel& model, const MeasuredCollective& end, const CollectiveCall& call,
                           const GroupPlacement& group) {
  CollectiveCost cost = model.cost(call, group);
  const CollectiveCost at_end = model.cost(resized(call, end.size), group);
  if (cost.duration <= Duration{} || at_end.duration <= Duration{}) return cost;
  const double alike = 1 - std::abs(latency_share(cost) - latency_share(at_end));
  cost.duration = from_seconds(seconds(cost.duration) * (1 + (end.seconds / seconds(at_end.duration) - 1) * alike));
  cost.latency = std::min(cost.latency, cost.duration);
  return cost;
}

/// Measurements do not report what the library chose, which the flows of the collective follow from.
CollectiveCost with_algorithm(CollectiveCost measured, const CollectiveCost& model) {
  measured.latency = std::min(model.latency, measured.duration);
  measured.algorithm = model.algorithm;
  measured.protocol = model.protocol;
  measured.channels = model.channels;
  return measured;
}

/// The hosts of a cluster, as far as measurements depend on them.
struct Hosts {
  Bandwidth link;           ///< of a GPU inside its host; 0: measurements on one host are used for any
  Bandwidth network;        ///< 0: measurements between hosts are not used
  double nics_per_gpu = 0;  ///< next to each
};

Hosts hosts_of(const Cluster* cluster) {
  if (cluster == nullptr) return {};
  Hosts hosts{.link = link_of_gpu(cluster->node), .network = {}};
  if (cluster->faults != NetworkFaults{}) return hosts;
  hosts.network = network_of_host(cluster->node);
  hosts.nics_per_gpu = static_cast<double>(cluster->node.nics) / cluster->node.gpus_per_host;
  return hosts;
}

bool same_rate(Bandwidth a, Bandwidth b) {
  const auto x = static_cast<double>(a.bytes_per_second);
  const auto y = static_cast<double>(b.bytes_per_second);
  return std::abs(x - y) <= 0.01 * std::max(x, y);
}

/// Of two measurements of one size the slower: messages among eight ranks and between two are one curve.
void keep_slowest(Curve& curve, const MeasuredCollective& measured) {
  const auto [known, added] = curve.try_emplace(measured.size.count, measured);
  if (!added && measured.seconds > known->second.seconds) known->second = measured;
}

class MeasuredNetwork final : public NetworkModel {
 public:
  MeasuredNetwork(std::unique_ptr<NetworkModel> model, const std::vector<MeasuredCollective>& measured, Hosts hosts)
      : model_(std::move(model)), hosts_(hosts) {
    for (const MeasuredCollective& each : measured)
      if (each.nodes == 1 ? is_of_link(each, hosts.link)
                          : hosts.network.bytes_per_second > 0 && same_rate(each.network, hosts.network))
        keep_slowest(curves_[curve_key(each.collective, each.ranks, each.nodes)], each);
  }

  CollectiveCost cost(const CollectiveCall& call, const GroupPlacement& group) const override {
    const bool free_choice = call.algorithm == Algorithm::automatic && call.protocol == Protocol::automatic;
    if (group.ranks <= 1 || !free_choice || !measurable(group)) return model_->cost(call, group);
    const auto curve = curves_.find(curve_key(call.collective, group.ranks, group.nodes));
    if (curve == curves_.end()) return model_->cost(call, group);
    const MeasuredCollective& smallest = curve->second.begin()->second;
    const MeasuredCollective& largest = curve->second.rbegin()->second;
    if (call.size < smallest.size) return extrapolate(*model_, smallest, call, group);
    if (call.size > largest.size) return extrapolate(*model_, largest, call, group);
    return with_algorithm(read_off(curve->second, call.size.count), model_->cost(call, group));
  }

 private:
  /// A run of nccl-tests has the machine to itself.
  bool measurable(const GroupPlacement& group) const {
    if (group.nodes <= 1) return true;
    const double own_nics = std::max(1.0, hosts_.nics_per_gpu * group.ranks_per_node);
    return group.ranks_per_node * group.nodes == group.ranks && group.oversubscription <= 1 &&
           group.nics >= own_nics - 1e-9;
  }

  std::unique_ptr<NetworkModel> model_;
  Hosts hosts_;
  std::map<CurveKey, Curve> curves_;
};

}  // namespace

Bandwidth network_of_host(const NodeSpec& node) {
  return node.gpus == node.gpus_per_host ? Bandwidth{node.nic_rate.bytes_per_second * node.nics} : Bandwidth{};
}

bool is_of_link(const MeasuredCollective& measured, Bandwidth link) {
  return measured.network.bytes_per_second == 0 || link.bytes_per_second == 0 || same_rate(measured.network, link);
}

Bandwidth link_of_gpu(const NodeSpec& node) {
  return node.link == IntraLink::pcie || node.link == IntraLink::none ? node.pcie : node.gpu_link;
}

std::unique_ptr<NetworkModel> with_measurements(std::unique_ptr<NetworkModel> model,
                                                std::vector<MeasuredCollective> measured, const Cluster* cluster) {
  return std::make_unique<MeasuredNetwork>(std::move(model), measured, hosts_of(cluster));
}

std::unique_ptr<NetworkModel> make_network(const Cluster& cluster, const Profile& profile) {
  std::unique_ptr<NetworkModel> model =
      std::make_unique<SharedUplinks>(make_analytic_network(cluster, profile.architecture));
  if (profile.measured_collectives.empty()) return model;
  return with_measurements(std::move(model), profile.measured_collectives, &cluster);
}

}  // namespace tracecast
