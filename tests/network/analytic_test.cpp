#include <filesystem>
#include <limits>

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "sim/network/nccl_tuning.hpp"
#include "sim/network/network_model.hpp"
#include "tests/network/clusters.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/shipped.hpp"

namespace tracecast {
namespace {

using namespace literals;

/// The whole cluster in one call.
CollectiveCost on_all(const Cluster& cluster, const std::string& architecture, const CollectiveCall& call) {
  const GroupPlacement group = place(cluster, range(cluster.world_size), 1);
  return make_analytic_network(cluster, architecture)->cost(call, group);
}

double busbw_GBps(const Cluster& cluster, const std::string& architecture, const CollectiveCall& call) {
  const CollectiveCost cost = on_all(cluster, architecture, call);
  return bus_bandwidth(call.collective, cluster.world_size, call.size, cost.duration) * 1e-9;
}

TEST_CASE("bus bandwidth by nccl-tests' definition", "[oracle][network]") {
  // 1 GB in 10 ms is 100 GB/s of algbw.
  const Bytes size{1'000'000'000};
  CHECK(bus_bandwidth(Collective::all_reduce, 8, size, 10_ms) == Approx(175e9));
  CHECK(bus_bandwidth(Collective::all_gather, 8, size, 10_ms) == Approx(87.5e9));
  CHECK(bus_bandwidth(Collective::reduce_scatter, 4, size, 10_ms) == Approx(75e9));
  CHECK(bus_bandwidth(Collective::all_to_all, 2, size, 10_ms) == Approx(50e9));
  CHECK(bus_bandwidth(Collective::broadcast, 8, size, 10_ms) == Approx(100e9));
  CHECK(bus_bandwidth(Collective::send_recv, 2, size, 10_ms) == Approx(100e9));
}

TEST_CASE("Without corrections the analytic model is NCCL's", "[oracle][network]") {
  Cluster cluster = dgx_h100(8);
  const CollectiveCall call{Collective::all_reduce, 1_GiB, Algorithm::ring, Protocol::simple};
  CHECK(microseconds(on_all(cluster, "Hopper", call).duration) == Approx(5275.58).margin(0.005));
  SECTION("and each correction does what it says") {
    const double latency = 56.0;
    const double transfer = 5275.58 - latency;
    cluster.tuning.intra_bandwidth = 0.5;
    CHECK(microseconds(on_all(cluster, "Hopper", call).duration) == Approx(latency + 2 * transfer).margin(0.02));
    cluster.tuning.base_latency = 2;
    CHECK(microseconds(on_all(cluster, "Hopper", call).duration) == Approx(latency + 8.4 + 2 * transfer).margin(0.02));
    cluster.tuning.hop_latency = 3;
    CHECK(microseconds(on_all(cluster, "Hopper", call).duration) ==
          Approx(2 * 8.4 + 3 * 47.6 + 2 * transfer).margin(0.02));
  }
  SECTION("the pipeline's fill is paid up to a limit, and only by Simple") {
    Cluster slow = cluster;
    slow.tuning.mid_size = 1.5;
    slow.tuning.mid_limit = 32_MiB;
    const auto extra_us = [&](Bytes size, Protocol protocol) {
      const CollectiveCall ring{Collective::all_reduce, size, Algorithm::ring, protocol};
      return microseconds(on_all(slow, "Hopper", ring).duration - on_all(cluster, "Hopper", ring).duration);
    };
    // Half of the bytes again, at 205.71 GB/s.
    CHECK(extra_us(16_MiB, Protocol::simple) == Approx(8.0 * (1 << 20) / 205714.3).epsilon(1e-4));
    CHECK(extra_us(32_MiB, Protocol::simple) == Approx(16.0 * (1 << 20) / 205714.3).epsilon(1e-4));
    CHECK(extra_us(1_GiB, Protocol::simple) == Approx(16.0 * (1 << 20) / 205714.3).epsilon(1e-4));
    CHECK(extra_us(16_MiB, Protocol::ll128) == 0);
  }
  SECTION("a rank's own share is copied once by gathers, half as much by all_reduce, never by broadcast") {
    Cluster copying = cluster;
    copying.tuning.copy_bandwidth = 1000_GBps;
    const auto extra_us = [&](Collective collective) {
      const CollectiveCall ring{collective, 1_GiB};
      return microseconds(on_all(copying, "Hopper", ring).duration - on_all(cluster, "Hopper", ring).duration);
    };
    CHECK(extra_us(Collective::all_gather) == Approx(1073.741824 / 8).epsilon(1e-6));
    CHECK(extra_us(Collective::all_reduce) == Approx(1073.741824 / 16).epsilon(1e-6));
    CHECK(extra_us(Collective::all_to_all) == Approx(1073.741824 / 8).epsilon(1e-6));
    CHECK(extra_us(Collective::broadcast) == 0);
  }
  SECTION("between nodes latency has factors of its own, for LL and for Simple") {
    Cluster two = dgx_h100(16);
    const auto us = [&](Protocol protocol) {
      return microseconds(on_all(two, "Hopper", {Collective::all_gather, 8_B, Algorithm::ring, protocol}).duration);
    };
    const double simple = us(Protocol::simple);
    const double ll = us(Protocol::ll);
    two.tuning.net_hop_latency = 2;
    CHECK(us(Protocol::simple) == Approx(simple + 14).epsilon(1e-9));
    CHECK(us(Protocol::ll) == ll);
    two.tuning.net_ll_latency = 3;
    CHECK(us(Protocol::ll) == Approx(ll + 2 * 2.7).epsilon(1e-9));
  }
}

TEST_CASE("NCCL's choice switches where it should", "[network]") {
  const auto choice = [](const Cluster& cluster, const std::string& architecture, Collective collective, Bytes size) {
    const CollectiveCost cost = on_all(cluster, architecture, {collective, size});
    return std::pair{cost.algorithm, cost.protocol};
  };
  using Choice = std::pair<Algorithm, Protocol>;
  SECTION("16 nodes of A100: tree for 1 MiB, ring for 1 GiB") {
    CHECK(choice(dgx_a100(128), "Ampere", Collective::all_reduce, 1_MiB).first == Algorithm::tree);
    CHECK(choice(dgx_a100(128), "Ampere", Collective::all_reduce, 1_GiB) == Choice{Algorithm::ring, Protocol::simple});
  }
  SECTION("one H100 node: LL for 1 KiB, NVLS for 1 GiB; integers and gathers take the ring") {
    CHECK(choice(dgx_h100(8), "Hopper", Collective::all_reduce, 1_KiB).second == Protocol::ll);
    CHECK(choice(dgx_h100(8), "Hopper", Collective::all_reduce, 1_GiB) == Choice{Algorithm::nvls, Protocol::simple});
    CHECK(choice(dgx_h100(8), "Hopper", Collective::all_gather, 1_GiB) == Choice{Algorithm::ring, Protocol::simple});
  }
  SECTION("two H100 nodes: NVLSTree beats the NICs' rate") {
    CHECK(choice(dgx_h100(16), "Hopper", Collective::all_reduce, 8_GiB).first == Algorithm::nvls_tree);
    CHECK(busbw_GBps(dgx_h100(16), "Hopper", {Collective::all_reduce, 8_GiB}) > 400);
    CHECK(busbw_GBps(dgx_h100(16), "Hopper", {Collective::all_reduce, 8_GiB, Algorithm::ring}) < 384);
  }
  SECTION("what the user asks for wins") {
    const CollectiveCost forced =
        on_all(dgx_h100(128), "Hopper", {Collective::all_reduce, 1_GiB, Algorithm::tree, Protocol::ll128});
    CHECK(forced.algorithm == Algorithm::tree);
    CHECK(forced.protocol == Protocol::ll128);
  }
}

TEST_CASE("A dp group with one rank per node runs through one NIC", "[network]") {
  // 8 siblings at once: each ring has 48 GB/s, not 8 x 48.
  const Cluster cluster = dgx_h100(512);
  const GroupPlacement group = place(cluster, range(64, 0, 8), 8);
  const CollectiveCost cost =
      make_analytic_network(cluster, "Hopper")->cost({Collective::reduce_scatter, 4_GiB}, group);
  const double busbw = bus_bandwidth(Collective::reduce_scatter, 64, 4_GiB, cost.duration) * 1e-9;
  CHECK(busbw < 48);
  CHECK(busbw > 47);
  SECTION("with two GPUs to a NIC it has half of one") {
    Cluster shared = dgx_a100(512);
    shared.node.nics = 4;
    const CollectiveCost half = make_analytic_network(shared, "Ampere")
                                    ->cost({Collective::reduce_scatter, 4_GiB}, place(shared, range(64, 0, 8), 8));
    const double rate = bus_bandwidth(Collective::reduce_scatter, 64, 4_GiB, half.duration) * 1e-9;
    CHECK(rate < 12);
    CHECK(rate > 11.9);
  }
}

TEST_CASE("A ring never sends more than its NICs carry", "[network]") {
  // A factor fitted to rings of whole nodes (NCCL counts 8 x 45, they reach 8 x 49) must not lift one NIC above 50.
  Cluster cluster = dgx_h100(512);
  cluster.tuning.net_bandwidth = 1.3;
  const CollectiveCall call{Collective::reduce_scatter, 64_GiB, Algorithm::ring, Protocol::simple};
  const GroupPlacement group = place(cluster, range(64, 0, 8), 8);
  const CollectiveCost cost = make_analytic_network(cluster, "Hopper")->cost(call, group);
  const double rate = bus_bandwidth(Collective::reduce_scatter, 64, call.size, cost.duration) * 1e-9;
  CHECK(rate <= 0.975 * 50);
  CHECK(rate > 0.97 * 50);
}

TEST_CASE("analytic: behind slow uplinks a ring has the lower of what NICs reach and the uplinks' share",
          "[oracle][network]") {
  // NCCL's 8 channels of 45 GB/s, of which 0.5 are reached, pass uplinks of up to 400 x 0.975 / 180 without waiting.
  Cluster cluster = dgx_h100(16);
  cluster.tuning.net_bandwidth = 0.5;
  const CollectiveCall call{Collective::reduce_scatter, 64_GiB, Algorithm::ring, Protocol::simple};
  const auto rate = [&](double oversubscription) {
    cluster.tiers = {{"leaf", 1, oversubscription, {}}, {"spine", 0, 1, {}}};
    return busbw_GBps(cluster, "Hopper", call);
  };
  CHECK(rate(1) == Approx(180).epsilon(1e-3));
  CHECK(rate(2) == Approx(180).epsilon(1e-3));
  CHECK(rate(4) == Approx(400 * 0.975 / 4).epsilon(1e-3));
}

TEST_CASE("analytic: a group with one rank on its last node fills few channels there", "[network]") {
  // Three of four ranks are on one node. Where NCCL's estimates of two algorithms cross, its choice may take longer, but not 2.5 times.
  Cluster cluster = shipped_topology("oci-bm-gpu4");
  cluster.world_size = 32;
  cluster.faults.missing_gpus = {{3, 1}};
  const GroupPlacement group = place(cluster, std::vector<int>{28, 29, 30, 31}, 1);
  double before = std::numeric_limits<double>::infinity();
  for (const double rate : {100, 150, 200, 400}) {
    CAPTURE(rate);
    cluster.node.nic_rate = {static_cast<std::int64_t>(rate * 125'000'000)};
    const CollectiveCall call{Collective::all_reduce, 16_MiB};
    const double time = seconds(make_analytic_network(cluster, "Ampere")->cost(call, group).duration);
    CHECK(time <= before * 1.5);
    before = time;
  }
}

TEST_CASE("analytic: machines measured with two nodes take no more for a hop than similar ones",
          "[property][network]") {
  for (const auto& [name, similar] : {std::pair{"hgx-mi300x", "dgx-a100"}, std::pair{"hgx-mi355x", "dgx-a100"},
                                      std::pair{"gcp-a3mega", "dgx-h100"}, std::pair{"gcp-a4", "dgx-b200"}}) {
    CAPTURE(name);
    const auto hops_us = [](const char* machine, Protocol protocol) {
      Cluster cluster = shipped_topology(machine);
      const auto time = [&](int nodes) {
        cluster.world_size = nodes * cluster.node.gpus;
        const CollectiveCall call{Collective::all_reduce, 8_KiB, Algorithm::tree, protocol};
        return microseconds(on_all(cluster, std::string(architecture_of_gpu(cluster.gpu)), call).duration);
      };
      return time(64) - time(2);
    };
    for (const Protocol protocol : {Protocol::simple, Protocol::ll, Protocol::ll128}) {
      CAPTURE(to_string(protocol));
      CHECK(hops_us(name, protocol) <= 1.2 * hops_us(similar, protocol));
    }
  }
}

TEST_CASE("analytic: on no shipped machine with NVSwitches a ring over nodes is faster than inside one",
          "[property][network]") {
  int compared = 0;
  for (const auto& file : std::filesystem::directory_iterator(source_dir() / "topologies")) {
    Cluster cluster = read_topology(file.path()).value();
    if (cluster.node.nics == 0 || cluster.node.link != IntraLink::nvswitch) continue;
    const std::string architecture(architecture_of_gpu(cluster.gpu));
    const CollectiveCall call{Collective::all_gather, 16_GiB, Algorithm::ring, Protocol::simple};
    const auto rate = [&](int nodes) {
      cluster.world_size = nodes * cluster.node.gpus;
      return busbw_GBps(cluster, architecture, call);
    };
    INFO(cluster.name << ": " << rate(2) << " over two nodes, inside " << rate(1));
    CHECK(rate(2) <= 1.05 * rate(1));  // of 16 ranks each copies a smaller share of its own
    ++compared;
  }
  CHECK(compared > 15);
}

TEST_CASE("analytic: cards on PCIe are no faster over several nodes than inside one", "[network][property]") {
  Cluster cluster = read_topology(source_dir() / "topologies/rtx-pro-6000-pcie.json").value();
  cluster.max_nodes = 0;
  cluster.node.nics = 8;
  cluster.node.nic_rate = 400_Gbps;
  const Collective collective = GENERATE(Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter);
  const auto rate = [&](int nodes) {
    cluster.world_size = nodes * cluster.node.gpus;
    return busbw_GBps(cluster, "Blackwell", {collective, 4_GiB});
  };
  CHECK(rate(4) <= 1.05 * rate(1));
  CHECK(rate(4) > 0.5 * rate(1));
}

TEST_CASE("Hops of single-rank rings cost what training runs showed", "[network]") {
  // 63 hops of at most 2.8 us + 0.5 us for the spine, and the base latency.
  const Cluster cluster = dgx_h100(512);
  const GroupPlacement group = place(cluster, range(64, 0, 8), 8);
  const CollectiveCall call{Collective::all_gather, 64_B, Algorithm::ring, Protocol::simple};
  CHECK(microseconds(make_analytic_network(cluster, "Hopper")->cost(call, group).duration) ==
        Approx(8.4 + 63 * (2.8 + 0.5)).margin(0.01));
  Cluster nccl = cluster;
  nccl.tuning.ring_step_us = 0;
  CHECK(microseconds(make_analytic_network(nccl, "Hopper")->cost(call, group).duration) ==
        Approx(8.4 + 63 * (14 + 0.5)).margin(0.01));
}

TEST_CASE("Hops of rings grow with the ranks per node to NCCL's, and take no less than the NIC's latency",
          "[network]") {
  const CollectiveCall call{Collective::all_gather, 64_B, Algorithm::ring, Protocol::simple};
  const auto hop = [&](const Cluster& cluster, int ranks_per_node) {
    std::vector<int> ranks;
    for (int node = 0; node < 64; ++node)
      for (int gpu = 0; gpu < ranks_per_node; ++gpu) ranks.push_back(8 * node + gpu);
    const auto time = [&](double step) {
      Cluster each = cluster;
      each.tuning.ring_step_us = step;
      return microseconds(make_analytic_network(each, "Hopper")->cost(call, place(each, ranks, 1)).duration);
    };
    return 14 - (time(0) - time(cluster.tuning.ring_step_us)) / 63;
  };
  Cluster cluster = dgx_h100(512);
  CHECK(hop(cluster, 1) == Approx(2.8).margin(0.01));
  CHECK(hop(cluster, 2) == Approx(2.8 + (14 - 2.8) / 7).margin(0.01));
  CHECK(hop(cluster, 8) == Approx(14).margin(0.01));  // NCCL's
  cluster.node.nic_latency = 10_us;
  CHECK(hop(cluster, 1) == Approx(10).margin(0.01));
}

TEST_CASE("Rings over some of a node's NICs have fewer channels to fill", "[network]") {
  Cluster cluster = dgx_h100(64);
  cluster.tuning.net_mid_size = 3;
  cluster.tuning.net_mid_limit = Bytes{16 << 20};
  const auto network = make_analytic_network(cluster, "Hopper");
  const auto time = [&](const std::vector<int>& ranks, int sharing, Bytes size) {
    const CollectiveCall call{Collective::all_gather, size, Algorithm::ring, Protocol::simple};
    return network->cost(call, place(cluster, ranks, sharing)).duration;
  };
  // Of the first, each NIC sends three quarters of 32 MiB; of the second, 31/32 of an eighth of 256 MiB.
  CHECK(time(range(4, 0, 8), 8, 32_MiB) < time(range(32, 0, 1), 1, 256_MiB));
}

TEST_CASE("A ring over a NIC that is a little slower is a little slower", "[metamorphic][network]") {
  Cluster cluster = dgx_h100(64);
  const std::vector<int> two_of_a_node = range(16, 3, 4);
  const auto time = [&](double speed) {
    cluster.faults.slow_nics = {{3, 7, speed}};
    const GroupPlacement group = place(cluster, two_of_a_node, 4);
    return seconds(make_analytic_network(cluster, "Hopper")->cost({Collective::all_gather, 64_MiB}, group).duration);
  };
  double before = time(1);
  for (const double speed : {0.99, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55, 0.51, 0.5}) {
    INFO(speed);
    const double slower = time(speed);
    CHECK(slower >= before);
    CHECK(slower < 1.2 * before);
    before = slower;
  }
  CHECK(before < 2.05 * time(1));
}

TEST_CASE("In a mesh a message has the links between two GPUs", "[oracle][network]") {
  Cluster cluster = dgx_h100(8);
  cluster.node.link = IntraLink::xgmi;
  cluster.node.nvls = false;
  cluster.node.gpu_link = 448_GBps;
  cluster.tuning.direct_link = 25 / 20.6;  // as fast as the wire
  const CollectiveCost ring = on_all(cluster, "Hopper", {Collective::send_recv, 16_MiB});
  // 448 GB/s lead to seven others.
  CHECK(seconds(ring.duration - ring.latency) == Approx(16.0 * (1 << 20) / 64e9).epsilon(1e-3));
}

TEST_CASE("Between nodes a ring of send_recv has the NIC of the GPU at the end of a node", "[oracle][network]") {
  Cluster cluster = dgx_a100(16);
  cluster.node.nics = 4;
  const CollectiveCost ring = on_all(cluster, "Ampere", {Collective::send_recv, 16_MiB});
  CHECK(seconds(ring.duration - ring.latency) == Approx(16.0 * (1 << 20) / 25e9).epsilon(0.02));
}

TEST_CASE("Point to point goes over the port that joins the two", "[network]") {
  const Cluster cluster = dgx_h100(64);
  const auto network = make_analytic_network(cluster, "Hopper");
  const auto rate = [&](const std::vector<int>& pair, int sharing) {
    const CollectiveCost cost = network->cost({Collective::send_recv, 1_GiB}, place(cluster, pair, sharing));
    return 1073741824.0 / seconds(cost.duration) * 1e-9;
  };
  CHECK(rate({0, 1}, 1) == Approx(370.8).epsilon(0.01));  // NVLink
  CHECK(rate({0, 8}, 8) == Approx(50).epsilon(0.01));     // its own NIC
  const CollectiveCost tiny = network->cost({Collective::send_recv, 8_B}, place(cluster, std::vector<int>{0, 8}, 8));
  CHECK(microseconds(tiny.duration) == Approx(11.6).margin(0.01));
}

TEST_CASE("All-to-all is as slow as the slower of its two ports", "[network]") {
  SECTION("in a node: 7/8 of the buffer over NVLink") {
    CHECK(busbw_GBps(dgx_h100(8), "Hopper", {Collective::all_to_all, 1_GiB}) == Approx(370.8).epsilon(0.01));
  }
  SECTION("two nodes: half of the buffer over one NIC per GPU, so busbw is 15/8 of a NIC; MSCCL++ measured 90.9") {
    CHECK(busbw_GBps(dgx_h100(16), "Hopper", {Collective::all_to_all, 1_GiB}) == Approx(50 * 15.0 / 8).epsilon(0.01));
  }
}

TEST_CASE("Groups with different numbers of ranks in their nodes: each rank has the NICs of its own node",
          "[network]") {
  // 17 ranks: those of full nodes send 9/17 of the buffer over a NIC each, the lone one 16/17.
  const auto time = [](const Cluster& cluster, const CollectiveCall& call) {
    return microseconds(on_all(cluster, "Hopper", call).duration);
  };
  const CollectiveCall exchange{Collective::all_to_all, 1_GiB};
  const double size = static_cast<double>(Bytes{1_GiB}.count);
  CHECK(time(dgx_h100(17), exchange) == Approx(size * 16 / 17 / 50e9 * 1e6).epsilon(0.02));
  CHECK(time(dgx_h100(16), exchange) == Approx(size * 8 / 16 / 50e9 * 1e6).epsilon(0.02));
  CHECK(time(dgx_h100(17), exchange) < 2 * time(dgx_h100(24), exchange));
  Cluster cluster = dgx_h100(18);
  cluster.backend = Backend::mpi;
  Cluster full = dgx_h100(24);
  full.backend = Backend::mpi;
  CHECK(time(cluster, {Collective::all_reduce, 1_GiB}) <= time(full, {Collective::all_reduce, 1_GiB}));
}

TEST_CASE("A dispatcher that forwards takes what is slower, the network or the links inside its domain", "[network]") {
  const auto time = [](Bytes forwarded) {
    return microseconds(
        on_all(dgx_h100(16), "Hopper", {.collective = Collective::all_to_all, .size = 64_MiB, .forwarded = forwarded})
            .duration);
  };
  const double network = time(1_MiB);
  CHECK(time(2_MiB) == network);
  // Over NVLink as an all-to-all of one node whose ranks send as much.
  const double links = microseconds(on_all(dgx_h100(8), "Hopper", {Collective::all_to_all, 1_GiB}).duration);
  CHECK(time(Bytes{(1_GiB).count * 7 / 8}) == Approx(links).epsilon(0.02));
}

TEST_CASE("Time never falls with size within an algorithm and protocol, nor grows with bandwidth",
          "[property][network]") {
  const auto collective = GENERATE(Collective::all_reduce, Collective::all_gather, Collective::all_to_all);
  const int ranks = GENERATE(2, 8, 16, 128);
  const Cluster cluster = dgx_h100(ranks);
  Cluster faster = cluster;
  faster.node.nic_rate = 800_Gbps;
  Duration before{0};
  for (int k = 0; k <= 120; ++k) {
    const Bytes size{static_cast<std::int64_t>(std::exp2(3 + k * 0.25))};
    const CollectiveCall automatic{collective, size};
    const bool direct = collective == Collective::all_to_all;
    const CollectiveCall ring{collective, size, direct ? Algorithm::direct : Algorithm::ring, Protocol::simple};
    const Duration now = on_all(cluster, "Hopper", ring).duration;
    if (k != 0 && size.count / ranks / 8 != 64) CHECK(now >= before);
    before = now;
    CHECK(on_all(faster, "Hopper", ring).duration <= now);
    // NCCL's choice is never beaten by a ring in NCCL's own reckoning.
    CHECK(on_all(cluster, "Hopper", automatic).duration <= now);
  }
}

TEST_CASE("More ranks never make a ring faster", "[property][network]") {
  for (const Bytes size : {1_KiB, 1_MiB, 1_GiB}) {
    Duration before{0};
    for (int ranks = 8; ranks <= 1024; ranks *= 2) {
      const Duration now = on_all(dgx_h100(ranks), "Hopper", {Collective::all_reduce, size, Algorithm::ring}).duration;
      CHECK(now >= before);
      before = now;
    }
  }
}

TEST_CASE("analytic: no shipped machine gets slower by a NIC more", "[property][network]") {
  int compared = 0;
  for (const auto& file : std::filesystem::directory_iterator(source_dir() / "topologies")) {
    Cluster cluster = read_topology(file.path()).value();
    if (cluster.node.nics == 0 || cluster.node.gpus_per_host != cluster.node.gpus) continue;
    cluster.world_size = 4 * cluster.node.gpus;
    for (const Bandwidth rate : {cluster.node.nic_rate, Bandwidth{2'000'000'000}})
      for (int stride = 1; stride <= cluster.node.gpus; stride *= 2) {
        if (cluster.node.gpus % stride != 0) continue;
        std::vector<int> ranks;
        for (int rank = 0; rank < cluster.world_size; rank += stride) ranks.push_back(rank);
        for (const auto& [collective, name] : EnumNames<Collective>::table)
          for (const Bytes size : {64_MiB, 1_GiB}) {  // smaller ones change their protocol, as NCCL chooses it
            Duration fewer{std::numeric_limits<std::int64_t>::max() / 2};
            for (int nics = 1; nics <= cluster.node.gpus; ++nics) {
              Cluster more = cluster;
              more.node.nics = nics;
              more.node.nic_rate = rate;
              const auto network = make_analytic_network(more, std::string(architecture_of_gpu(more.gpu)));
              const Duration now = network->cost({collective, size}, place(more, ranks, stride)).duration;
              INFO(cluster.name << " " << name << ", every " << stride << ". GPU, " << size.count << " B, " << nics
                                << " NICs: " << microseconds(now) << " us, one fewer: " << microseconds(fewer)
                                << " us");
              CHECK(now.picoseconds <= fewer.picoseconds + 1000);
              fewer = std::min(now, fewer);
              ++compared;
            }
          }
      }
  }
  CHECK(compared > 10000);
}

TEST_CASE("A single rank communicates in no time", "[network]") {
  const auto network = make_analytic_network(dgx_h100(8), "Hopper");
  CHECK(network->cost({Collective::all_reduce, 1_GiB}, GroupPlacement{}).duration == 0_ns);
}

TEST_CASE("Calls that NCCL cannot run are refused with a reason", "[error][network]") {
  const auto why = [](const Cluster& cluster, const std::string& architecture, const CollectiveCall& call) {
    return unsupported_reason(cluster, architecture, call, place(cluster, range(cluster.world_size), 1));
  };
  CHECK(why(dgx_h100(16), "Hopper", {Collective::all_reduce, 1_MiB}).empty());
  CHECK(why(dgx_h100(16), "Hopper", {Collective::all_to_all, 1_MiB, Algorithm::direct}).empty());
  CHECK(why(dgx_a100(8), "Ampere", {Collective::all_reduce, 1_MiB, Algorithm::nvls}) ==
        "nvls needs an NVSwitch with multicast (H100 or later)");
  CHECK(why(dgx_h100(16), "Hopper", {Collective::all_reduce, 1_MiB, Algorithm::nvls}) ==
        "nvls needs a network that reduces (SHARP) if there are several nodes; nvls_tree does not");
  CHECK(why(dgx_h100(8), "Hopper", {Collective::all_reduce, 1_MiB, Algorithm::nvls}).empty());
  CHECK(why(dgx_h100(16), "Hopper", {Collective::all_reduce, 1_MiB, Algorithm::collnet_chain}) ==
        "collnet_chain needs a network that reduces (SHARP)");
  CHECK(why(dgx_h100(16), "Hopper", {Collective::all_gather, 1_MiB, Algorithm::tree}) ==
        "tree with protocol automatic cannot run all_gather on 16 ranks of 2 nodes");
  CHECK(why(dgx_h100(16), "Hopper", {Collective::all_to_all, 1_MiB, Algorithm::ring}) ==
        "all_to_all is sent directly between ranks with protocol simple: there is no other algorithm");
  CHECK(why(dgx_h100(16), "Hopper", {Collective::all_reduce, 1_MiB, Algorithm::direct}) ==
        "direct is for all_to_all and send_recv");
  Cluster alone = dgx_h100(16);
  alone.node.nics = 0;
  CHECK(why(alone, "Hopper", {Collective::all_reduce, 1_MiB}) == "this machine has no network between its nodes");
}

TEST_CASE("analytic: link_latency and nic_latency change each hop by their difference to the reference",
          "[oracle][network]") {
  Cluster cluster = dgx_h100(64);
  cluster.tuning.ring_step_us = 0;
  cluster.node.link_latency = 1_us;
  cluster.node.nic_latency = 1'500_ns;
  const CollectiveCall ring{Collective::all_reduce, 1_GiB, Algorithm::ring, Protocol::simple};
  const double usual = microseconds(on_all(cluster, "Hopper", ring).duration);
  cluster.reference = {1_us, 1'500_ns};
  CHECK(microseconds(on_all(cluster, "Hopper", ring).duration) == usual);
  // 126 rounds, 14 of which go from node to node. Large rings over the network: NCCL takes 1.4 times its latency.
  cluster.node.link_latency = 3_us;
  CHECK(microseconds(on_all(cluster, "Hopper", ring).duration) == Approx(usual + 1.4 * 112 * 2).epsilon(1e-9));
  cluster.node.link_latency = 1_us;
  cluster.node.nic_latency = 11'500_ns;
  CHECK(microseconds(on_all(cluster, "Hopper", ring).duration) == Approx(usual + 14 * 10).epsilon(1e-9));
  const CollectiveCall exchange{Collective::all_to_all, 1_MiB};
  CHECK(microseconds(on_all(cluster, "Hopper", exchange).duration) > 10);
}

/// Powers of two from 1 B to 16 GiB, and the sizes around them.
std::vector<Bytes> growing_sizes() {
  std::vector<Bytes> sizes;
  for (std::int64_t size = 1; size <= std::int64_t{16} << 30; size *= 2)
    for (const std::int64_t each : {size, size + 1, size + size / 3, size + size / 2})
      if (sizes.empty() || each > sizes.back().count) sizes.push_back({each});
  return sizes;
}

TEST_CASE("analytic: no shipped machine takes longer for a part of a message than for the message",
          "[property][network]") {
  const std::vector<Bytes> sizes = growing_sizes();
  int machines = 0;
  for (const auto& file : std::filesystem::directory_iterator(source_dir() / "topologies")) {
    Cluster cluster = read_topology(file.path()).value();
    const int most = cluster.max_nodes > 0 ? cluster.max_nodes * cluster.node.gpus : 4096;
    for (const int ranks : {2, cluster.node.gpus, 16, 64, 72, 512}) {
      if (ranks < 2 || ranks > most || (ranks > cluster.node.gpus && cluster.node.nics == 0)) continue;
      cluster.world_size = ranks;
      const GroupPlacement group = place(cluster, range(ranks), 1);
      const auto network = make_analytic_network(cluster, std::string(architecture_of_gpu(cluster.gpu)));
      for (const auto& [collective, name] : EnumNames<Collective>::table) {
        Duration before;
        for (const Bytes size : sizes) {
          const Duration now = network->cost({collective, size}, group).duration;
          INFO(cluster.name << " " << name << " " << ranks << " ranks, " << size.count << " B: " << microseconds(now)
                            << " us, smaller: " << microseconds(before) << " us");
          REQUIRE(now.picoseconds >= before.picoseconds - 1);
          before = now;
        }
      }
    }
    ++machines;
  }
  CHECK(machines >= 40);
}

}  // namespace
}  // namespace tracecast
