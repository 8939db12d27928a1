// Results in a database are read back unchanged, for their own problem only.
#include "sim/search/search_store.hpp"

#include <chrono>
#include <fstream>
#include <thread>

#include <catch2/catch.hpp>

#include "sim/base/sqlite.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;

namespace {

/// Layouts 0 to count - 1 and what an evaluation of them would say.
std::vector<std::pair<Layout, LayoutBound>> layouts(int count) {
  std::vector<std::pair<Layout, LayoutBound>> round(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    auto& [layout, bound] = round[static_cast<std::size_t>(i)];
    layout.id = i;
    layout.tp = 1 + i;
    layout.pp_schedule = i % 2 == 0 ? "" : "zb-h1";
    bound.step_time.picoseconds = 1000 + i;
  }
  return round;
}

std::vector<Evaluation> evaluations(SearchRound round, Duration = {}) {
  std::vector<Evaluation> result;
  for (const auto& [layout, bound] : round) {
    Evaluation e;
    e.layout = layout;
    e.bound = bound;
    e.valid = layout.id % 3 != 0;
    e.fits = layout.id % 3 == 1;
    e.memory.count = 1LL << 40;
    e.step_time_s = 1.0 / static_cast<double>(3 + layout.id);
    e.exposed_s[7] = 1e-300;
    result.push_back(e);
  }
  return result;
}

}  // namespace

TEST_CASE("search store: stored results are read back exactly and not evaluated again", "[io][search]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "store.db";
  const auto round = layouts(7);
  {
    SearchStore store = SearchStore::open(file).value();
    CHECK(store.remembering("problem", evaluations)(std::span(round).first(4), {}) ==
          evaluations(std::span(round).first(4)));
  }
  SearchStore store = SearchStore::open(file).value();
  std::size_t evaluated = 0;
  const EvaluateRound counting = [&](SearchRound unknown, Duration) {
    evaluated += unknown.size();
    return evaluations(unknown);
  };
  CHECK(store.remembering("problem", counting)(round, {}) == evaluations(round));
  CHECK(evaluated == 3);
  store.remembering("another problem", counting)(round, {});
  CHECK(evaluated == 3 + 7);
  CHECK(store.failure().empty());
}

TEST_CASE("search store: layouts that were given up are evaluated again", "[io][search]") {
  const TemporaryFolder folder;
  SearchStore store = SearchStore::open(folder.path() / "store.db").value();
  const auto round = layouts(4);
  std::size_t evaluated = 0;
  const EvaluateRound first_is_slow = [&](SearchRound unknown, Duration longest) {
    std::vector<Evaluation> found = evaluations(unknown);
    for (std::size_t i = 0; i < unknown.size(); ++i)
      found[i].given_up = longest > Duration{} && unknown[i].first.id == round.front().first.id;
    evaluated += unknown.size();
    return found;
  };
  CHECK(store.remembering("problem", first_is_slow)(round, {1}).front().given_up);
  CHECK(store.remembering("problem", first_is_slow)(round, {}) == evaluations(round));
  CHECK(evaluated == 4 + 1);
}

TEST_CASE("search store: waits while another process writes", "[io][search]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "store.db";
  const auto round = layouts(7);
  SearchStore store = SearchStore::open(file).value();
  SqliteDatabase other(file);
  REQUIRE(other.run("BEGIN IMMEDIATE"));
  std::thread late([&other] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    other.run("COMMIT");
  });
  CHECK(store.remembering("problem", evaluations)(round, {}) == evaluations(round));
  late.join();
  CHECK(store.failure().empty());
}

TEST_CASE("search store: layouts are found although another space numbers them differently", "[io][search]") {
  const TemporaryFolder folder;
  SearchStore store = SearchStore::open(folder.path() / "store.db").value();
  auto round = layouts(3);
  store.remembering("problem", evaluations)(round, {});
  // The first two have a stored number but differ in one choice. The third is a stored layout with another number.
  auto other = layouts(3);
  other[0].first.sequence_parallel = false;
  other[1].first.offload.optimizer = true;
  other[2].first.id = 17;
  std::vector<std::int64_t> evaluated;
  store.remembering("problem", [&](SearchRound unknown, Duration) {
    for (const auto& [layout, bound] : unknown) evaluated.push_back(layout.id);
    return evaluations(unknown);
  })(other, {});
  CHECK(evaluated == std::vector<std::int64_t>{0, 1});
}

TEST_CASE("search store: another file is an error", "[io][search][error]") {
  const TemporaryFolder folder;
  const auto file = folder.path() / "no.db";
  std::ofstream(file) << "certainly not a database, but long enough to be looked at as one\n";
  const auto failed = SearchStore::open(file);
  REQUIRE_FALSE(failed.has_value());
  CHECK(to_string(failed.error()).find("must be a writable database of search results (file is not a database)") !=
        std::string::npos);
  CHECK_FALSE(SearchStore::open("/no/such/folder/results.db").has_value());
}
