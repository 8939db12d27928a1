#include "sim/graph/link_classes.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/forecast/forecast.hpp"
#include "sim/graph/build_context.hpp"
#include "sim/graph/folded_step.hpp"
#include "sim/graph/stage_loads.hpp"
#include "tests/support/small_scenario.hpp"

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

/// Classes of four equivalent ranks in two communicators, of which 0 and 2 send; no transfers share links.
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

/// Nothing if a stage is of several classes.
std::optional<FoldedLoads> loads_by_stage(const StepGraph& graph, const Plan& plan, const Groups& groups,
                                          const ClusterLinks& links) {
  const std::optional<StageParts> parts = fold_stages(graph, plan, groups, links);
  return parts && parts->ranks.empty() ? std::optional(parts->loads) : std::nullopt;
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

TEST_CASE("Ranks of one program whose channels lead elsewhere are of two classes", "[graph][folding]") {
  // 0 and 2 run program 0. Their first channels lead to equivalent ranks; the second one of 2 leads to a rank of program 2.
  StepGraph graph;
  graph.ranks.resize(5);
  const std::int32_t programs[] = {0, 1, 0, 1, 2};
  for (std::size_t rank = 0; rank < 5; ++rank) graph.ranks[rank].program = programs[rank];
  graph.ranks[0].channels = {{1, 0}, {1, 0}};
  graph.ranks[2].channels = {{3, 0}, {4, 0}};
  LinkedStep step{graph, {}, {}, {}, {}};
  CHECK(refine(step).rank == std::vector<std::int32_t>{0, 1, 2, 1, 3});
  graph.ranks[2].channels = {{3, 0}, {3, 0}};
  CHECK(refine(step).rank == std::vector<std::int32_t>{0, 1, 0, 1, 2});
}

/// All numbers of the loads.
std::vector<std::int64_t> numbers_of(const FoldedLoads& loads) {
  std::vector<std::int64_t> numbers;
  for (const auto* transfers : {&loads.collectives, &loads.messages}) {
    numbers.push_back(static_cast<std::int64_t>(transfers->size()));
    for (const FoldedTransfer& each : *transfers) {
      for (const std::int64_t number :
           {std::int64_t{each.owner}, std::int64_t{each.number}, each.shape.latency.picoseconds,
            each.shape.moving.picoseconds, each.shape.limit.bytes_per_second})
        numbers.push_back(number);
      for (const LinkWeight& load : each.shape.loads) {
        numbers.push_back(load.link);
        numbers.push_back(load.weight);
      }
    }
  }
  return numbers;
}

TEST_CASE("Loads known from other layouts are those of each layout", "[graph][folding]") {
  std::vector<Scenario> layouts;
  for (const int zero : {1, 0, 3}) {
    Scenario scenario = test::small_scenario(8, 4, 16);
    scenario.parallel.zero_stage = zero;
    layouts.push_back(scenario);
    scenario.training.recompute = Recompute::full;  // the same transfers
    layouts.push_back(scenario);
    scenario.parallel.vpp = 2;
    layouts.push_back(scenario);
    scenario.parallel.rank_order = "tp-pp-dp-cp-ep";
    layouts.push_back(scenario);
    scenario.training.micro_batch_size = 2;
    layouts.push_back(scenario);
    scenario.parallel.shard_group = zero == 0 ? 0 : 8;
    layouts.push_back(scenario);
  }
  for (const auto& [tp, pp, dp] : {std::tuple{4, 4, 32}, {8, 2, 32}})
    layouts.push_back(test::small_scenario(tp, pp, dp));
  KnownLoads known;
  int with_loads = 0;
  for (int round = 0; round < 2; ++round)
    for (const Scenario& scenario : layouts) {
      const ForecastRun run = forecast(scenario, {.network = NetworkKind::isolated}).value();
      const Groups groups = groups_of(scenario.model, run.plan, run.schedule);
      const ClusterLinks links(scenario.cluster, scenario.profile.architecture);
      const auto parts = fold_stages(run.graph, run.plan, groups, links);
      REQUIRE(parts);
      CHECK(numbers_of(known.fold_stages(run.graph, run.plan, groups, links)->loads) == numbers_of(parts->loads));
      with_loads += parts->ranks.empty() ? 1 : 0;
    }
  CHECK(with_loads > 20);
}

/// Loads in the order of their owners.
std::vector<std::int64_t> sorted_numbers_of(FoldedLoads loads) {
  const auto number = [](const FoldedTransfer& each) { return std::pair(each.owner, each.number); };
  std::ranges::sort(loads.collectives, {}, number);
  std::ranges::sort(loads.messages, {}, number);
  return numbers_of(loads);
}

TEST_CASE("Stages of several classes are divided as refining all ranks divides them", "[graph][folding]") {
  // Trees load the NICs of their roots and leaves differently, beside the messages between stages.
  int divided = 0;
  for (const auto& [tp, pp, dp] : {std::tuple{8, 4, 8}, {4, 4, 16}, {2, 2, 32}, {1, 4, 16}, {16, 2, 4}})
    for (const std::int64_t batch : {dp, 4 * dp}) {
      Scenario scenario = test::small_scenario(tp, pp, dp);
      scenario.parallel.zero_stage = 0;
      scenario.training.global_batch_size = batch;
      const ForecastRun run = forecast(scenario, {.network = NetworkKind::isolated}).value();
      const Groups groups = groups_of(scenario.model, run.plan, run.schedule);
      const ClusterLinks links(scenario.cluster, scenario.profile.architecture);
      std::optional<StageParts> parts = fold_stages(run.graph, run.plan, groups, links);
      if (!parts || parts->ranks.empty()) continue;
      ++divided;
      StepGraph graph = run.graph;
      apply(std::move(*parts), graph);
      const StepGraph expected = fold(forecast(scenario, {.unfold = true})->graph, links);
      REQUIRE(graph.ranks.size() == expected.ranks.size());
      for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank) {
        CHECK(graph.ranks[rank].representative == expected.ranks[rank].representative);
        CHECK(graph.ranks[rank].multiplicity == expected.ranks[rank].multiplicity);
        CHECK(graph.ranks[rank].program == expected.ranks[rank].program);
        CHECK(graph.ranks[rank].communicators == expected.ranks[rank].communicators);
        CHECK(graph.ranks[rank].channels == expected.ranks[rank].channels);
      }
      REQUIRE(graph.communicators.size() == expected.communicators.size());
      for (std::size_t i = 0; i < graph.communicators.size(); ++i) {
        CHECK(graph.communicators[i].name == expected.communicators[i].name);
        CHECK(graph.communicators[i].placement == expected.communicators[i].placement);
        CHECK(graph.communicators[i].members == expected.communicators[i].members);
      }
      CHECK(sorted_numbers_of(*graph.loads) == sorted_numbers_of(*expected.loads));
    }
  CHECK(divided > 0);
}

}  // namespace
