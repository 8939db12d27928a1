#include "sim/network/double_tree.hpp"

#include <algorithm>

#include <catch2/catch.hpp>

namespace tracecast {
namespace {

TEST_CASE("the first tree over 14 ranks", "[oracle][network]") {
  const std::vector<int> parents{-1, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12};
  for (int rank = 0; rank < 14; ++rank) CHECK(first_tree(rank, 14).parent == parents[static_cast<std::size_t>(rank)]);
  CHECK(first_tree(8, 14).children == std::vector<int>{4, 12});
  CHECK(first_tree(12, 14).children == std::vector<int>{10, 13});
  CHECK(first_tree(0, 14).children == std::vector<int>{8});
}

TEST_CASE("Both trees span all ranks, and who is inner in one is a leaf in the other", "[property][network]") {
  for (int n = 1; n <= 70; ++n) {
    INFO(n << " ranks");
    for (const auto tree : {first_tree, second_tree}) {
      int roots = 0;
      for (int rank = 0; rank < n; ++rank) {
        const TreePlace place = tree(rank, n);
        CHECK(place.children.size() <= 2);
        for (const int child : place.children) CHECK(tree(child, n).parent == rank);
        int depth = 0;
        int up = rank;
        for (; tree(up, n).parent >= 0 && depth <= n; up = tree(up, n).parent) ++depth;
        CHECK((1 << std::max(0, depth - 1)) <= n);  // about log2 n levels
        if (place.parent < 0) {
          ++roots;
          continue;
        }
        const std::vector<int> siblings = tree(place.parent, n).children;
        CHECK(std::count(siblings.begin(), siblings.end(), rank) == 1);
      }
      CHECK(roots == 1);
    }
    for (int rank = 0; n % 2 == 0 && rank < n; ++rank)
      CHECK(std::min(first_tree(rank, n).children.size(), second_tree(rank, n).children.size()) == 0);
  }
}

}  // namespace
}  // namespace tracecast
