#include "sim/graph/classes.hpp"

#include <catch2/catch.hpp>

using namespace tracecast;

namespace {

/// 4 x 4 ranks: family 0 joins rows, family 1 joins columns.
RankRelations grid() {
  RankRelations relations;
  relations.seed.assign(16, 0);
  relations.families.resize(2);
  for (std::int32_t rank = 0; rank < 16; ++rank) {
    relations.families[0].group_of.push_back(rank / 4);
    relations.families[1].group_of.push_back(rank % 4);
  }
  relations.families[0].label.assign(4, 0);
  relations.families[1].label.assign(4, 0);
  return relations;
}

}  // namespace

TEST_CASE("classes: ranks that do not differ are one class", "[classes]") {
  const RankClasses classes = refine(grid());
  CHECK(classes.first == std::vector<std::int32_t>{0});
  CHECK(classes.size == std::vector<std::int32_t>{16});
}

TEST_CASE("classes: one special rank of a grid makes four", "[oracle][classes]") {
  // Itself, the rest of its row, the rest of its column, and those that share neither.
  RankRelations relations = grid();
  relations.seed[5] = 1;
  const RankClasses classes = refine(relations);
  CHECK(classes.first == std::vector<std::int32_t>{0, 1, 4, 5});
  CHECK(classes.size == std::vector<std::int32_t>{9, 3, 3, 1});
  CHECK(classes.class_of[6] == classes.class_of[4]);
  CHECK(classes.class_of[9] == classes.class_of[1]);
}

TEST_CASE("classes: a group placed elsewhere separates its members", "[classes]") {
  RankRelations relations = grid();
  relations.families[0].label[2] = 7;
  const RankClasses classes = refine(relations);
  CHECK(classes.size == std::vector<std::int32_t>{12, 4});
  CHECK(classes.first == std::vector<std::int32_t>{0, 8});
}

TEST_CASE("classes: numbers of members count, not only which classes meet", "[classes]") {
  // Groups {0 special, 1} and {2 special, 3 special, 4}: the same colours meet, but not in the same numbers.
  RankRelations relations;
  relations.seed = {1, 0, 1, 1, 0};
  relations.families.push_back({{0, 0, 1, 1, 1}, {0, 0}});
  CHECK(refine(relations).size == std::vector<std::int32_t>{1, 1, 2, 1});
}

TEST_CASE("classes: news travels along a chain of partners", "[classes]") {
  // 0 - 1 - 2 - 3 - 4 - 5, where the last is special: each has its own distance from it.
  RankRelations relations;
  relations.seed = {0, 0, 0, 0, 0, 1};
  relations.partners = {{1, 2, 3, 4, 5, -1}};
  CHECK(refine(relations).first.size() == 6);
  relations.seed.back() = 0;
  CHECK(refine(relations).first.size() == 6);  // the end of the chain is special by having no partner
  relations.partners = {{1, 2, 3, 4, 5, 0}};
  CHECK(refine(relations).first.size() == 1);
}

TEST_CASE("classes: every rank alone, when that is asked for", "[classes]") {
  const RankClasses classes = every_rank(grid());
  CHECK(classes.first.size() == 16);
  CHECK(classes.group_class[1] == std::vector<std::int32_t>{4, 5, 6, 7});
  CHECK(classes.group_classes == 8);
}
