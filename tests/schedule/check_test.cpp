#include <utility>

#include <catch2/catch.hpp>

#include "sim/schedule/schedule.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;

namespace {

Schedule two_ranks() { return *make_schedule("1f1b", {.ranks = 2, .microbatches = 2}); }

std::string complaint(const Schedule& schedule) { return error_text(check(schedule)); }

std::string refusal(const std::string& name, const ScheduleRequest& request) {
  return error_text(make_schedule(name, request));
}

}  // namespace

TEST_CASE("a schedule has overlapped pairs where its row of the table says so", "[schedule]") {
  for (const ScheduleVariant& variant : schedule_variants()) {
    const Schedule schedule = make_schedule(std::string(variant.name), {.ranks = 4, .microbatches = 16}).value();
    bool pairs = false;
    for (const std::vector<Action>& list : schedule.actions)
      for (const Action& action : list) pairs = pairs || action.kind == ActionKind::forward_backward;
    INFO(variant.name);
    CHECK(pairs == variant.has_pairs);
  }
}

TEST_CASE("check accepts what the variants make", "[schedule]") { CHECK(complaint(two_ranks()).empty()); }

TEST_CASE("check names the first thing that is missing, repeated or out of place", "[schedule]") {
  Schedule s = two_ranks();
  SECTION("missing backward") {
    s.actions[1].pop_back();
    CHECK(complaint(s) == "schedule: 1B1 is missing");
  }
  SECTION("missing weight gradient") {
    s.actions[1].back().kind = ActionKind::backward_input;
    CHECK(complaint(s) == "schedule: 1W1 is missing");
  }
  SECTION("repeated") {
    s.actions[0].push_back(s.actions[0].front());
    CHECK(complaint(s) == "schedule: rank 0 action 4: 0F0 repeats work that is already in the schedule");
  }
  SECTION("both a full and a split backward") {
    s.actions[0].push_back({.kind = ActionKind::backward_weight, .chunk = 0, .microbatch = 1});
    CHECK(complaint(s) == "schedule: rank 0 action 4: 0W1 repeats work that is already in the schedule");
  }
  SECTION("unknown micro-batch") {
    s.actions[0][0].microbatch = 2;
    CHECK(complaint(s) == "schedule: rank 0 action 0: micro-batch 2 does not exist (allowed: 0..1)");
  }
  SECTION("a stage on two ranks") {
    s.stage_of[1][0] = 0;
    CHECK(complaint(s) == "schedule: stage 0 is on two ranks, one of them rank 1");
  }
  SECTION("lists of the wrong size") {
    s.weight_versions.pop_back();
    CHECK(complaint(s) == "schedule: the sizes of its lists do not fit its ranks, chunks and replicas");
  }
}

TEST_CASE("check reports a deadlock as the cycle of waits", "[schedule]") {
  Schedule s = two_ranks();
  SECTION("a rank that waits for itself") {
    std::swap(s.actions[1][0], s.actions[1][1]);
    CHECK(complaint(s) == "schedule: deadlock: rank 1 waits at 1B0 for 1F0 which comes later in its own list");
  }
  SECTION("two ranks that wait for each other") {
    // Rank 0 wants the gradient of micro-batch 0 before it sends micro-batch 1, rank 1 the other way round.
    s.actions[0] = {{.kind = ActionKind::forward, .microbatch = 0},
                    {.kind = ActionKind::backward, .microbatch = 0},
                    {.kind = ActionKind::forward, .microbatch = 1},
                    {.kind = ActionKind::backward, .microbatch = 1}};
    s.actions[1] = {{.kind = ActionKind::forward, .microbatch = 0},
                    {.kind = ActionKind::forward, .microbatch = 1},
                    {.kind = ActionKind::backward, .microbatch = 0},
                    {.kind = ActionKind::backward, .microbatch = 1}};
    CHECK(complaint(s) ==
          "schedule: deadlock: rank 0 waits at 0B0 for 1B0 of rank 1; rank 1 waits at 1F1 for 0F1 of rank 0");
  }
}

TEST_CASE("an impossible request is one error message", "[schedule]") {
  CHECK(refusal("1f1b", {.ranks = 0}) == "stages = 0: must be at least 1");
  CHECK(refusal("1f1b", {.ranks = 2, .microbatches = 0}) == "microbatches = 0: must be at least 1");
  CHECK(refusal("1f1b", {.ranks = 2, .microbatches = 4, .chunks = 2}) ==
        "virtual = 2: 1f1b has 1 chunk per rank (allowed: 1)");
  CHECK(refusal("1f1b", {.ranks = 1 << 20, .microbatches = 1 << 20}) ==
        "microbatches = 1048576: stages x virtual x microbatches exceeds 67108864");
  CHECK(refusal("interleaved-1f1b", {.ranks = 8, .microbatches = 19, .chunks = 2, .group_size = 8}) ==
        "group_size = 8: groups of 8 and a last one of 3 deadlock on 8 ranks (groups of 10 do not)");
  CHECK(refusal("interleaved-1f1b", {.ranks = 4, .microbatches = 8, .chunks = 2, .group_size = 9}) ==
        "group_size = 9: is more than the micro-batches (allowed: 1..8)");
  CHECK(refusal("interleaved-zb", {.ranks = 4, .microbatches = 8, .chunks = 2, .group_size = 9}) ==
        "group_size = 9: is more than the micro-batches (allowed: 1..8)");
  CHECK(refusal("interleaved-zb", {.ranks = 4, .microbatches = 9, .chunks = 2}) ==
        "microbatches = 9: interleaved-zb needs a multiple of its rounds, floor(microbatches / stages) = 2");
  CHECK(
      refusal("gpip", {}).find("schedule = gpip: unknown schedule (did you mean 'gpipe'? allowed: gpipe pipedream ") ==
      0);
}
