#include "sim/network/measured_network.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace tracecast {
namespace {

/// Measurements of one collective on one number of ranks, by size.
using Curve = std::map<std::int64_t, MeasuredCollective>;

CollectiveCost cost_of(double seconds, double spread, Provenance provenance) {
  CollectiveCost cost;
  cost.duration = from_seconds(seconds);
  cost.spread = spread;
  cost.provenance = provenance;
  return cost;
}

CollectiveCost read_off(const Curve& curve, std::int64_t size) {
  const auto above = curve.lower_bound(size);
  if (above != curve.end() && above->first == size)
    return cost_of(above->second.seconds, above->second.spread, Provenance::measured);
  if (above == curve.begin()) return cost_of(above->second.seconds, above->second.spread, Provenance::interpolated);
  const MeasuredCollective& below = std::prev(above)->second;
  const double ratio = static_cast<double>(size) / static_cast<double>(below.size.count);
  if (above == curve.end()) return cost_of(below.seconds * ratio, below.spread, Provenance::interpolated);
  const double share =
      std::log(ratio) / std::log(static_cast<double>(above->first) / static_cast<double>(below.size.count));
  return cost_of(below.seconds * std::pow(above->second.seconds / below.seconds, share),
                 std::max(below.spread, above->second.spread), Provenance::interpolated);
}

/// Measurements do not report what the library chose, which the flows of the collective follow from.
CollectiveCost with_algorithm(CollectiveCost measured, const CollectiveCost& model) {
  measured.latency = std::min(model.latency, measured.duration);
  measured.algorithm = model.algorithm;
  measured.protocol = model.protocol;
  measured.channels = model.channels;
  return measured;
}

class MeasuredNetwork final : public NetworkModel {
 public:
  MeasuredNetwork(std::unique_ptr<NetworkModel> model, std::vector<MeasuredCollective> measured)
      : model_(std::move(model)) {
    for (const MeasuredCollective& each : measured)
      curves_[{each.collective, each.ranks}].insert_or_assign(each.size.count, each);
  }

  CollectiveCost cost(const CollectiveCall& call, const GroupPlacement& group) const override {
    const bool free_choice = call.algorithm == Algorithm::automatic && call.protocol == Protocol::automatic;
    const auto curve = curves_.find({call.collective, call.collective == Collective::send_recv ? 2 : group.ranks});
    if (group.ranks <= 1 || group.nodes > 1 || !free_choice || curve == curves_.end()) return model_->cost(call, group);
    return with_algorithm(read_off(curve->second, call.size.count), model_->cost(call, group));
  }

 private:
  std::unique_ptr<NetworkModel> model_;
  std::map<std::pair<Collective, int>, Curve> curves_;
};

}  // namespace

std::unique_ptr<NetworkModel> with_measurements(std::unique_ptr<NetworkModel> model,
                                                std::vector<MeasuredCollective> measured) {
  return std::make_unique<MeasuredNetwork>(std::move(model), std::move(measured));
}

std::unique_ptr<NetworkModel> make_network(const Cluster& cluster, const Profile& profile) {
  std::unique_ptr<NetworkModel> model = make_analytic_network(cluster, profile.architecture);
  if (profile.measured_collectives.empty()) return model;
  return with_measurements(std::move(model), profile.measured_collectives);
}

}  // namespace tracecast
