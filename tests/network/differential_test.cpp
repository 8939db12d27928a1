/// The three network models held to each other; SimGrid, which runs every flow, is the reference.
#include <algorithm>
#include <array>
#include <csignal>
#include <map>

#include <catch2/catch.hpp>
#include <sys/time.h>

#include "sim/io/files.hpp"
#include "sim/network/flow_cost.hpp"
#include "sim/network/fluid.hpp"
#include "sim/network/nccl_tuning.hpp"
#include "sim/network/simgrid.hpp"
#include "tests/network/small_clusters.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"

namespace tracecast {
namespace {

using namespace literals;

bool no_simgrid() {
  if (!simgrid_is_built_in()) WARN("skipped: this build has no SimGrid");
  return !simgrid_is_built_in();
}

struct Machine {
  std::string name;
  Cluster cluster;
  std::string architecture;
};

/// With NCCL's own numbers: what was fitted to groups that have their NICs to themselves says nothing of how siblings
/// share its losses (docs/models.md).
Machine shipped(const std::string& name) {
  Cluster cluster = shipped_topology(name);
  cluster.tuning = {};
  return {name, cluster, std::string(architecture_of_gpu(cluster.gpu))};
}

std::vector<Machine> machines() {
  Cluster tree = small_cluster(0, 2, FabricKind::fat_tree);
  Machine sharp = shipped("dgx-h100");
  sharp.name += " with SHARP";
  sharp.cluster.tuning.sharp = true;
  return {shipped("dgx-h100"), sharp,
          shipped("dgx-a100"), shipped("aws-p4d"),
          shipped("frontier"), {"oversubscribed fat tree", tree, "Hopper"}};
}

struct Ends {
  double analytic = 0;
  double fluid = 0;
  double simgrid = 0;
};

Ends ends_of(Machine machine, const CollectiveCall& call, const std::vector<std::vector<int>>& groups, int sharing) {
  for (const auto& group : groups) machine.cluster.world_size = std::max(machine.cluster.world_size, group.back() + 1);
  const auto analytic = make_analytic_network(machine.cluster, machine.architecture);
  const auto duration = [&](NetworkKind kind) {
    return seconds(flow_cost(kind, machine.cluster, machine.architecture, {call, groups})->duration);
  };
  return {seconds(analytic->cost(call, place(machine.cluster, groups.front(), sharing)).duration),
          duration(NetworkKind::fluid), duration(NetworkKind::simgrid)};
}

/// Groups of every `stride`-th rank, all of them at once.
std::vector<std::vector<int>> siblings(int ranks, int stride) {
  std::vector<std::vector<int>> groups;
  for (int first = 0; first < stride; ++first) groups.push_back(range(ranks, first, stride));
  return groups;
}

const std::vector<CollectiveCall> kCalls{{Collective::all_reduce, 64_MiB, Algorithm::ring},
                                         {Collective::all_reduce, 64_MiB, Algorithm::tree},
                                         {Collective::all_reduce, 64_MiB, Algorithm::nvls},
                                         {Collective::all_reduce, 64_MiB, Algorithm::nvls_tree},
                                         {Collective::all_reduce, 64_MiB, Algorithm::collnet_direct},
                                         {Collective::all_reduce, 64_MiB, Algorithm::collnet_chain},
                                         {Collective::all_gather, 64_MiB, Algorithm::pat},
                                         {Collective::reduce_scatter, 64_MiB, Algorithm::pat},
                                         {Collective::all_gather, 64_MiB},
                                         {Collective::reduce_scatter, 64_MiB},
                                         {Collective::broadcast, 64_MiB},
                                         {Collective::all_to_all, 64_MiB}};

bool is_oversubscribed(const Machine& machine) {
  return !machine.cluster.tiers.empty() && machine.cluster.tiers.front().oversubscription > 1;
}

bool in_unlike_rounds(const CollectiveCall& call) {
  return call.collective == Collective::all_to_all || call.algorithm == Algorithm::pat;
}

/// An all-to-all or PAT over an oversubscribed tier: there models may differ more, docs/models.md says why.
bool crosses_tiers_in_rounds(const Machine& machine, const CollectiveCall& call) {
  return in_unlike_rounds(call) && is_oversubscribed(machine);
}

TEST_CASE("A message between two ranks: analytic and fluid within 3 % of SimGrid", "[differential][network]") {
  if (no_simgrid()) return;
  for (const Machine& machine : machines())
    for (const int other : {1, 8, 127}) {
      INFO(machine.name << ", rank 0 to rank " << other);
      const Ends ends = ends_of(machine, {Collective::send_recv, 64_MiB}, {{0, other}}, 1);
      // analytic takes the nodes beside it to send over the tier as well: docs/models.md.
      if (!is_oversubscribed(machine)) CHECK(ends.analytic == Approx(ends.simgrid).epsilon(0.03));
      CHECK(ends.fluid == Approx(ends.simgrid).epsilon(0.03));
    }
}

TEST_CASE("A group alone on its machine: analytic and fluid within 3 % of SimGrid", "[differential][network]") {
  if (no_simgrid()) return;
  for (const Machine& machine : machines())
    for (const int ranks : {8, 32, 128})
      for (const CollectiveCall& call : kCalls) {
        Cluster sized = machine.cluster;
        sized.world_size = ranks;
        if (!unsupported_reason(sized, machine.architecture, call, place(sized, range(ranks), 1)).empty()) continue;
        INFO(machine.name << ", " << to_string(call.collective) << " " << to_string(call.algorithm) << " on " << ranks);
        const Ends ends = ends_of(machine, call, {range(ranks)}, 1);
        const bool crosses = crosses_tiers_in_rounds(machine, call);
        if (!crosses) CHECK(ends.analytic == Approx(ends.simgrid).epsilon(0.03));
        CHECK(ends.fluid == Approx(ends.simgrid).epsilon(crosses ? 0.15 : 0.03));
      }
}

TEST_CASE("An all-to-all over unequal NICs: analytic and fluid within 3 %", "[differential][network]") {
  const auto compare = [](const Cluster& cluster) {
    const std::vector<int> ranks = range(cluster.world_size);
    const CollectiveCall call{Collective::all_to_all, 256_MiB};
    const double alone =
        seconds(make_analytic_network(cluster, "Hopper")->cost(call, place(cluster, ranks, 1)).duration);
    const CollectiveCost links = flow_cost(NetworkKind::fluid, cluster, "Hopper", {call, {ranks}}).value();
    CHECK(seconds(links.duration) == Approx(alone).epsilon(0.03));
  };
  for (const int nics : {3, 4, 5, 6, 7, 8, 9, 16}) {
    INFO(nics << " NICs");
    Cluster cluster = small_cluster(32);
    cluster.node.nics = nics;
    compare(cluster);
    if (nics < 8) continue;
    cluster.faults.lost_rails = {0};
    compare(cluster);
    cluster.faults = {.slow_nics = {{1, 3, 0.5}}};
    compare(cluster);
  }
}

TEST_CASE("Sibling groups of one node share it: within 5 % of SimGrid", "[differential][network]") {
  if (no_simgrid()) return;
  for (const Machine& machine : machines())
    for (const int stride : {8})
      for (const CollectiveCall& call : kCalls) {
        if (call.algorithm == Algorithm::nvls || call.algorithm == Algorithm::nvls_tree) continue;
        Cluster sized = machine.cluster;
        sized.world_size = 8 * stride;
        if (!unsupported_reason(sized, machine.architecture, call, place(sized, range(8, 0, stride), 1)).empty())
          continue;
        INFO(machine.name << ", " << to_string(call.collective) << " " << to_string(call.algorithm) << ", every "
                          << stride);
        const Ends ends = ends_of(machine, call, siblings(8, stride), std::min(stride, sized.node.gpus));
        const bool crosses = crosses_tiers_in_rounds(machine, call);
        const bool shares_nic = sized.node.nics < sized.node.gpus_per_host;  // see docs/models.md
        const bool below_ring = call.algorithm == Algorithm::tree || call.algorithm == Algorithm::pat;
        if (!crosses && !(shares_nic && below_ring)) CHECK(ends.analytic == Approx(ends.simgrid).epsilon(0.05));
        CHECK(ends.fluid == Approx(ends.simgrid).epsilon(crosses ? 0.15 : 0.05));
      }
}

TEST_CASE("Two groups cross an oversubscribed spine: fluid within 5 % of SimGrid", "[differential][network]") {
  if (no_simgrid()) return;
  for (const double oversubscription : {2.0, 8.0})
    for (const CollectiveCall& call : kCalls) {
      if (call.algorithm == Algorithm::nvls) continue;  // inside a node only
      // Leaves of 4 nodes: one group on the even nodes of two leaves, the other on the odd ones.
      std::vector<std::vector<int>> groups(2);
      for (int rank = 0; rank < 64; ++rank) groups[static_cast<std::size_t>(rank / 8 % 2)].push_back(rank);
      const Machine machine{"fat tree", small_cluster(64, oversubscription, FabricKind::fat_tree), "Hopper"};
      if (!unsupported_reason(machine.cluster, "Hopper", call, place(machine.cluster, groups[0], 1)).empty()) continue;
      const double alone =
          seconds(flow_cost(NetworkKind::fluid, machine.cluster, machine.architecture, {call, {groups[0]}})->duration);
      const Ends both = ends_of(machine, call, groups, 1);
      INFO(to_string(call.collective) << " " << to_string(call.algorithm) << ", " << oversubscription << ":1, alone "
                                      << alone << " both " << both.simgrid << " fluid " << both.fluid);
      CHECK(both.fluid == Approx(both.simgrid).epsilon(crosses_tiers_in_rounds(machine, call) ? 0.15 : 0.05));
      if (oversubscription == 8 && call.algorithm == Algorithm::ring) CHECK(both.simgrid > 1.5 * alone);
    }
}

TEST_CASE("A halved NIC, a lost rail, a lost spine: fluid within 5 % of SimGrid", "[differential][network]") {
  if (no_simgrid()) return;
  NetworkFaults halved;
  halved.slow_nics = {{1, 3, 0.5}};
  NetworkFaults rail;
  rail.lost_rails = {3};
  NetworkFaults spine;
  spine.lost_uplinks["leaf"] = 0.75;
  for (const CollectiveCall& call : kCalls) {
    const Machine healthy{"fat tree", small_cluster(64, 1), "Hopper"};
    if (!unsupported_reason(healthy.cluster, "Hopper", call, place(healthy.cluster, range(8, 0, 8), 8)).empty())
      continue;
    const double before = ends_of(healthy, call, siblings(8, 8), 8).simgrid;
    for (const NetworkFaults& faults : {halved, rail, spine}) {
      Machine broken = healthy;
      broken.cluster.faults = faults;
      const Ends after = ends_of(broken, call, siblings(8, 8), 8);
      INFO(to_string(call.collective) << " " << to_string(call.algorithm) << ": " << before << ", then "
                                      << after.simgrid << ", fluid " << after.fluid);
      const bool rounds_differ = in_unlike_rounds(call) && !faults.lost_uplinks.empty();
      CHECK(after.fluid == Approx(after.simgrid).epsilon(rounds_differ ? 0.15 : 0.05));
      if (call.algorithm == Algorithm::ring && faults.lost_uplinks.empty()) CHECK(after.simgrid > 1.5 * before);
    }
  }
}

/// Ends of a data-parallel collective from 0 and of a pipeline's messages beside it, one after the other from `begin`.
std::vector<double> beside_messages(FlowNetwork& network, Duration begin) {
  std::vector<double> ends;
  network.start(0, 0, {});
  network.start(1, 1, begin);
  Duration now;
  std::vector<std::int32_t> ended;
  std::int32_t messages = 1;
  while (network.advance(now, ended))
    for (const std::int32_t transfer : ended) {
      if (transfer > 0 && messages < 6) network.start(++messages, 1, now);
      ends.push_back(seconds(now));
    }
  std::sort(ends.begin(), ends.end());
  return ends;
}

TEST_CASE("Gradients and activations on one NIC: fluid within 5 % of SimGrid", "[differential][network]") {
  if (no_simgrid()) return;
  const Cluster cluster = small_cluster(128);
  const ClusterLinks links(cluster, "Hopper");
  const auto analytic = make_analytic_network(cluster, "Hopper");
  const std::vector<int> one_of_a_node = range(8, 0, 16);
  // NVLS trees: two flows leave by a NIC, each a quarter of those inside a node.
  const std::vector<int> two_of_a_node = range(4, 0, 4);
  for (const auto& [gradients, replicas] :
       {std::pair{CollectiveCall{Collective::all_reduce, 256_MiB}, one_of_a_node},
        std::pair{CollectiveCall{Collective::all_gather, 256_MiB}, one_of_a_node},
        std::pair{CollectiveCall{Collective::reduce_scatter, 256_MiB}, one_of_a_node},
        std::pair{CollectiveCall{Collective::all_reduce, 256_MiB, Algorithm::nvls_tree}, two_of_a_node}}) {
    INFO(to_string(gradients.collective) << " " << to_string(gradients.algorithm));
    const CollectiveCall activations{Collective::send_recv, 32_MiB};
    const std::vector<int> stages{0, 8};
    FluidNetwork fluid(links);
    SimGridNetwork simgrid(links);
    for (const auto& [call, ranks] : {std::pair{gradients, replicas}, std::pair{activations, stages}}) {
      const CollectiveCost cost = analytic->cost(call, place(cluster, ranks, 8));
      const FlowGroup group = make_flow_group(links, ranks);
      const bool message = call.collective == Collective::send_recv;
      const FlowSchedule schedule =
          message ? message_flows(call.size, group.port[1]) : collective_flows(call, cost.algorithm, group);
      fluid.add_kind(cost, schedule, group);
      simgrid.add_kind(cost, schedule, group);
    }
    const std::vector<double> ours = beside_messages(fluid, 700_us);
    const auto text = simgrid.run([](FlowNetwork& network) {
      std::string answer;
      for (const double end : beside_messages(network, 700_us)) answer += std::to_string(end * 1e6) + " ";
      return answer;
    });
    REQUIRE(text);
    std::vector<double> reference;
    for (std::size_t at = 0; at < text->size(); at = text->find(' ', at) + 1)
      reference.push_back(std::stod(text->substr(at)) * 1e-6);
    REQUIRE(reference.size() == ours.size());
    for (std::size_t i = 0; i < ours.size(); ++i) CHECK(ours[i] == Approx(reference[i]).epsilon(0.05));
    const double alone = seconds(analytic->cost(gradients, place(cluster, replicas, 8)).duration);
    INFO("alone " << alone);
    CHECK(ours.back() > 1.03 * alone);  // the messages did slow the gradients down
  }
}

TEST_CASE("SimGrid: a case that is too large is one error message", "[error][network]") {
  const Cluster cluster = small_cluster(8192);
  const auto cost = flow_cost(NetworkKind::simgrid, cluster, "Hopper",
                              {{Collective::all_reduce, 1_GiB, Algorithm::ring}, {range(8192)}});
  REQUIRE_FALSE(cost);
  if (!no_simgrid()) CHECK(to_string(cost.error()).find("use --network fluid") != std::string::npos);
}

TEST_CASE("Fluid: an all-to-all between too many ranks is one error message", "[error][network]") {
  const auto cost =
      flow_cost(NetworkKind::fluid, small_cluster(65536), "Hopper", {{Collective::all_to_all, 1_GiB}, {range(65536)}});
  REQUIRE_FALSE(cost);
  CHECK(to_string(cost.error()).find("between 4294901760 pairs of ranks") != std::string::npos);
}

/// The solver against SimGrid's: flows of weight 1 between GPUs, all at once, until each has moved what it has.
TEST_CASE("Max-min: ends of flows as SimGrid's solver gives them", "[differential][network]") {
  if (no_simgrid()) return;
  const Cluster cluster = small_cluster(64, 4, FabricKind::fat_tree);
  const ClusterLinks links(cluster, "Hopper");
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed " << seed);
    FluidNetwork fluid(links, {.alone_as_costed = false});
    SimGridNetwork simgrid(links);
    std::uint64_t state = seed;
    const auto random = [&state](int n) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      return static_cast<int>((state >> 33) % static_cast<std::uint64_t>(n));
    };
    const int flows = 40;
    for (int i = 0; i < flows; ++i) {
      const int from = random(64);
      const int to = (from + 1 + random(63)) % 64;
      const FlowGroup group = make_flow_group(links, std::vector<int>{from, to});
      CollectiveCost cost;
      cost.duration = Duration{(100 + random(900)) * 1'000'000LL};
      const FlowSchedule schedule{{{{{0, 1, -1, {(1 + random(64)) * (1 << 20)}}}, 1}}};
      fluid.add_kind(cost, schedule, group);
      simgrid.add_kind(cost, schedule, group);
    }
    const auto run = [](FlowNetwork& network) {
      std::map<std::int32_t, double> ends;
      for (std::int32_t i = 0; i < flows; ++i) network.start(i, i, {});
      Duration now;
      std::vector<std::int32_t> ended;
      while (network.advance(now, ended))
        for (const std::int32_t transfer : ended) ends[transfer] = microseconds(now);
      std::string text;
      for (const auto& [transfer, end] : ends) text += std::to_string(end) + " ";
      return text;
    };
    const std::string ours = run(fluid);
    const auto reference = simgrid.run(run);
    REQUIRE(reference);
    std::size_t a = 0;
    std::size_t b = 0;
    for (int i = 0; i < flows; ++i) {
      CHECK(std::stod(ours.substr(a)) == Approx(std::stod(reference->substr(b))).epsilon(1e-6));
      a = ours.find(' ', a) + 1;
      b = reference->find(' ', b) + 1;
    }
  }
}

// ---- Flows on single hashed paths --------------------------------------------------------------------------------------

std::vector<Machine> hashed_machines(std::int64_t seed) {
  Machine groups = shipped("frontier");
  groups.name += " with groups of 4 nodes";
  groups.cluster.tiers.front().nodes = 4;
  groups.cluster.shape.routers = 4;
  groups.cluster.shape.global_links = 2;
  std::vector<Machine> machines{{"fat tree 2:1", small_cluster(0, 2, FabricKind::fat_tree), "Hopper"},
                                {"rails", small_cluster(0), "Hopper"},
                                shipped("frontier"),
                                groups,
                                shipped("fugaku")};
  for (Machine& machine : machines) {
    machine.cluster.routing = RoutingPolicy::ecmp;
    machine.cluster.routing_seed = seed;
  }
  return machines;
}

double fluid_gap(const Machine& machine, const CollectiveCall& call, const std::vector<std::vector<int>>& groups) {
  const Ends ends = ends_of(machine, call, groups, 1);
  return ends.fluid / ends.simgrid - 1;
}

TEST_CASE("Hashed paths, a group alone: fluid within 3 % of SimGrid", "[differential][network]") {
  if (no_simgrid()) return;
  for (const std::int64_t seed : {1, 2})
    for (const Machine& machine : hashed_machines(seed))
      for (const int ranks : {8, 32, 128})
        for (const CollectiveCall& call : kCalls) {
          if (ranks == 128 && seed > 1) continue;
          Cluster sized = machine.cluster;
          sized.world_size = ranks;
          if (!unsupported_reason(sized, machine.architecture, call, place(sized, range(ranks), 1)).empty()) continue;
          INFO(machine.name << ", " << to_string(call.collective) << " " << to_string(call.algorithm) << " on " << ranks
                            << ", seed " << seed);
          CHECK(std::abs(fluid_gap(machine, call, {range(ranks)})) < 0.03);
        }
}

TEST_CASE("Hashed paths, sibling groups: fluid within 5 % of SimGrid", "[differential][network]") {
  if (no_simgrid()) return;
  for (const std::int64_t seed : {1, 2})
    for (const Machine& machine : hashed_machines(seed))
      for (const CollectiveCall& call : kCalls) {
        if (call.algorithm == Algorithm::nvls || call.algorithm == Algorithm::nvls_tree) continue;
        Cluster sized = machine.cluster;
        sized.world_size = 64;
        if (!unsupported_reason(sized, machine.architecture, call, place(sized, range(8, 0, 8), 1)).empty()) continue;
        INFO(machine.name << ", " << to_string(call.collective) << " " << to_string(call.algorithm) << ", seed "
                          << seed);
        const double gap = fluid_gap(machine, call, siblings(8, 8));
        // Rounds of several groups meet on other cables each time, and SimGrid waits for the worst: docs/models.md.
        CHECK(gap < 0.05);
        CHECK(gap > (in_unlike_rounds(call) ? -0.5 : -0.05));
      }
}

TEST_CASE("Hashed paths and a halved NIC, a lost rail, lost uplinks: fluid within 5 % of SimGrid",
          "[differential][network]") {
  if (no_simgrid()) return;
  std::vector<NetworkFaults> fault_cases(3);
  fault_cases[0].slow_nics = {{1, 3, 0.5}};
  fault_cases[1].lost_rails = {3};
  fault_cases[2].lost_uplinks["leaf"] = 0.5;
  for (const FabricKind fabric : {FabricKind::rail_optimized, FabricKind::fat_tree})
    for (const CollectiveCall& call : kCalls) {
      Machine machine{to_string(fabric), small_cluster(64, 1, fabric), "Hopper"};
      machine.cluster.routing = RoutingPolicy::ecmp;
      if (in_unlike_rounds(call)) continue;
      if (!unsupported_reason(machine.cluster, "Hopper", call, place(machine.cluster, range(8, 0, 8), 8)).empty())
        continue;
      const double healthy = ends_of(machine, call, siblings(8, 8), 1).simgrid;
      for (const NetworkFaults& faults : fault_cases) {
        machine.cluster.faults = faults;
        const Ends ends = ends_of(machine, call, siblings(8, 8), 1);
        INFO(to_string(fabric) << ", " << to_string(call.collective) << " " << to_string(call.algorithm));
        CHECK(ends.fluid == Approx(ends.simgrid).epsilon(0.05));
        // On the fat tree flows already share cables, so that they need only half a NIC.
        const bool is_slower = machine.cluster.fabric != FabricKind::fat_tree || !faults.lost_uplinks.empty();
        if (call.algorithm == Algorithm::ring && is_slower) CHECK(ends.simgrid > 1.2 * healthy);
      }
    }
}

TEST_CASE("SimGrid's answer arrives whole when signals interrupt the wait for it", "[network][simgrid]") {
  if (no_simgrid()) return;
  const Machine machine = shipped("dgx-h100");
  const auto duration = [&] { return ends_of(machine, {Collective::all_reduce, 64_MiB}, {range(16)}, 1).simgrid; };
  const double undisturbed = duration();
  struct sigaction count {};
  struct sigaction before {};
  count.sa_handler = [](int) {};  // without SA_RESTART: a read that waits ends with EINTR
  sigaction(SIGALRM, &count, &before);
  const itimerval often{{0, 1000}, {0, 1000}};
  setitimer(ITIMER_REAL, &often, nullptr);
  CHECK(duration() == undisturbed);
  setitimer(ITIMER_REAL, std::array<itimerval, 1>{}.data(), nullptr);
  sigaction(SIGALRM, &before, nullptr);
}

}  // namespace
}  // namespace tracecast
