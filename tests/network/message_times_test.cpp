#include "sim/network/message_times.hpp"

#include <catch2/catch.hpp>

#include "sim/base/random.hpp"
#include "tests/network/small_clusters.hpp"

namespace tracecast {
namespace {

using namespace literals;

TEST_CASE("Messages: equal ranks take latency and bytes of every round", "[oracle][network]") {
  const MessageCost cost{2_us, 50_GBps};
  for (const int ranks : {2, 8, 64, 1024}) {
    const FlowGroup group = make_flow_group(ClusterLinks(small_cluster(ranks), "Hopper"), range(ranks));
    const std::vector<Duration> starts(static_cast<std::size_t>(ranks), 3_us);
    const Bytes size{std::int64_t{1} << 30};
    const Duration moving = Bytes{2 * (size.count - size.count / ranks)} / cost.rate;
    int rounds = 0;
    for (int power = 1; power < ranks; power *= 2) rounds += 2;
    for (const Duration end : message_times(halving_doubling_all_reduce(size, group), cost, starts)) {
      const Duration expected = 3_us + rounds * 2_us + moving;
      CHECK(std::abs(end.picoseconds - expected.picoseconds) <= rounds);  // each round is rounded to a picosecond
    }
  }
}

TEST_CASE("Messages: one late rank makes all of them late, and nobody ends before it began", "[property][network]") {
  const MessageCost cost{2_us, 50_GBps};
  const FlowGroup group = make_flow_group(ClusterLinks(small_cluster(64), "Hopper"), range(64));
  const FlowSchedule schedules[] = {halving_doubling_all_reduce({1 << 20}, group),
                                    collective_flows({Collective::all_reduce, {1 << 20}}, Algorithm::ring, group),
                                    collective_flows({Collective::all_to_all, {1 << 20}}, Algorithm::direct, group)};
  RandomStream random(31, 0, 0);
  for (const FlowSchedule& schedule : schedules) {
    std::vector<Duration> starts(64);
    const std::vector<Duration> together = message_times(schedule, cost, starts);
    const std::size_t late = random.below(64);
    starts[late] = 1_ms;
    const std::vector<Duration> ends = message_times(schedule, cost, starts);
    for (std::size_t rank = 0; rank < 64; ++rank) {
      CHECK(ends[rank] > 1_ms);
      CHECK(ends[rank] >= together[rank]);
      CHECK(ends[rank] <= 1_ms + together[rank]);
    }
  }
}

TEST_CASE("Messages: two in one round leave a NIC one after the other", "[oracle][network]") {
  const FlowSchedule schedule{{{{{0, 1, -1, 50_KiB}, {0, 2, -1, 50_KiB}}, 1}}};
  const MessageCost cost{1_us, {51'200'000'000}};
  const std::vector<Duration> ends = message_times(schedule, cost, std::vector<Duration>(3));
  CHECK(ends[0] == 2_us);
  CHECK(ends[1] == 2_us);
  CHECK(ends[2] == 3_us);
}

}  // namespace
}  // namespace tracecast
