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

/// 10 us of latency and 1 GB/s.
class LatencyAndBandwidth final : public NetworkModel {
 public:
  CollectiveCost cost(const CollectiveCall& call, const GroupPlacement&) const override {
    CollectiveCost cost;
    cost.latency = 10_us;
    cost.duration = cost.latency + Duration{call.size.count * 1000};
    cost.spread = 0.05;
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

TEST_CASE("measured network: between sizes the logarithms are linear", "[oracle][network]") {
  const auto network = two_points();
  // 8 KiB lies halfway from 1 to 64 KiB in powers of two, so its time is the geometric mean of 1 and 8 us.
  const CollectiveCost between = network->cost(all_reduce(8_KiB), group(2));
  CHECK(seconds(between.duration) == Approx(1e-6 * std::sqrt(8.0)));
  CHECK(between.provenance == Provenance::interpolated);
}

TEST_CASE(
    "measured network: beyond the measured sizes the model holds, scaled where the same part of its time dominates",
    "[oracle][network]") {
  // The model says 20 us for 10 kB, half of it latency; measured were 40 us.
  const auto network = with_measurements(std::make_unique<LatencyAndBandwidth>(),
                                         {{Collective::all_reduce, 2, Bytes{10'000}, 40e-6, 0.3, 5}});
  const auto time_us = [&](std::int64_t bytes) {
    return seconds(network->cost(all_reduce(Bytes{bytes}), group(2)).duration) * 1e6;
  };
  CHECK(time_us(10'000) == Approx(40));
  CHECK(time_us(10'001) == Approx(40).epsilon(1e-3));
  CHECK(time_us(9'999) == Approx(40).epsilon(1e-3));
  CHECK(time_us(90'000) == Approx(100 * 1.6));  // 10 % latency: 0.4 less than half
  CHECK(time_us(2'500) == Approx(12.5 * 1.7));  // 80 % latency
  const CollectiveCost beyond = network->cost(all_reduce(Bytes{90'000}), group(2));
  CHECK(beyond.provenance == Provenance::analytic);
  CHECK(beyond.spread == 0.05);
}

TEST_CASE("measured network: a single small or large size does not set the time of the others", "[network]") {
  const auto network = [](std::int64_t bytes, double seconds) {
    return with_measurements(std::make_unique<LatencyAndBandwidth>(),
                             {{Collective::all_reduce, 2, Bytes{bytes}, seconds, 0.1, 5}});
  };
  // 1 GB takes 1 s in the model. 100 B took 20 us instead of 10.1 us; at their rate 1 GB would take 200 s.
  CHECK(seconds(network(100, 20e-6)->cost(all_reduce(Bytes{1'000'000'000}), group(2)).duration) ==
        Approx(1).epsilon(0.02));
  // 1 GB took 2 s instead of 1 s: nothing about 8 B.
  CHECK(seconds(network(1'000'000'000, 2)->cost(all_reduce(8_B), group(2)).duration) == Approx(10e-6).epsilon(0.02));
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

TEST_CASE("measured network: a message takes the time of one that many ranks sent at once", "[network]") {
  const auto network =
      with_measurements(std::make_unique<OneSecond>(), {{Collective::send_recv, 8, 1_KiB, 3e-6, 0.1, 5}});
  const CollectiveCall message{Collective::send_recv, 1_KiB, Algorithm::automatic, Protocol::automatic};
  CHECK(network->cost(message, group(2)).duration == 3_us);
  CHECK(network->cost(message, group(8)).duration == 3_us);
  CHECK(network->cost(message, group(2, 2)).duration == 1_s);  // measured on one host
  const MeasuredCollective of_two{Collective::send_recv, 2, 1_KiB, 2e-6, 0.1, 5},
      of_eight{Collective::send_recv, 8, 1_KiB, 3e-6, 0.1, 5};
  for (const auto& both : {std::vector{of_two, of_eight}, std::vector{of_eight, of_two}})
    CHECK(with_measurements(std::make_unique<OneSecond>(), both)->cost(message, group(2)).duration == 3_us);
}

TEST_CASE("measured network: on one host, a time holds for links of the rate that it was measured on", "[network]") {
  Cluster cluster = dgx_h100(8);
  const Bandwidth link = cluster.node.gpu_link;
  const auto duration = [&cluster](Bandwidth measured_on) {
    return with_measurements(std::make_unique<OneSecond>(),
                             {{Collective::all_reduce, 8, 1_KiB, 2e-6, 0.1, 5, 1, measured_on}}, &cluster)
        ->cost(all_reduce(1_KiB), group(8))
        .duration;
  };
  CHECK(duration(link) == 2_us);
  cluster.node.gpu_link = {25'000'000'000};
  CHECK(duration(link) == 1_s);
  CHECK(duration({}) == 2_us);      // of a profile that does not say
  cluster.faults.lost_rails = {0};  // concerns measurements between hosts only
  CHECK(duration(cluster.node.gpu_link) == 2_us);
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
