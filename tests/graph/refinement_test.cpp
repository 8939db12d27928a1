#include "sim/graph/refinement.hpp"

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
