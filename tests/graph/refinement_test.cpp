#include "sim/graph/refinement.hpp"

#include <algorithm>
#include <map>
#include <random>
#include <tuple>

#include <catch2/catch.hpp>

using namespace tracecast;

namespace {

/// Two kinds: nodes 0 to 3, of which each sees one of nodes 4 and 5, and is seen by it.
struct Pairs {
  Nodes nodes;

  explicit Pairs(std::uint64_t last_label = 7) {
    for (int i = 0; i < 4; ++i) nodes.add(0);
    nodes.end_kind();
    nodes.add(7);
    nodes.add(last_label);
    nodes.end_kind();
  }
  static void each_edge(std::size_t kind, const auto& see) {
    for (std::int32_t node = 0; node < 4; ++node) {
      const std::int32_t other = 4 + node / 2;
      kind == 0 ? see(node, other, 0) : see(other, node, static_cast<std::uint32_t>(node % 2));
    }
  }
  bool stable(const std::vector<std::int32_t>& class_of) const {
    return is_stable(nodes, class_of, [](std::size_t kind, const auto& see) { each_edge(kind, see); });
  }
  NodeClasses refined() const {
    return refine(nodes, [](std::size_t kind, const auto& see) { each_edge(kind, see); });
  }
};

}  // namespace

TEST_CASE("refinement: nodes that see the same are of one class, numbered by kind", "[classes]") {
  const Pairs pairs;
  const NodeClasses classes = pairs.refined();
  CHECK(classes.of == std::vector<std::int32_t>{0, 0, 0, 0, 1, 1});
  CHECK(classes.of_kind(pairs.nodes, 1) == std::vector<std::int32_t>{0, 0});
  CHECK(classes.count(0) == 1);
  CHECK(classes.count(1) == 1);
  CHECK(pairs.stable(classes.of));
}

TEST_CASE("refinement: a label sets apart all that see it", "[classes]") {
  CHECK(Pairs(8).refined().of == std::vector<std::int32_t>{0, 0, 1, 1, 2, 3});
}

TEST_CASE("refinement: a partition is stable only if every node of a class sees the same", "[classes]") {
  const Pairs pairs;
  CHECK(pairs.stable({0, 1, 0, 1, 2, 2}));        // finer than need be
  CHECK_FALSE(pairs.stable({0, 0, 1, 1, 2, 2}));  // nodes 4 and 5 see two classes
  CHECK_FALSE(pairs.stable({0, 0, 0, 0, 1, 2}));  // nodes 0 and 2 see two classes
  CHECK_FALSE(Pairs(8).stable({0, 0, 0, 0, 1, 1}));
}

TEST_CASE("refinement: random graphs, as refined by the lists of what nodes see", "[property][classes]") {
  using Edge = std::tuple<std::int32_t, std::int32_t, std::uint32_t>;  // node, the one that it sees, label
  std::mt19937 random(5);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int graph = 0; graph < 200; ++graph) {
    const int size = 12 + below(60);
    const int first_kind = size / 2;
    Nodes nodes;
    for (int i = 0; i < size; ++i) {
      nodes.add(below(8) == 0 ? 1 : 0);
      if (i + 1 == first_kind || i + 1 == size) nodes.end_kind();
    }
    std::vector<Edge> edges;
    // Rings and pairs, so that classes stay large, and some edges at random.
    for (std::int32_t i = 0; i < size; ++i) edges.emplace_back(i, (i + 1) % size, 0);
    for (int i = below(4); i-- > 0;) edges.emplace_back(below(size), below(size), static_cast<std::uint32_t>(below(2)));
    const NodeClasses classes = refine(nodes, [&](std::size_t kind, const auto& see) {
      for (const auto& [node, other, label] : edges)
        if ((node >= first_kind) == (kind == 1)) see(node, other, label);
    });
    std::vector<std::int32_t> expected(static_cast<std::size_t>(size));
    for (int round = 0; round <= size; ++round) {
      std::map<std::vector<std::int64_t>, std::int32_t> known;
      std::vector<std::int32_t> next;
      for (std::int32_t i = 0; i < size; ++i) {
        std::vector<std::int64_t> seen;
        for (const auto& [node, other, label] : edges)
          if (node == i) seen.push_back(std::int64_t{expected[static_cast<std::size_t>(other)]} * 2 + label);
        std::sort(seen.begin(), seen.end());
        seen.push_back(i >= first_kind ? 1 : 0);
        seen.push_back(static_cast<std::int64_t>(nodes.labels[static_cast<std::size_t>(i)]));
        seen.push_back(expected[static_cast<std::size_t>(i)]);
        next.push_back(known.try_emplace(seen, static_cast<std::int32_t>(known.size())).first->second);
      }
      expected = next;
    }
    CHECK(classes.of == expected);
  }
}
