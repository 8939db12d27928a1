/// Schedules that are made for given times: the auto-scheduler, V-Half and V-Min, against what their authors publish.
#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/schedule/schedule.hpp"
#include "tests/support/pipeline_run.hpp"

using namespace tracecast;

namespace {

PipelineRun run_of(const std::string& name, const ScheduleRequest& request) {
  const Result<Schedule> schedule = make_schedule(name, request);
  REQUIRE(schedule);
  REQUIRE(check(*schedule));
  return *simulate_pipeline(*schedule, uniform_times(*schedule, request.times));
}

int peak(const PipelineRun& run) {
  return *std::max_element(run.peak_inflight_until_weight.begin(), run.peak_inflight_until_weight.end());
}

}  // namespace

TEST_CASE("zb-auto-2p reaches the released scheduler's makespans", "[schedule][oracle]") {
  // docs/references.md#zero-bubble: P=4, M=8: 56 with times 2, 3, 1 where ZB-H2's fixed order takes 57; 27 with equal
  // times.
  CHECK(run_of("zb-auto-2p", {.ranks = 4, .microbatches = 8, .times = {2, 3, 1, 0}}).makespan == 56);
  CHECK(run_of("zb-h2", {.ranks = 4, .microbatches = 8, .times = {2, 3, 1, 0}}).makespan == 57);
  CHECK(run_of("zb-auto-2p", {.ranks = 4, .microbatches = 8}).makespan == 27);
}

TEST_CASE("zb-auto keeps its limit and is never longer than the fixed orders that do", "[schedule][property]") {
  const ScheduleTimes times =
      GENERATE(ScheduleTimes{1, 1, 1, 0}, ScheduleTimes{20, 30, 10, 3}, ScheduleTimes{10, 9, 3, 0},
               ScheduleTimes{10, 11, 8, 5}, ScheduleTimes{3, 1, 5, 2});
  const int ranks = GENERATE(1, 2, 5, 8);
  const ScheduleRequest request{.ranks = ranks, .microbatches = 3 * ranks, .times = times};
  const PipelineRun one = run_of("zb-auto-1p", request);
  const PipelineRun two = run_of("zb-auto-2p", request);
  CHECK(peak(one) <= ranks);
  CHECK(peak(two) <= 2 * ranks);
  CHECK(one.makespan <= run_of("zb-h1", request).makespan);
  CHECK(two.makespan <= run_of("zb-h2", request).makespan);
  CHECK(two.makespan <= one.makespan);
  CHECK(run_of("zb-auto", request).makespan <= two.makespan);
}

TEST_CASE("zb-auto with room for one micro-batch works one at a time", "[schedule]") {
  // Each micro-batch goes down and back alone: 2 x (f + i) on the way, and rank 0's W before the next one may come.
  ScheduleRequest request{.ranks = 2, .microbatches = 3, .times = {2, 3, 1, 0}, .memory_limit = 1.5};
  const PipelineRun run = run_of("zb-auto", request);
  CHECK(peak(run) == 1);
  CHECK(run.makespan == 3 * (2 * (2 + 3) + 1));
  request.memory_limit = 0.5;
  CHECK(to_string(make_schedule("zb-auto", request).error()) ==
        "memory_limit: zb-auto needs memory for at least 1 micro-batch");
}

TEST_CASE("v-half and v-min have the published memory and bubble", "[schedule][oracle]") {
  const int ranks = GENERATE(4, 5, 6, 7, 8, 9, 16, 31, 64);
  const ScheduleRequest request{.ranks = ranks, .microbatches = 4 * ranks};
  const PipelineRun half = run_of("v-half", request);
  const PipelineRun minimum = run_of("v-min", request);
  // In chunks: 1F1B's rank 0 has 2P. Half and a third of that, and up to 2 more.
  CHECK(peak(half) <= ranks + 2);
  CHECK(3 * peak(minimum) <= 2 * ranks + 8);
  // 1F1B's bubble is (P-1)(f+b+w); B/2 and 2B/3 of it, and one micro-batch's worth where P is small.
  const std::int64_t bubble = 3 * (ranks - 1) * half.scale;
  const std::int64_t unit = half.scale;
  CHECK(half.makespan - half.ideal <= bubble / 2);
  CHECK(half.makespan - half.ideal >= bubble / 3);
  CHECK(3 * (minimum.makespan - minimum.ideal) <= 2 * bubble + 3 * unit);
  CHECK(3 * (minimum.makespan - minimum.ideal) >= 2 * bubble - 3 * unit);
}
