/// Schedules that are made for given times: the auto-scheduler, V-Half and V-Min, against what their authors publish.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/base/random.hpp"
#include "sim/schedule/schedule.hpp"
#include "tests/support/pipeline_run.hpp"
#include "tests/support/results.hpp"

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

PipelineTimes times_of(const ScheduleRequest& request) {
  return {.stages = request.rank_times, .latency = request.times.latency, .overlapped = {}, .scale = 1};
}

/// The most that a rank keeps, in the unit of `bytes`.
double peak_bytes(const std::vector<Action>& actions, const RankBytes& bytes) {
  double live = 0;
  double most = 0;
  for (const Action& action : actions) {
    if (action.kind == ActionKind::forward) live += bytes.forward;
    if (action.kind == ActionKind::backward_input) live += bytes.weight - bytes.forward;
    if (action.kind == ActionKind::backward_weight) live -= bytes.weight;
    most = std::max(most, live);
  }
  CHECK(live == 0);
  return most;
}

std::string letters(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions)
    text += action.kind == ActionKind::forward ? 'F' : action.kind == ActionKind::backward_input ? 'I' : 'W';
  return text;
}

}  // namespace

TEST_CASE("zb-auto-2p reaches the released scheduler's makespans", "[schedule][oracle]") {
  // docs/references.md#zero-bubble: P=4, M=8: 56 with times 2, 3, 1 where ZB-H2's fixed order takes 57; 27 with equal
  // times.
  CHECK(run_of("zb-auto-2p", {.ranks = 4, .microbatches = 8, .times = {2, 3, 1, 0}}).makespan == 56);
  CHECK(run_of("zb-h2", {.ranks = 4, .microbatches = 8, .times = {2, 3, 1, 0}}).makespan == 57);
  CHECK(run_of("zb-auto-2p", {.ranks = 4, .microbatches = 8}).makespan == 27);
}

TEST_CASE("zb-auto keeps as many forwards of later ranks where the first ones keep little", "[schedule]") {
  // The first half of the ranks is frozen: short forwards, no weight gradients, nearly nothing kept.
  ScheduleRequest request{.ranks = 4, .microbatches = 16};
  request.rank_times = {{2, 0, 0}, {2, 0, 0}, {2, 2, 2}, {2, 2, 2}};
  request.rank_bytes = {{0.01, 0}, {0.01, 0}, {1, 0.5}, {1, 0.5}};
  const auto makespan = [&](const char* name) {
    return simulate_pipeline(value_of(make_schedule(name, request)), times_of(request))->makespan;
  };
  CHECK(makespan("zb-auto-2p") <= makespan("zb-h1"));
}

TEST_CASE("zb-auto reaches the longest spans that the released scheduler prints", "[schedule][oracle]") {
  // docs/references.md#zero-bubble: the examples at the end of its auto_schedule.py, with 2 units kept from the forward
  // and 1 from the input gradient. Its limits are in those units: memory_limit is half of them.
  struct Example {
    int ranks, microbatches;
    ScheduleTimes times;
    int units;
    std::int64_t span;
  };
  for (const Example& each : {Example{4, 12, {5, 6, 4, 0}, 10, 193}, Example{4, 12, {5, 6, 4, 0}, 14, 183},
                              Example{4, 12, {5478, 5806, 3534, 200}, 32, 178898}, Example{32, 16, {}, 64, 95}}) {
    CAPTURE(each.span);
    CHECK(run_of("zb-auto", {.ranks = each.ranks,
                             .microbatches = each.microbatches,
                             .times = each.times,
                             .memory_limit = each.units / 2.0})
              .max_rank_span == each.span);
  }
  // Half of its first example's memory holds 5 forwards: where the fifth is back, a weight gradient makes space for two.
  const ScheduleRequest first{.ranks = 4, .microbatches = 12, .times = {5, 6, 4, 0}, .memory_limit = 5};
  CHECK(letters(make_schedule("zb-auto", first)->actions[0]) == "FFFFFIWFIWFIWFIIFIWFIWFIWFWWIWIWIWIW");
}

TEST_CASE("zb-auto follows times and bytes of each rank, as the released scheduler does", "[schedule][oracle]") {
  // The measured example at the end of its auto_schedule.py: eight ranks in microseconds and megabytes, of which the
  // last also has the loss.
  ScheduleRequest request{.ranks = 8, .microbatches = 32, .times = {.latency = 473}, .memory_limit = 16};
  request.rank_times = {{30715, 31308, 18746}, {29233, 29344, 18789}, {29106, 29357, 19062}, {29078, 29455, 19367},
                        {28850, 29217, 19455}, {28919, 29384, 19967}, {28924, 29354, 20096}, {41678, 38731, 32833}};
  request.rank_bytes = {{943, 410},  {1240, 552}, {1240, 552}, {1240, 552},
                        {1240, 552}, {1240, 552}, {1240, 552}, {1071, 483}};
  const Schedule measured = *make_schedule("zb-auto", request);
  CHECK(simulate_pipeline(measured, times_of(request))->max_rank_span == 3'623'744);
  // And its last one, of equal ranks.
  request.times.latency = 466;
  request.rank_times.assign(8, {29850, 29767, 18868});
  request.rank_bytes.assign(8, {3720, 1672});
  const Schedule equal = *make_schedule("zb-auto", request);
  CHECK(simulate_pipeline(equal, times_of(request))->max_rank_span == 2'517'463);
  CHECK(letters(equal.actions[0]).starts_with("FFFFFFFFFFFFFFFIFIFIWFIWFIIFIWFIWFIIFIW"));
}

TEST_CASE("zb-auto is complete, valid and within its bytes for all ranks", "[schedule][property]") {
  RandomStream random(20261128, 0, 0);
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low + 1)));
  };
  for (int attempt = 0; attempt < 500; ++attempt) {
    ScheduleRequest request{.ranks = between(1, 9), .microbatches = between(1, 24)};
    request.times.latency = between(0, 9);
    request.memory_limit = 1 + between(0, 8 * request.ranks) / 4.0;
    for (int rank = 0; rank < request.ranks; ++rank) {
      request.rank_times.push_back({between(0, 30), between(0, 30), between(0, 30)});
      // With recomputation an input gradient leaves more than the forward kept.
      const double forward = between(attempt % 7 == 0 ? 0 : 50, 150);
      request.rank_bytes.push_back({forward, static_cast<double>(between(0, attempt % 3 == 0 ? 150 : 50))});
    }
    CAPTURE(attempt, request.ranks, request.microbatches, request.memory_limit);
    const Schedule schedule = *make_schedule("zb-auto", request);
    REQUIRE(error_text(check(schedule)) == "");
    const auto most = [&](int rank) {
      const RankBytes& bytes = request.rank_bytes[static_cast<std::size_t>(rank)];
      return std::max(bytes.forward, bytes.weight);
    };
    std::vector<double> sorted;
    for (int rank = 0; rank < request.ranks; ++rank) sorted.push_back(most(rank));
    std::ranges::sort(sorted);
    const double limit =
        request.memory_limit * std::max({most(0), most(std::min(1, request.ranks - 1)), sorted[sorted.size() / 2]});
    for (int rank = 0; rank < request.ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      CHECK(peak_bytes(schedule.actions[r], request.rank_bytes[r]) <= std::max(limit, most(rank)));
    }
  }
}

TEST_CASE("zb-auto's longest span is never above those of the fixed orders in its memory", "[schedule][property]") {
  const ScheduleTimes times =
      GENERATE(ScheduleTimes{1, 1, 1, 0}, ScheduleTimes{20, 30, 10, 3}, ScheduleTimes{10, 9, 3, 0},
               ScheduleTimes{10, 11, 8, 5}, ScheduleTimes{3, 1, 5, 2});
  const int ranks = GENERATE(1, 2, 5, 8);
  const ScheduleRequest request{.ranks = ranks, .microbatches = 3 * ranks, .times = times};
  const std::int64_t one = run_of("zb-auto-1p", request).max_rank_span;
  const std::int64_t two = run_of("zb-auto-2p", request).max_rank_span;
  CHECK(one <= run_of("zb-h1", request).max_rank_span);
  CHECK(two <= run_of("zb-h2", request).max_rank_span);
  CHECK(two <= one);
  CHECK(run_of("zb-auto", request).max_rank_span <= two);
}

TEST_CASE("zb-auto is never longer than the fixed orders in its memory, whatever the ranks' times",
          "[schedule][property]") {
  RandomStream random(20261130, 0, 0);
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low + 1)));
  };
  for (int attempt = 0; attempt < 500; ++attempt) {
    ScheduleRequest request{.ranks = between(1, 8), .microbatches = between(1, 20)};
    request.times.latency = attempt % 3 == 0 ? between(0, 9) : 0;
    for (int rank = 0; rank < request.ranks; ++rank)
      request.rank_times.push_back({between(0, 9), between(0, 9), between(0, 9)});
    CAPTURE(attempt, request.ranks, request.microbatches, request.times.latency);
    const auto makespan = [&](const char* name) {
      const Schedule schedule = value_of(make_schedule(name, request));
      REQUIRE(error_text(check(schedule)) == "");
      return simulate_pipeline(schedule, times_of(request))->makespan;
    };
    const std::int64_t in_less_memory = std::min(makespan("zb-h1"), makespan("1f1b"));
    CHECK(makespan("zb-auto-1p") <= in_less_memory);
    CHECK(makespan("zb-auto-2p") <= std::min(in_less_memory, makespan("zb-h2")));
    CHECK(makespan("zb-auto") <= std::min(in_less_memory, makespan("zb-h2")));
  }
}

TEST_CASE("zb-auto counts what is left of a micro-batch that waits for its weight gradient", "[schedule]") {
  // With memory for one forward each micro-batch goes down and back alone: 2 x (f + i) on the way, and rank 0's W before
  // the next one may come.
  ScheduleRequest request{.ranks = 2, .microbatches = 3, .times = {2, 3, 1, 0}, .memory_limit = 1};
  CHECK(peak(run_of("zb-auto", request)) == 1);
  CHECK(run_of("zb-auto", request).makespan == 3 * (2 * (2 + 3) + 1));
  // Half a forward more holds what is left of another: W moves into the wait of the next one, but for the last.
  request.memory_limit = 1.5;
  CHECK(peak(run_of("zb-auto", request)) == 2);
  CHECK(run_of("zb-auto", request).makespan == 3 * (2 * (2 + 3)) + 1);
  request.rank_bytes.assign(2, {10, 5});
  CHECK(run_of("zb-auto", request).makespan == 3 * (2 * (2 + 3)) + 1);
  request.rank_bytes.assign(2, {10, 6});
  CHECK(run_of("zb-auto", request).makespan == 3 * (2 * (2 + 3) + 1));
  request.memory_limit = 0.5;
  CHECK(to_string(make_schedule("zb-auto", request).error()) ==
        "memory_limit = 0.5: zb-auto needs memory for at least 1 micro-batch");
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
