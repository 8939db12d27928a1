#include "sim/network/measured_network.hpp"

#include <cmath>

#include <catch2/catch.hpp>

#include "tests/network/clusters.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

/// A model that says one second to everything, to be told from what was measured.
class OneSecond final : public NetworkModel {
 public:
  CollectiveCost cost(const CollectiveCall&, const GroupPlacement&) const override {
    CollectiveCost cost;
    cost.duration = 1_s;
    return cost;
  }
};

std::unique_ptr<NetworkModel> two_points() {
  return with_measurements(std::make_unique<OneSecond>(), {{Collective::all_reduce, 2, 1_KiB, 1e-6, 0.1, 5},
                                                           {Collective::all_reduce, 2, 64_KiB, 8e-6, 0.2, 5},
                                                           {Collective::send_recv, 2, 1_KiB, 3e-6, 0.1, 5}});
}

GroupPlacement group(int ranks, int nodes = 1) {
  GroupPlacement placement;
  placement.ranks = ranks;
  placement.nodes = nodes;
  placement.ranks_per_node = ranks / nodes;
  return placement;
}

CollectiveCall all_reduce(Bytes size) {
  return {Collective::all_reduce, size, Algorithm::automatic, Protocol::automatic};
}

}  // namespace

TEST_CASE("measured network: a measured size is what was measured", "[network]") {
  const CollectiveCost cost = two_points()->cost(all_reduce(64_KiB), group(2));
  CHECK(cost.duration == 8_us);
  CHECK(cost.spread == 0.2);
  CHECK(cost.provenance == Provenance::measured);
}

TEST_CASE("measured network: between sizes the logarithms are linear, beyond them latency and bandwidth hold",
          "[oracle][network]") {
  const auto network = two_points();
  // 8 KiB lies halfway from 1 to 64 KiB in powers of two, so its time is the geometric mean of 1 and 8 us.
  const CollectiveCost between = network->cost(all_reduce(8_KiB), group(2));
  CHECK(seconds(between.duration) == Approx(1e-6 * std::sqrt(8.0)));
  CHECK(between.provenance == Provenance::interpolated);
  CHECK(network->cost(all_reduce(8_B), group(2)).duration == 1_us);
  CHECK(network->cost(all_reduce(256_KiB), group(2)).duration == 32_us);
}

TEST_CASE("measured network: what was not measured is asked of the model", "[network]") {
  const auto network = two_points();
  CHECK(network->cost(all_reduce(1_KiB), group(4)).duration == 1_s);
  CHECK(network->cost(all_reduce(1_KiB), group(2, 2)).duration == 1_s);
  CHECK(network->cost({Collective::all_gather, 1_KiB, Algorithm::automatic, Protocol::automatic}, group(2)).duration ==
        1_s);
  CHECK(network->cost({Collective::all_reduce, 1_KiB, Algorithm::ring, Protocol::automatic}, group(2)).duration == 1_s);
  // A message has two ends, however many ranks its group has.
  CHECK(network->cost({Collective::send_recv, 1_KiB, Algorithm::automatic, Protocol::automatic}, group(4)).duration ==
        3_us);
}

TEST_CASE("measured network: between hosts, a time holds for even groups with their own NICs and no slow tier",
          "[network]") {
  const Cluster cluster = dgx_h100(16);
  const auto network = with_measurements(
      std::make_unique<OneSecond>(),
      {{Collective::all_reduce, 16, 1_KiB, 2e-6, 0.1, 5, 2, network_of_host(cluster.node)}}, &cluster);
  const auto duration = [&](int ranks_per_node, double nics, double oversubscription) {
    GroupPlacement placement = group(16, 2);
    placement.ranks_per_node = ranks_per_node;
    placement.nics = nics;
    placement.oversubscription = oversubscription;
    return network->cost(all_reduce(1_KiB), placement).duration;
  };
  CHECK(duration(8, 8, 1) == 2_us);
  CHECK(duration(9, 9, 1) == 1_s);  // 9 on one host, 7 on the other
  CHECK(duration(8, 4, 1) == 1_s);
  CHECK(duration(8, 8, 2) == 1_s);
}
