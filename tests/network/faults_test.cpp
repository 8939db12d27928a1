#include <catch2/catch.hpp>

#include "sim/network/cluster.hpp"
#include "tests/network/clusters.hpp"

namespace tracecast {
namespace {

/// Rank 3 of every node: a data-parallel group on rail 3.
const std::vector<int> kRail3 = range(8, 3, 8);

TEST_CASE("faults: a NIC at half speed slows the groups that use it", "[network][faults]") {
  Cluster cluster = dgx_h100(64);
  cluster.faults.slow_nics = {{2, 3, 0.5}};
  CHECK(place(cluster, kRail3, 8).nics == 0.5);
  CHECK(place(cluster, range(8, 4, 8), 8).nics == 1);           // another rail
  CHECK(place(cluster, range(64), 1).nics == 4);                // rings load all eight evenly, so the slowest decides
  CHECK(place(cluster, std::vector<int>{3, 11}, 8).nics == 1);  // nodes 0 and 1 only
  CHECK(place(cluster, range(64), 1).working_nics == 8);
  CHECK(place(cluster, range(64), 1).nics_per_rank == 0.5);  // of GPU 3, which decides in an all-to-all
}

TEST_CASE("faults: the GPU of a lost rail shares its neighbour's NIC", "[network][faults]") {
  Cluster cluster = dgx_h100(64);
  cluster.faults.lost_rails = {3};
  CHECK(place(cluster, kRail3, 8).nics == 0.5);
  CHECK(place(cluster, range(8, 4, 8), 8).nics == 0.5);
  CHECK(place(cluster, range(8, 5, 8), 8).nics == 1);
  CHECK(place(cluster, range(64), 1).nics == 7);  // alone on the node, a group has the seven that are left
  CHECK(place(cluster, range(64), 1).working_nics == 7);
  CHECK(place(cluster, range(64), 1).nics_per_rank == 0.5);
  CHECK(place(cluster, range(8, 3, 8), 8).ring_end_nics == 0.5);
  cluster.faults.lost_rails = {7};
  CHECK(place(cluster, range(8, 0, 8), 8).nics == 0.5);  // the next after the last is the first
}

TEST_CASE("faults: GPUs without a NIC are distributed over those that work", "[oracle][network][faults]") {
  const auto used = [](const std::vector<int>& lost) {
    std::vector<bool> works(8, true);
    for (const int nic : lost) works[static_cast<std::size_t>(nic)] = false;
    return nics_in_use(works);
  };
  CHECK(used({}) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(used({3}) == std::vector<int>{0, 1, 2, 4, 4, 5, 6, 7});
  CHECK(used({7}) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 0});
  CHECK(used({1, 3, 5, 7}) == std::vector<int>{0, 2, 2, 4, 4, 6, 6, 0});  // two users each
  CHECK(used({0, 1, 2, 3}) == std::vector<int>{4, 5, 6, 7, 4, 5, 6, 7});  // two users each as well, not five of NIC 4
  CHECK(used({0, 1, 2, 3, 4, 5}) == std::vector<int>{6, 7, 6, 7, 6, 7, 6, 7});
}

TEST_CASE("faults: which half of the NICs is lost makes no difference", "[metamorphic][network][faults]") {
  Cluster cluster = dgx_h100(64);
  for (const std::vector<int>& lost : {std::vector<int>{0, 1, 2, 3}, {1, 3, 5, 7}, {4, 5, 6, 7}, {0, 3, 4, 6}}) {
    cluster.faults.lost_rails = lost;
    CHECK(place(cluster, range(64), 1).nics == 4);
    for (int gpu = 0; gpu < 8; ++gpu) CHECK(place(cluster, range(8, gpu, 8), 8).nics == 0.5);
  }
}

TEST_CASE("faults: a GPU that keeps some of its NICs uses those alone", "[oracle][network][faults]") {
  Cluster cluster = dgx_h100(64);
  cluster.node.nics = 32;  // four at each GPU
  for (const std::vector<int>& lost : {std::vector<int>{0, 1}, {1, 3}, {0, 3}}) {
    cluster.faults.lost_rails = lost;
    CHECK(place(cluster, range(8, 0, 8), 8).nics == 2);
    CHECK(place(cluster, range(8, 1, 8), 8).nics == 4);
  }
  // GPU 0 has none left and takes half of those of GPU 1, of which three work.
  cluster.faults.lost_rails = {0, 1, 2, 3, 5};
  CHECK(place(cluster, range(8, 0, 8), 8).nics == 1.5);
  CHECK(place(cluster, range(8, 7, 8), 8).nics == 4);
}

TEST_CASE("faults: a NIC that is gone in one node is a lost rail there", "[network][faults]") {
  Cluster cluster = dgx_h100(64);
  cluster.faults.slow_nics = {{0, 3, 0}};
  CHECK(place(cluster, kRail3, 8).nics == 0.5);
  CHECK(place(cluster, std::vector<int>{11, 19}, 8).nics == 1);
}

TEST_CASE("faults: lost uplinks raise a tier's oversubscription", "[network][faults]") {
  Cluster cluster = dgx_a100(8 * 40);
  cluster.tiers[0].oversubscription = 2;
  const std::vector<int> across{0, 8 * 20};
  CHECK(place(cluster, across, 1).oversubscription == 2);
  cluster.faults.lost_uplinks = {{"leaf", 0.5}};
  CHECK(place(cluster, across, 1).oversubscription == 4);
}

TEST_CASE("faults: ranks skip the GPUs that are missing", "[network][faults]") {
  Cluster cluster = dgx_h100(40);
  cluster.faults.missing_gpus = {{1, 2}, {3, 8}};
  const auto coord_of = [&](int rank) { return std::pair(cluster.coord_of(rank).node, cluster.coord_of(rank).gpu); };
  CHECK(coord_of(7) == std::pair(0, 7));
  CHECK(coord_of(13) == std::pair(1, 5));
  CHECK(coord_of(14) == std::pair(2, 0));
  CHECK(coord_of(21) == std::pair(2, 7));
  CHECK(coord_of(22) == std::pair(4, 0));  // node 3 gives nothing
  CHECK(coord_of(39) == std::pair(6, 1));
  CHECK(cluster.nodes() == 7);
  CHECK(place(cluster, range(8, 8), 1).nodes == 2);
}

}  // namespace
}  // namespace tracecast
