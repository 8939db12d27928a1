#include "sim/network/nccl_tuning.hpp"

#include <cmath>

#include <catch2/catch.hpp>

#include "tests/network/clusters.hpp"

namespace tracecast {
namespace {

using namespace literals;

/// 128 GPUs on 16 nodes, 8 channels of 45 GB/s, Intel.
NcclCommunicator sixteen_nodes() {
  NcclCommunicator comm;
  comm.ranks = 128;
  comm.nodes = 16;
  comm.ranks_per_node = 8;
  comm.ring = {8, 45, 45};
  comm.tree = {8, 45, 45};
  return comm;
}

double all_reduce_us(const NcclCommunicator& comm, Algorithm algorithm, Protocol protocol, Bytes size) {
  return nccl_time_us(comm, nccl_cost(comm, Collective::all_reduce, algorithm, protocol), Collective::all_reduce, size);
}

TEST_CASE("NCCL's forecast of a ring over 8 GPUs of one node", "[oracle][network]") {
  NcclCommunicator comm;
  comm.ring = {12, 30, 30};
  const NcclCost ring = nccl_cost(comm, Collective::all_reduce, Algorithm::ring, Protocol::simple);
  // Latency 8.4 + 14 x 3.4 us; bandwidth 12 x 30 x 8/14 GB/s.
  CHECK(ring.latency_us() == Approx(56.0).epsilon(1e-12));
  CHECK(ring.bandwidth == Approx(205.714286).epsilon(1e-8));
  CHECK(all_reduce_us(comm, Algorithm::ring, Protocol::simple, 1_MiB) == Approx(61.10).margin(0.005));
  CHECK(all_reduce_us(comm, Algorithm::ring, Protocol::simple, 1_GiB) == Approx(5275.58).margin(0.005));
}

TEST_CASE("NCCL's forecast of ring and tree over 16 nodes", "[oracle][network]") {
  const NcclCommunicator comm = sixteen_nodes();
  const NcclCost ring = nccl_cost(comm, Collective::all_reduce, Algorithm::ring, Protocol::simple);
  // (8.4 + 224 x 3.4 + 30 x 14) x 1.4
  CHECK(ring.latency_us() * nccl_latency_factor(comm, ring, Collective::all_reduce, 1_GiB) ==
        Approx(1666.0).margin(0.05));
  CHECK(ring.bandwidth == Approx(181.42).margin(0.005));
  CHECK(all_reduce_us(comm, Algorithm::ring, Protocol::simple, 1_GiB) == Approx(7584.6).margin(0.05));
  CHECK(all_reduce_us(comm, Algorithm::ring, Protocol::simple, 1_MiB) == Approx(1671.8).margin(0.05));

  const NcclCost tree = nccl_cost(comm, Collective::all_reduce, Algorithm::tree, Protocol::simple);
  CHECK(tree.latency_us() == Approx(176.4).epsilon(1e-12));  // 8.4 + 2 (7 x 4 + 4 x 14)
  CHECK(tree.bandwidth == Approx(144.0).epsilon(1e-12));     // 8 channels, each at most 36
  CHECK(all_reduce_us(comm, Algorithm::tree, Protocol::simple, 1_GiB) == Approx(7632.9).margin(0.05));
  CHECK(all_reduce_us(comm, Algorithm::tree, Protocol::simple, 1_MiB) == Approx(190.96).margin(0.005));
}

TEST_CASE("a flat ring against reduce, exchange, gather", "[oracle][network]") {
  // 8 NICs of 48 GB/s and 370 GB/s of NVLink per GPU; only the bandwidth terms.
  const auto milliseconds = [](int ranks, int nodes, double bus, Collective collective, Bytes size) {
    NcclCommunicator comm;
    comm.ranks = ranks;
    comm.nodes = nodes;
    comm.ranks_per_node = ranks / nodes;
    comm.ring = {1, bus, bus};
    return static_cast<double>(size.count) / nccl_cost(comm, collective, Algorithm::ring, Protocol::simple).bandwidth *
           1e-6;
  };
  const auto hierarchical = [&](int nodes) {
    return milliseconds(8, 1, 370, Collective::reduce_scatter, 1_GiB) +
           milliseconds(nodes, nodes, 48, Collective::all_reduce, 128_MiB) +
           milliseconds(8, 1, 370, Collective::all_gather, 1_GiB);
  };
  CHECK(milliseconds(64, 8, 8 * 48, Collective::all_reduce, 1_GiB) == Approx(5.505).margin(0.0005));
  CHECK(hierarchical(8) == Approx(9.972).margin(0.0005));
  CHECK(milliseconds(1024, 128, 8 * 48, Collective::all_reduce, 1_GiB) == Approx(5.587).margin(0.0005));
  CHECK(hierarchical(128) == Approx(10.627).margin(0.0005));
}

TEST_CASE("NCCL's channels are those seen on real machines", "[oracle][network]") {
  SECTION("12 x 20 on A100, 12 x 30 on H100, and one NVLS head per GPU") {
    const GroupPlacement node = place(dgx_a100(8), range(8), 1);
    const NcclGraph a100 = nccl_communicator(dgx_a100(8), node, NcclArchitecture::ampere).ring;
    CHECK(a100.channels * a100.intra == 240);
    CHECK(a100.channels == 12);
    const NcclCommunicator h100 = nccl_communicator(dgx_h100(8), node, NcclArchitecture::hopper);
    CHECK(h100.ring.channels * h100.ring.intra == 360);
    CHECK(h100.ring.channels == 12);
    // 8 heads of 40 GB/s: 8 x 40 x 0.85 x 7/8 x 2 = 476 GB/s of busbw; measured 480 to 490.
    const NcclCost nvls = nccl_cost(h100, Collective::all_reduce, Algorithm::nvls, Protocol::simple);
    CHECK(nvls.bandwidth * 2 * 7 / 8 == Approx(476));
  }
  SECTION("8 x 45 over 8 NDR NICs, 8 x 24 over 8 HDR NICs, 4 x 24 where two GPUs share a NIC") {
    const auto total = [](const Cluster& cluster, NcclArchitecture architecture) {
      const NcclGraph ring = nccl_communicator(cluster, place(cluster, range(32), 1), architecture).ring;
      return ring.channels * ring.inter;
    };
    CHECK(total(dgx_h100(32), NcclArchitecture::hopper) == 360);
    CHECK(total(dgx_a100(32), NcclArchitecture::ampere) == 192);
    Cluster shared = dgx_a100(32);
    shared.node.nics = 4;
    CHECK(total(shared, NcclArchitecture::ampere) == 96);
  }
}

TEST_CASE("A channel inside a node has the fastest rate of NCCL's list that the GPU carries", "[oracle][network]") {
  // docs/references.md#nccl-tuning: one channel for each of 8 GPUs, which share a GPU's rate.
  const auto channel = [](NcclArchitecture architecture, double of_eight) {
    Cluster cluster = dgx_h100(8);
    const GroupPlacement group = place(cluster, range(8), 1);
    cluster.node.gpu_link = {1'000'000'000'000};
    const double counted = nccl_gpu_rate(cluster.node, group, architecture);
    cluster.node.gpu_link.bytes_per_second = static_cast<std::int64_t>(8 * of_eight / counted * 1e12);
    return nccl_communicator(cluster, group, architecture).nvls.intra;
  };
  for (const double rate : {90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0})
    CHECK(channel(NcclArchitecture::blackwell, rate + 0.5) == rate);
  for (const double rate : {60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0})
    CHECK(channel(NcclArchitecture::hopper, rate + 0.5) == rate);
  CHECK(channel(NcclArchitecture::blackwell, 17.5) == Approx(17.5));  // all of the list are faster
}

TEST_CASE("NCCL's forecast of parallel aggregated trees over 16 nodes", "[oracle][network]") {
  NcclCommunicator comm = sixteen_nodes();
  comm.ranks = 16;
  comm.ranks_per_node = 1;
  const NcclCost pat = nccl_cost(comm, Collective::all_gather, Algorithm::pat, Protocol::simple);
  CHECK(pat.latency_us() == Approx(8 + 2.8 * 16 + 4 * 14 / 3.5));   // base, a part of each rank, log2(16) hops
  CHECK(pat.bandwidth == Approx(0.75 * 8 * 45 * 16.0 / (16 - 1)));  // three quarters of the channels' rate
}

TEST_CASE("What each algorithm is allowed for", "[network]") {
  const NcclCommunicator one =
      nccl_communicator(dgx_h100(8), place(dgx_h100(8), range(8), 1), NcclArchitecture::hopper);
  const NcclCommunicator many =
      nccl_communicator(dgx_h100(64), place(dgx_h100(64), range(64), 1), NcclArchitecture::hopper);
  const auto usable = [](const NcclCommunicator& comm, Collective collective, Algorithm algorithm) {
    return nccl_cost(comm, collective, algorithm, Protocol::simple).bandwidth > 0;
  };
  CHECK(usable(one, Collective::broadcast, Algorithm::ring));
  CHECK_FALSE(usable(one, Collective::broadcast, Algorithm::tree));
  CHECK_FALSE(usable(one, Collective::all_gather, Algorithm::tree));
  CHECK(usable(one, Collective::all_gather, Algorithm::nvls));
  CHECK_FALSE(usable(one, Collective::all_reduce, Algorithm::nvls_tree));
  CHECK(usable(many, Collective::all_reduce, Algorithm::nvls_tree));
  CHECK_FALSE(usable(many, Collective::all_reduce, Algorithm::nvls));  // needs a network that reduces
  CHECK_FALSE(usable(many, Collective::all_reduce, Algorithm::collnet_direct));
  CHECK_FALSE(usable(many, Collective::all_gather, Algorithm::pat));  // 8 ranks per node
  CHECK(nccl_cost(many, Collective::all_reduce, Algorithm::nvls_tree, Protocol::ll).bandwidth == 0);
}

TEST_CASE("A channel of LL128 moves at most 20 GB/s on Volta", "[oracle][network]") {
  NcclCommunicator comm = sixteen_nodes();
  comm.architecture = NcclArchitecture::volta;
  for (const int nodes : {1, 2, 16}) {
    comm.nodes = nodes;
    const NcclCost ring = nccl_cost(comm, Collective::all_gather, Algorithm::ring, Protocol::ll128);
    CHECK(ring.bandwidth == Approx(8 * 20 * 128 / 127.0));
  }
}

TEST_CASE("Gathers through a network that reduces share its channels among the ranks of a node", "[oracle][network]") {
  NcclCommunicator comm = sixteen_nodes();
  comm.collnet = {4, 45, 20};
  const auto bandwidth = [&] {
    return nccl_cost(comm, Collective::all_gather, Algorithm::collnet_direct, Protocol::simple).bandwidth;
  };
  CHECK(bandwidth() == Approx(0.9 * 20 * 4 / 2));  // 8 ranks, 4 channels
  comm.collnet = {16, 45, 20};
  CHECK(bandwidth() == Approx(0.9 * 20 * 8 / 2));  // each rank has one
  comm.collnet = {16, 15, 20};
  CHECK(bandwidth() == Approx(8 * 15 / 2.0));  // NVLink is slower
}

TEST_CASE("Small messages use few channels, large ones twice those of the search", "[network]") {
  NcclCost cost;
  cost.channels = 12;
  CHECK(nccl_channels(cost, 8_B) == 1);
  CHECK(nccl_channels(cost, 4 * 512 * 64 * 1_B) == 4);
  CHECK(nccl_channels(cost, (4 * 512 * 64 - 1) * 1_B) == 3);
  CHECK(nccl_channels(cost, 1_GiB) == 24);
}

TEST_CASE("The tree's correction is NCCL's at powers of two and linear between them", "[network]") {
  NcclCost tree;
  tree.algorithm = Algorithm::tree;
  CHECK(nccl_bandwidth_factor(tree, 64_B) == 0.9);
  CHECK(nccl_bandwidth_factor(tree, 512_KiB) == 0.5);
  CHECK(nccl_bandwidth_factor(tree, 1_MiB) == 0.5);
  CHECK(nccl_bandwidth_factor(tree, 2_MiB) == 0.6);
  CHECK(nccl_bandwidth_factor(tree, 1_MiB + 512_KiB) == Approx(0.5 + 0.1 * std::log2(1.5)));
  CHECK(nccl_bandwidth_factor(tree, 256_MiB) == Approx(0.9));
  CHECK(nccl_bandwidth_factor(tree, 512_MiB) == 1);
  tree.algorithm = Algorithm::ring;
  CHECK(nccl_bandwidth_factor(tree, 1_MiB) == 1);
}

TEST_CASE("The rate of NICs changes the rate of channels as much, whatever step NCCL's ladder takes",
          "[property][network]") {
  Cluster cluster = dgx_h100(64);
  const std::vector<int> ranks = range(8, 0, 8);  // one rank per node
  const auto ring = [&](std::int64_t nic_rate, double slow) {
    cluster.node.nic_rate = {nic_rate};
    cluster.faults.slow_nics.clear();
    if (slow < 1) cluster.faults.slow_nics = {{2, 0, slow}};
    const NcclCommunicator comm = nccl_communicator(cluster, place(cluster, ranks, 8), NcclArchitecture::hopper);
    return comm.ring.channels * comm.ring.inter;
  };
  CHECK(ring(50'000'000'000, 1) == Approx(48));
  for (const double share : {0.999, 0.85, 0.83, 0.7, 0.62, 0.5}) {
    CHECK(ring(50'000'000'000, share) == Approx(48 * share));
    CHECK(ring(std::llround(50e9 * share), 1) == Approx(48 * share));
  }
}

}  // namespace
}  // namespace tracecast
