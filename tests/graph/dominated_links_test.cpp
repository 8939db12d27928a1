#include "sim/graph/dominated_links.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/base/random.hpp"
#include "sim/network/fluid.hpp"
#include "tests/network/small_clusters.hpp"
#include "tests/support/transfer_ends.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

constexpr std::int32_t kGpuOut = 0;    // "node 0 gpu 0 out"
constexpr std::int32_t kPortOut = 16;  // "node 0 NIC 0 out", after the links of 8 GPUs

FoldedTransfer message(std::vector<LinkWeight> loads) { return {0, 0, {1_us, 1_ms, 40_GBps, std::move(loads)}}; }

std::vector<LinkWeight> loads_left(std::vector<std::vector<LinkWeight>> transfers, const ClusterLinks& links) {
  FoldedLoads loads;
  for (auto& each : transfers) loads.messages.push_back(message(std::move(each)));
  drop_dominated_links(loads, links);
  return loads.messages.front().shape.loads;
}

/// When each of the transfers ends, which start one after the other.
std::vector<Duration> ends_of(const FoldedLoads& loads, const ClusterLinks& links) {
  FluidNetwork network(links);
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(loads.messages.size()); ++i)
    network.start(i, network.add_kind(loads.messages[static_cast<std::size_t>(i)].shape), i * 50_us);
  return test::ends_of_transfers(network, loads.messages.size());
}

}  // namespace

TEST_CASE("A link that is never fuller than another one of all its transfers is dropped", "[graph][folding]") {
  const ClusterLinks links(small_cluster(64), "Hopper");
  REQUIRE(links.name(kGpuOut) == "node 0 gpu 0 out");
  REQUIRE(links.capacity(kGpuOut) > links.capacity(kPortOut));
  const LinkWeight gpu{kGpuOut, kWeightOne};
  const LinkWeight port{kPortOut, kWeightOne};
  CHECK(loads_left({{gpu, port}, {gpu, port}}, links) == std::vector{port});
  SECTION("not if one of its transfers does not cross the other") {
    CHECK(loads_left({{gpu, port}, {gpu}}, links) == std::vector{gpu, port});
  }
  SECTION("not if one of its transfers loads it more") {
    const LinkWeight heavy{kGpuOut, 100 * kWeightOne};
    CHECK(loads_left({{gpu, port}, {heavy, port}}, links) == std::vector{gpu, port});
  }
  SECTION("of equal links one stays") {
    const LinkWeight other{kPortOut + 1, kWeightOne};
    CHECK(loads_left({{port, other}, {port, other}}, links) == std::vector{other});
  }
}

TEST_CASE("Without dominated links all transfers end at the same picosecond", "[graph][folding][property]") {
  const ClusterLinks links(small_cluster(64), "Hopper");
  RandomStream random(3, 0, 0);
  std::size_t dropped = 0;
  for (int run = 0; run < 200; ++run) {
    FoldedLoads loads;
    while (loads.messages.size() < 24) {
      const auto from = static_cast<int>(random.below(16));
      const int to = 16 + static_cast<int>(random.below(48));
      LinkPath path;
      links.append_route(from, to, -1, path);
      std::vector<LinkWeight> weights;
      for (const std::int32_t link : path)
        weights.push_back({link, kWeightOne / 4 * static_cast<std::int64_t>(1 + random.below(4))});
      std::sort(weights.begin(), weights.end());
      loads.messages.push_back(message(std::move(weights)));
    }
    FoldedLoads fewer = loads;
    drop_dominated_links(fewer, links);
    for (std::size_t i = 0; i < loads.messages.size(); ++i)
      dropped += loads.messages[i].shape.loads.size() - fewer.messages[i].shape.loads.size();
    CAPTURE(run);
    CHECK(ends_of(loads, links) == ends_of(fewer, links));
  }
  CHECK(dropped > 200);
}
