#include "sim/network/collective_flows.hpp"

#include <map>
#include <set>

#include <catch2/catch.hpp>

#include "tests/network/small_clusters.hpp"

namespace tracecast {
namespace {

using namespace literals;

struct Case {
  Collective collective;
  Algorithm algorithm;
};

FlowSchedule schedule_of(const Case& each, Bytes size, const FlowGroup& group) {
  return collective_flows({each.collective, size, each.algorithm, Protocol::simple}, each.algorithm, group);
}

/// Bytes that each end sends and receives in all.
struct Traffic {
  std::vector<std::int64_t> sent;
  std::vector<std::int64_t> received;
};

Traffic traffic(const FlowSchedule& schedule, const FlowGroup& group) {
  Traffic sum;
  sum.sent.resize(static_cast<std::size_t>(group.network()) + 1);
  sum.received.resize(sum.sent.size());
  schedule.each_round([&](const Round& round) {
    for (const Flow& flow : round.flows) {
      sum.sent[static_cast<std::size_t>(flow.from)] += flow.size.count * round.count;
      sum.received[static_cast<std::size_t>(flow.to)] += flow.size.count * round.count;
    }
  });
  return sum;
}

/// Who knows of whom at the end: what an end has in its hands at the beginning of a round goes along with its flows. The
/// flows of a pipeline, one round, move many segments one behind the other: its round is repeated.
std::vector<std::set<std::int32_t>> knowledge(const FlowSchedule& schedule, const FlowGroup& group) {
  std::vector<std::set<std::int32_t>> knows(static_cast<std::size_t>(group.network()) + 1);
  for (std::int32_t rank = 0; rank < group.ranks(); ++rank) knows[static_cast<std::size_t>(rank)] = {rank};
  schedule.each_round([&](const Round& round) {
    const std::int64_t repeats = schedule.round_count() == 1 ? 2 * group.network() : round.count;
    for (std::int64_t repeat = 0; repeat < repeats; ++repeat) {
      const auto before = knows;
      for (const Flow& flow : round.flows)
        knows[static_cast<std::size_t>(flow.to)].insert(before[static_cast<std::size_t>(flow.from)].begin(),
                                                        before[static_cast<std::size_t>(flow.from)].end());
    }
  });
  return knows;
}

FlowGroup group_of(int ranks, int stride = 1) {
  const Cluster cluster = small_cluster((ranks - 1) * stride + 1);
  return make_flow_group(ClusterLinks(cluster, "Hopper"), range(ranks, 0, stride));
}

const std::vector<Case> kEverybodyKnows{{Collective::all_reduce, Algorithm::ring},
                                        {Collective::all_reduce, Algorithm::tree},
                                        {Collective::all_reduce, Algorithm::nvls_tree},
                                        {Collective::all_reduce, Algorithm::collnet_direct},
                                        {Collective::all_reduce, Algorithm::collnet_chain},
                                        {Collective::all_gather, Algorithm::ring},
                                        {Collective::all_gather, Algorithm::collnet_direct},
                                        {Collective::reduce_scatter, Algorithm::ring},
                                        {Collective::reduce_scatter, Algorithm::collnet_direct},
                                        {Collective::all_to_all, Algorithm::direct}};

TEST_CASE("After a collective every rank has something of every other", "[property][network]") {
  for (const Case& each : kEverybodyKnows)
    for (const int ranks : {2, 8, 16, 24, 56, 64}) {
      INFO(to_string(each.collective) << " " << to_string(each.algorithm) << " on " << ranks);
      const FlowGroup group = group_of(ranks);
      const auto knows = knowledge(schedule_of(each, {64 << 20}, group), group);
      for (std::int32_t rank = 0; rank < ranks; ++rank)
        CHECK(knows[static_cast<std::size_t>(rank)].size() == static_cast<std::size_t>(ranks));
    }
  for (const int ranks : {2, 3, 8, 13, 16, 31}) {  // one per node
    INFO("PAT on " << ranks);
    const FlowGroup group = group_of(ranks, 8);
    for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter}) {
      const auto knows = knowledge(schedule_of({collective, Algorithm::pat}, {64 << 20}, group), group);
      for (std::int32_t rank = 0; rank < ranks; ++rank)
        CHECK(knows[static_cast<std::size_t>(rank)].size() == static_cast<std::size_t>(ranks));
    }
  }
}

TEST_CASE("A broadcast reaches everybody from rank 0", "[property][network]") {
  for (const int ranks : {2, 8, 24, 64}) {
    const FlowGroup group = group_of(ranks);
    const auto knows = knowledge(schedule_of({Collective::broadcast, Algorithm::ring}, {1 << 20}, group), group);
    for (std::int32_t rank = 0; rank < ranks; ++rank) CHECK(knows[static_cast<std::size_t>(rank)].count(0) == 1);
  }
}

TEST_CASE("Bytes that each rank sends and receives, by the formulas of the algorithms", "[oracle][network]") {
  const std::int64_t size = std::int64_t{3} << 30;  // divisible by all group and channel counts below
  for (const int ranks : {8, 16, 64, 96}) {
    INFO(ranks << " ranks");
    const FlowGroup group = group_of(ranks);
    const auto check = [&](const Case& each, std::int64_t bytes) {
      INFO(to_string(each.collective) << " " << to_string(each.algorithm));
      const Traffic sum = traffic(schedule_of(each, {size}, group), group);
      for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
        CHECK(sum.sent[rank] == bytes);
        CHECK(sum.received[rank] == bytes);
      }
    };
    check({Collective::all_reduce, Algorithm::ring}, size / ranks * 2 * (ranks - 1));
    check({Collective::all_gather, Algorithm::ring}, size / ranks * (ranks - 1));
    check({Collective::reduce_scatter, Algorithm::ring}, size / ranks * (ranks - 1));
    check({Collective::all_to_all, Algorithm::direct}, size / ranks * (ranks - 1));
    if (ranks == 8) check({Collective::all_reduce, Algorithm::nvls}, size + size / 8);  // S (1 + 1/n)
  }
  const FlowGroup nodes = group_of(32, 8);
  for (const Collective collective : {Collective::all_gather, Collective::reduce_scatter}) {
    const Traffic sum = traffic(schedule_of({collective, Algorithm::pat}, {size}, nodes), nodes);
    for (std::size_t rank = 0; rank < 32; ++rank) CHECK(sum.sent[rank] == size / 32 * 31);
  }
}

TEST_CASE("send_recv: every rank sends to the next; a message goes one way", "[oracle][network]") {
  for (const int ranks : {2, 3, 8, 16}) {
    const FlowGroup group = group_of(ranks);
    const FlowSchedule ring = collective_flows({Collective::send_recv, 1_MiB}, Algorithm::direct, group);
    CHECK(ring.critical() == 1_MiB);
    const Traffic all = traffic(ring, group);
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
      CHECK(all.sent[rank] == (1_MiB).count);
      CHECK(all.received[rank] == (1_MiB).count);
    }
  }
  const FlowGroup pair = group_of(2);
  const Traffic message = traffic(message_flows(1_MiB), pair);
  CHECK(message.sent[0] == (1_MiB).count);
  CHECK(message.sent[1] == 0);
  CHECK(message.received[1] == (1_MiB).count);
}

TEST_CASE("Messages to another rail change it inside the sender's node", "[network]") {
  const Cluster cluster = small_cluster(32);
  const ClusterLinks links(cluster, "Hopper");
  const std::vector<int> neighbours{7, 8};
  const FlowGroup all = make_flow_group(links, range(32));
  const FlowGroup pair = make_flow_group(links, neighbours);
  const auto check = [&](const FlowSchedule& schedule, const FlowGroup& group) {
    schedule.each_round([&](const Round& round) {
      for (const Flow& flow : round.flows) {
        LinkPath route;
        append_route(links, group, flow, route);
        for (const std::int32_t link : route) CHECK(links.name(link).find("leaf") == std::string::npos);
      }
    });
  };
  check(collective_flows({Collective::send_recv, 1_MiB}, Algorithm::direct, all), all);
  check(message_flows(1_MiB, pair.port[1]), pair);
}

TEST_CASE("A tree passes each edge twice, whatever its shape", "[oracle][network]") {
  const std::int64_t size = std::int64_t{1} << 30;
  for (const int ranks : {8, 16, 40, 64}) {
    const FlowGroup group = group_of(ranks);
    const Traffic sum = traffic(schedule_of({Collective::all_reduce, Algorithm::tree}, {size}, group), group);
    std::int64_t sent = 0;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
      sent += sum.sent[rank];
      CHECK(sum.sent[rank] == sum.received[rank]);  // what goes up comes down
      CHECK(sum.sent[rank] <= 3 * size);            // at most a parent, and two children or a neighbour
    }
    CHECK(sent == 2 * (ranks - 1) * size);
  }
}

TEST_CASE("In-network reduction sends the buffer over a node's NICs once in each direction", "[oracle][network]") {
  const std::int64_t size = 1 << 30;
  const FlowGroup group = group_of(64);
  for (const Algorithm algorithm : {Algorithm::collnet_direct, Algorithm::collnet_chain}) {
    const Traffic sum = traffic(schedule_of({Collective::all_reduce, algorithm}, {size}, group), group);
    const auto network = static_cast<std::size_t>(group.network());
    CHECK(sum.received[network] == 8 * size);  // 8 nodes
    CHECK(sum.sent[network] == 8 * size);
  }
}

TEST_CASE("Rings enter and leave each node by their rail, all NICs alike", "[property][network]") {
  const Cluster cluster = small_cluster(64);
  const ClusterLinks links(cluster, "Hopper");
  const FlowGroup group = make_flow_group(links, range(64));
  const FlowSchedule ring = schedule_of({Collective::all_reduce, Algorithm::ring}, {1 << 30}, group);
  REQUIRE(ring.rounds.size() == 1);
  CHECK(ring.rounds.front().count == 2 * 63);
  std::vector<std::int64_t> load(static_cast<std::size_t>(links.count()));
  for (const Flow& flow : ring.rounds.front().flows) {
    LinkPath route;
    append_route(links, group, flow, route);
    for (const std::int32_t link : route) ++load[static_cast<std::size_t>(link)];
  }
  LinkPath nics;
  for (int node = 0; node < 8; ++node)
    for (int gpu = 0; gpu < 8; ++gpu) links.append_route(8 * node + gpu, (8 * node + gpu + 8) % 64, -1, nics);
  for (const std::int32_t link : nics)
    if (links.name(link).find("leaf") == std::string::npos) CHECK(load[static_cast<std::size_t>(link)] == 1);
  // Each ring passes from every GPU to the next once, over NVLink, also on its way to the NIC.
  for (int gpu = 0; gpu + 1 < 8; ++gpu) {
    LinkPath link;
    links.append_route(gpu, gpu + 1, -1, link);
    CHECK(load[static_cast<std::size_t>(link.front())] == 8);
  }
}

/// The loads of all flows of a call, as bytes per link.
std::map<std::int32_t, std::int64_t> loads(const ClusterLinks& links, const std::vector<int>& ranks, const Case& call) {
  const FlowGroup group = make_flow_group(links, ranks);
  std::map<std::int32_t, std::int64_t> bytes;
  const FlowSchedule flows = collective_flows({call.collective, Bytes{1 << 20}}, call.algorithm, group);
  flows.each_round([&](const Round& round) {
    for (const Flow& flow : round.flows) {
      LinkPath path;
      append_route(links, group, flow, path);
      for (const std::int32_t link : path) bytes[link] += flow.size.count * round.count;
    }
  });
  return bytes;
}

TEST_CASE("Rotating the GPUs of a group in their order rotates the loads of its collectives", "[property][network]") {
  std::vector<Case> calls = kEverybodyKnows;
  calls.push_back({Collective::all_to_all, Algorithm::direct});
  calls.push_back({Collective::broadcast, Algorithm::ring});
  calls.push_back({Collective::send_recv, Algorithm::ring});
  for (const FabricKind fabric : {FabricKind::rail_optimized, FabricKind::fat_tree}) {
    const ClusterLinks links(small_cluster(256, 1, fabric), "Hopper");
    const LinkOrbits orbits = links.orbits(1).value();
    for (const std::vector<int>& places : {std::vector{0}, {0, 1}, {0, 2}, {0, 3}, {0, 1, 2, 3}, {0, 2, 4}})
      for (const int nodes : {2, 7, 32}) {
        std::vector<int> ranks;
        for (int node = 0; node < nodes; ++node)
          for (const int place : places) ranks.push_back(8 * node + place);
        for (int times = 0; places.back() + times < 8; ++times) {
          std::vector<int> rotated;
          for (const int rank : ranks) rotated.push_back(orbits.rotated_rank(rank, times));
          for (const Case& call : calls) {
            std::map<std::int32_t, std::int64_t> expected;
            for (const auto& [link, bytes] : loads(links, ranks, call)) expected[orbits.rotated(link, times)] = bytes;
            INFO("algorithm " << static_cast<int>(call.algorithm) << ", " << nodes << " nodes, " << places.size()
                              << " GPUs, by " << times);
            REQUIRE(expected == loads(links, rotated, call));
          }
        }
      }
  }
}

TEST_CASE("The rounds of an all-to-all are made one at a time", "[network]") {
  // Stored, those of 16,384 ranks would be 268 million flows. With even nodes each rank sends to one of each node at a time,
  // and to one of its own node; without, to the rank that is as far behind as the round's number.
  for (const auto& [ranks, rounds] : {std::pair(64, 56), std::pair(60, 59)}) {
    const FlowGroup group = group_of(ranks);
    const FlowSchedule flows = collective_flows({Collective::all_to_all, Bytes{1 << 20}}, Algorithm::direct, group);
    CHECK(flows.rounds.empty());
    CHECK(flows.round_count() == rounds);
    std::set<std::pair<std::int32_t, std::int32_t>> pairs;
    flows.each_round([&](const Round& round) {
      CHECK(round.flows.size() <= 2 * static_cast<std::size_t>(ranks));
      for (const Flow& flow : round.flows) CHECK(pairs.insert({flow.from, flow.to}).second);
    });
    CHECK(pairs.size() == static_cast<std::size_t>(ranks * (ranks - 1)));
  }
}

TEST_CASE("Groups with other GPUs in each node have as many channels as ports in any of them", "[network]") {
  const ClusterLinks links(small_cluster(24), "Hopper");
  const auto rails = [&](std::vector<int> ranks) { return make_flow_group(links, ranks).rails; };
  CHECK(rails({0, 3, 8, 11}) == std::vector<std::int32_t>{0, 3});
  CHECK(rails({0, 3, 6, 9, 12, 15, 18, 21}) == std::vector<std::int32_t>{-1, -2});  // ports 0 3 6, 1 4 7, 2 5
  CHECK(rails({0, 1, 2, 9, 10, 11}) == std::vector<std::int32_t>{-1, -2, -3});      // two ports in common
  CHECK(rails({0, 4, 8}) == std::vector<std::int32_t>{0});
  // Two rings, each of which leaves and enters every node by ports of its own.
  const FlowGroup group = make_flow_group(links, std::vector{0, 3, 6, 9, 12, 15, 18, 21});
  const FlowSchedule flows = collective_flows({Collective::all_gather, Bytes{1 << 20}}, Algorithm::ring, group);
  std::map<std::string, int> uses;
  for (const Flow& flow : flows.rounds.front().flows) {
    LinkPath path;
    append_route(links, group, flow, path);
    for (const std::int32_t link : path)
      if (links.name(link).find("port") != std::string::npos) ++uses[links.name(link)];
  }
  CHECK(uses.size() == 12);  // of three nodes, two ports each way
  for (const auto& [name, count] : uses) CHECK(count == 1);
}

TEST_CASE("A ring leaves out the ports of failed NICs", "[network]") {
  Cluster cluster = small_cluster(16);
  cluster.faults.lost_rails = {3};
  const ClusterLinks links(cluster, "Hopper");
  CHECK(make_flow_group(links, range(16)).rails == std::vector<std::int32_t>{0, 1, 2, 4, 5, 6, 7});
  CHECK(make_flow_group(links, std::vector{3, 11}).rails == std::vector<std::int32_t>{3});
}

TEST_CASE("Groups on few GPUs of a node use the ports next to them", "[network]") {
  CHECK(group_of(4, 8).rails == std::vector<std::int32_t>{0});
  CHECK(group_of(8, 4).rails == std::vector<std::int32_t>{0, 4});
  const Cluster cluster = small_cluster(32);
  // Nodes that have no port in common: one channel over whatever is next to its ends.
  const FlowGroup odd = make_flow_group(ClusterLinks(cluster, "Hopper"), std::vector<int>{0, 9});
  CHECK(odd.rails == std::vector<std::int32_t>{-1});
}

}  // namespace
}  // namespace tracecast
