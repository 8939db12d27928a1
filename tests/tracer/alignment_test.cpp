#include "tracer/alignment.hpp"

#include <algorithm>
#include <random>

#include <catch2/catch.hpp>

using namespace tracecast;

namespace {

using Sequence = std::vector<std::int32_t>;

/// Equal numbers match with these weights; the last class of found items may be a further part.
AlignmentTask task_of(const Sequence& found, const Sequence& expected, const std::vector<int>& weights,
                      std::vector<bool> joins) {
  AlignmentTask task{found, expected, {}, std::move(joins)};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    task.weights.emplace_back(weights.size(), 0);
    task.weights.back()[i] = weights[i];
  }
  return task;
}

/// Sum of weights of an assignment; -1: out of order, or of items that cannot be the same.
int value_of(const AlignmentTask& task, const std::vector<std::int32_t>& places) {
  int sum = 0;
  std::int32_t last = -1;
  for (std::size_t f = 0; f < places.size(); ++f) {
    const std::int32_t e = places[f];
    if (e < 0) continue;
    const auto kind = static_cast<std::size_t>(task.found[f]);
    const int weight = task.weights[kind][static_cast<std::size_t>(task.expected[static_cast<std::size_t>(e)])];
    const bool part = e == last && f > 0 && places[f - 1] == e && task.joins[kind];
    if (weight == 0 || e < last || (e == last && !part)) return -1;
    sum += part ? 1 : weight;
    last = e;
  }
  return sum;
}

/// The best value of all assignments, by trying every one.
int best_of_all(const AlignmentTask& task, std::vector<std::int32_t>& places) {
  if (places.size() == task.found.size()) return value_of(task, places);
  int best = -1;
  for (std::int32_t e = -1; e < static_cast<std::int32_t>(task.expected.size()); ++e) {
    places.push_back(e);
    best = std::max(best, best_of_all(task, places));
    places.pop_back();
  }
  return best;
}

}  // namespace

TEST_CASE("alignment: what is not expected and what was not found is skipped", "[tracer][profile-from]") {
  const Sequence found{0, 3, 1, 0};
  const Sequence expected{0, 1, 2, 0};
  CHECK(align(task_of(found, expected, {2, 2, 2, 0}, {false, false, false, false})) == Sequence{0, -1, 1, 3});
}

TEST_CASE("alignment: several in a row are parts of one, unless as many are expected", "[tracer][profile-from]") {
  const Sequence found{1, 1, 1, 0};
  const std::vector<int> weights{4, 2};
  CHECK(align(task_of(found, Sequence{1, 0}, weights, {false, true})) == Sequence{0, 0, 0, 1});
  CHECK(align(task_of(found, Sequence{1, 1, 1, 0}, weights, {false, true})) == Sequence{0, 1, 2, 3});
  const auto alone = align(task_of(found, Sequence{1, 0}, weights, {false, false}));
  REQUIRE(alone);
  CHECK(std::count(alone->begin(), alone->end(), 0) == 1);
}

TEST_CASE("alignment: nothing beside nothing", "[tracer][profile-from]") {
  CHECK(align(task_of(Sequence{}, Sequence{}, {1}, {false})) == Sequence{});
  CHECK(align(task_of(Sequence{0, 0}, Sequence{}, {1}, {false})) == Sequence{-1, -1});
  CHECK(align(task_of(Sequence{}, Sequence{0}, {1}, {false})) == Sequence{});
}

TEST_CASE("alignment: its weight is that of the best of all assignments", "[oracle][tracer][profile-from]") {
  std::mt19937_64 random(20'261'121);
  for (int round = 0; round < 200; ++round) {
    Sequence found(random() % 6);
    Sequence expected(random() % 5);
    for (std::int32_t& each : found) each = static_cast<std::int32_t>(random() % 3);
    for (std::int32_t& each : expected) each = static_cast<std::int32_t>(random() % 3);
    const AlignmentTask task = task_of(found, expected, {6, 2, 2}, {false, true, false});
    const auto places = align(task);
    REQUIRE(places);
    std::vector<std::int32_t> tried;
    CAPTURE(round, found, expected, *places);
    CHECK(value_of(task, *places) == best_of_all(task, tried));
  }
}

TEST_CASE("alignment: a band around the diagonal is enough for steps that repeat", "[tracer][profile-from]") {
  Sequence found;
  Sequence expected;
  for (int layer = 0; layer < 3'000; ++layer) {
    for (const std::int32_t kind : {0, 1, 2}) expected.push_back(kind);
    for (const std::int32_t kind : {0, 3, 1, 2, 2}) found.push_back(kind);
  }
  const AlignmentTask task = task_of(found, expected, {4, 2, 2, 0}, {false, false, true, false});
  const auto narrow = align(task, std::int64_t{15'001} * 1'000);
  REQUIRE(narrow);
  CHECK(narrow == align(task));
  CHECK(value_of(task, *narrow) == 3'000 * (4 + 2 + 2 + 1));
  CHECK_FALSE(align(task, std::int64_t{15'001} * 100));
}
