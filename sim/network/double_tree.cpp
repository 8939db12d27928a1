#include "sim/network/double_tree.hpp"

#include <algorithm>

#include "sim/base/result.hpp"

namespace tracecast {
namespace {

int lowest_bit(int rank) { return rank & -rank; }

int largest_power_below(int n) {
  int power = 1;
  while (power * 2 < n) power *= 2;
  return power;
}

/// rank + step for the largest step of half, quarter, … that is still a rank; -1 if there is none.
int upper_child(int rank, int half, int n) {
  while (half > 0 && rank + half >= n) half /= 2;
  return half > 0 ? rank + half : -1;
}

template <class Map>
TreePlace renamed(TreePlace place, Map map) {
  if (place.parent >= 0) place.parent = map(place.parent);
  for (int& child : place.children) child = map(child);
  return place;
}

}  // namespace

TreePlace first_tree(int rank, int n) {
  TRACECAST_ASSERT(rank >= 0 && rank < n, "a rank of the tree");
  if (rank == 0) return n > 1 ? TreePlace{-1, {largest_power_below(n)}} : TreePlace{};
  const int bit = lowest_bit(rank);
  const int up = (rank ^ bit) | (bit << 1);
  TreePlace place{up < n ? up : rank ^ bit, {}};
  if (bit > 1) place.children.push_back(rank - bit / 2);
  const int upper = upper_child(rank, bit / 2, n);
  if (upper >= 0) place.children.push_back(upper);
  return place;
}

TreePlace second_tree(int rank, int n) {
  if (n % 2 == 0) return renamed(first_tree(n - 1 - rank, n), [n](int r) { return n - 1 - r; });
  return renamed(first_tree((rank - 1 + n) % n, n), [n](int r) { return (r + 1) % n; });
}

double through_trees(int n) { return std::min(2.0, 0.5 * n); }

}  // namespace tracecast
