#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/plan/plan.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;

namespace {

constexpr std::array<Axis, kAxes> kDefault{Axis::tp, Axis::cp, Axis::dp, Axis::pp};

std::string message(const std::string& order) { return error_text(parse_rank_order(order)); }

}  // namespace

TEST_CASE("rank 37 of t = 8, C = 1, D = 4, P = 2", "[oracle][plan]") {
  const RankGrid grid({8, 1, 4, 2}, kDefault);
  CHECK(grid.ranks() == 64);
  CHECK(grid.coordinates(37) == Coordinates{{5, 0, 0, 1}});
  CHECK(grid.rank({{5, 0, 0, 1}}) == 37);
  CHECK(grid.stride(Axis::dp) == 8);
  CHECK(grid.stride(Axis::pp) == 32);
}

TEST_CASE("groups: tensor-parallel contiguous, data-parallel strided, pipeline neighbours t C D apart",
          "[oracle][plan]") {
  const RankGrid grid({4, 2, 3, 2}, kDefault);
  CHECK(grid.group(6, {Axis::tp}) == std::vector<int>{4, 5, 6, 7});
  CHECK(grid.group(6, {Axis::dp}) == std::vector<int>{6, 14, 22});
  CHECK(grid.group(6, {Axis::pp}) == std::vector<int>{6, 30});
  CHECK(grid.group(6, {Axis::dp, Axis::cp}) == std::vector<int>{2, 6, 10, 14, 18, 22});
  CHECK(grid.group(6, {}) == std::vector<int>{6});
}

TEST_CASE("tensor in the node, pipeline between nodes of a rack, data across racks", "[oracle][plan]") {
  const auto order = parse_rank_order("tp-pp-dp");
  REQUIRE(order);
  CHECK(*order == std::array<Axis, kAxes>{Axis::tp, Axis::pp, Axis::dp, Axis::cp});
  const RankGrid grid({8, 1, 4, 2}, *order);
  CHECK(grid.coordinates(37) == Coordinates{{5, 0, 2, 0}});
}

TEST_CASE("coordinates and ranks are each other's inverse, for every order", "[property][plan]") {
  std::array<Axis, kAxes> order = kDefault;
  std::sort(order.begin(), order.end());
  do {
    const RankGrid grid({2, 3, 4, 5}, order);
    for (int rank = 0; rank < grid.ranks(); ++rank) {
      REQUIRE(grid.rank(grid.coordinates(rank)) == rank);
      const std::vector<int> group = grid.group(rank, {Axis::dp, Axis::tp});
      REQUIRE(group.size() == 8);
      REQUIRE(std::is_sorted(group.begin(), group.end()));
      for (const int member : group) {
        Coordinates expected = grid.coordinates(rank);
        expected[Axis::dp] = grid.coordinates(member)[Axis::dp];
        expected[Axis::tp] = grid.coordinates(member)[Axis::tp];
        REQUIRE(grid.rank(expected) == member);
      }
    }
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("rank orders are read, and refused with what is allowed", "[error][plan]") {
  CHECK(parse_rank_order("tp-cp-ep-dp-pp") == kDefault);
  CHECK(parse_rank_order("tp-cp-ep-pp-dp") == std::array<Axis, kAxes>{Axis::tp, Axis::cp, Axis::pp, Axis::dp});
  CHECK(message("tp-xx") ==
        "parallel.rank_order = tp-xx: unknown axis 'xx' "
        "(allowed: the axes tp cp ep dp pp in any order, fastest first, as in tp-cp-ep-dp-pp)");
  CHECK(message("tp-dp-tp") ==
        "parallel.rank_order = tp-dp-tp: 'tp' appears twice "
        "(allowed: the axes tp cp ep dp pp in any order, fastest first, as in tp-cp-ep-dp-pp)");
  CHECK(message("") != "");
}
