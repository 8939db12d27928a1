#include "sim/graph/link_classes.hpp"

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/graph/build_context.hpp"
#include "sim/graph/stage_loads.hpp"
#include "tests/graph/small_scenario.hpp"

using namespace tracecast;

namespace {

/// Four users of two transfers each; the first two cross links 0 and 1, the others links 2 and 3.
struct Example {
  LinkUsers users;
  std::vector<std::int32_t> user_class{0, 1, 0, 1};
  std::vector<std::int64_t> capacities{100, 200, 100, 200};

  explicit Example(std::int64_t last_weight = 7) {
    const std::int32_t light = users.number_of({5, 0});
    const std::int32_t heavy = users.number_of({5, 7});
    users.add({{0, light}, {1, heavy}});
    users.add({{0, light}});
    users.add({{3, heavy}, {2, light}});
    users.add({{2, users.number_of({5, last_weight - 7})}});
  }
};

std::optional<CrossedLinks> classes_of(const Example& example) {
  return link_classes(example.users, example.user_class, 2, example.capacities);
}

TEST_CASE("Links are of one class when users of the same classes cross them with the same weights",
          "[graph][folding]") {
  const std::optional<CrossedLinks> classes = classes_of(Example());
  REQUIRE(classes);
  CHECK(classes->of == std::vector<std::int32_t>{0, 1, 0, 1});
  CHECK(classes->count == 2);
}

TEST_CASE("Classes of users that links set apart are not stable", "[graph][folding]") {
  SECTION("their links have two capacities") {
    Example example;
    example.capacities[2] = 101;
    CHECK_FALSE(classes_of(example));
  }
  SECTION("they have two weights") { CHECK_FALSE(classes_of(Example(8))); }
  SECTION("one of them crosses two links") {
    Example example;
    example.user_class = {0, 0, 1, 1};
    CHECK_FALSE(classes_of(example));
  }
}

TEST_CASE("A folded link bears what all copies of a transfer put on one link", "[graph][folding]") {
  LinkUsers users;
  const std::int32_t weights = users.number_of({3, 4});
  for (int user = 0; user < 3; ++user) users.add({{0, weights}, {1, weights}});
  const FoldedWeights folded = folded_weights(users, {0, 0, 1}, 2, {0, 0}, 1);
  REQUIRE(folded.size() == 2);
  CHECK(folded[0] == std::vector<std::vector<LinkWeight>>{{{0, 6}}, {{0, 8}}});
  CHECK(folded[1] == std::vector<std::vector<LinkWeight>>{{{0, 3}}, {{0, 4}}});
}

TEST_CASE("Links that at most one transfer at a time loads are dropped", "[graph][folding]") {
  LinkUsers users;
  const std::int32_t weights = users.number_of({1});
  users.add({{0, weights}, {1, weights}});
  users.add({{1, weights}, {2, weights}});
  users.add({{3, weights}});
  users.drop_unshared_links(4, {1, 1, 2});  // the third has two transfers that can be in flight together
  CHECK(std::vector(users.begin(0), users.end(0)) == std::vector<LinkUsers::Load>{{1, weights}});
  CHECK(std::vector(users.begin(1), users.end(1)) == std::vector<LinkUsers::Load>{{1, weights}});
  CHECK(std::vector(users.begin(2), users.end(2)) == std::vector<LinkUsers::Load>{{3, weights}});
}

/// Classes of four alike ranks in two communicators, of which 0 and 2 send; nobody shares links with anybody.
std::vector<std::int32_t> classes_with(std::vector<std::int32_t> labels, std::int32_t first, std::int32_t second) {
  StepGraph graph;
  graph.ranks.resize(4);
  graph.communicators.resize(2);
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    graph.ranks[static_cast<std::size_t>(rank)].communicators = {rank / 2};
    graph.communicators[static_cast<std::size_t>(rank / 2)].members.push_back(rank);
  }
  LinkedStep step{graph, {}, {{0, 1, 0, first}, {2, 3, 0, second}}, std::move(labels), {100}};
  for (int user = 0; user < 4; ++user) step.users.add({});
  return refine(step).rank;
}

TEST_CASE("Ranks whose transfers take unequally long alone are of two classes", "[graph][folding]") {
  CHECK(classes_with({0, 0}, 0, 0) == std::vector<std::int32_t>{0, 1, 0, 1});
  CHECK(classes_with({0, 1}, 0, 0) == std::vector<std::int32_t>{0, 1, 2, 3});
  CHECK(classes_with({0, 0}, 0, 1) == std::vector<std::int32_t>{0, 1, 2, 3});
}

TEST_CASE("Coordinates give the classes of a healthy job, but not if a link differs", "[graph][folding]") {
  Scenario scenario = test::small_scenario(8, 4, 32);
  scenario.parallel.zero_stage = 1;
  const ForecastRun run = forecast(scenario).value();
  const Groups groups = groups_of(scenario.model, run.plan, run.schedule);
  const auto loads = [&](const Cluster& cluster) {
    return loads_by_stage(run.graph, run.plan, groups, ClusterLinks(cluster, scenario.profile.architecture));
  };
  const auto by_stage = loads(scenario.cluster);
  REQUIRE(by_stage);
  CHECK_FALSE(by_stage->collectives.empty());
  CHECK_FALSE(by_stage->messages.empty());
  Cluster damaged = scenario.cluster;
  damaged.faults.slow_nics = {{3, 3, 0.5}};
  CHECK_FALSE(loads(damaged));
  Cluster hashed = scenario.cluster;
  hashed.routing = RoutingPolicy::ecmp;
  CHECK_FALSE(loads(hashed));
  CHECK_FALSE(loads_by_stage(forecast(scenario, {.unfold = true})->graph, run.plan, groups,
                             ClusterLinks(scenario.cluster, scenario.profile.architecture)));
}

}  // namespace
