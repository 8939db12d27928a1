/// Closed forms (docs/references.md#schedule-closed-forms), each with why it holds. Times are of one micro-batch
/// through all layers of a rank: f forward, b input gradient, w weight gradient, B = b + w; P ranks, M micro-batches, V
/// chunks.
#include <algorithm>
#include <cstdint>

#include <catch2/catch.hpp>

#include "sim/schedule/schedule.hpp"
#include "tests/support/pipeline_run.hpp"

using namespace tracecast;

namespace {

using Number = std::int64_t;

struct Case {
  Schedule schedule;
  PipelineRun run;
  /// Ticks per unit, so that formulas can be written in units: run.makespan == unit * (…).
  Number unit = 1;
};

Case run_of(const std::string& name, const ScheduleRequest& request, std::optional<Number> overlapped = {}) {
  INFO(name);
  Result<Schedule> schedule = make_schedule(name, request);
  REQUIRE(schedule);
  const PipelineRun run = *simulate_pipeline(*schedule, uniform_times(*schedule, request.times, overlapped));
  return {*schedule, run, run.scale};
}

/// Makespan above M (f + b + w), in ticks.
Number extra(const Case& c) { return c.run.makespan - c.run.ideal; }

/// Three unlike sets of times: equal, backward-heavy, forward-heavy with long weight gradients.
ScheduleTimes some_times() {
  return GENERATE(ScheduleTimes{1, 1, 1, 0}, ScheduleTimes{7, 10, 4, 0}, ScheduleTimes{9, 4, 6, 0});
}

}  // namespace

TEST_CASE("gpipe, 1f1b, pipedream: (P-1)(f+B) above the work", "[schedule][oracle]") {
  // The first forward reaches the last rank after (P-1) f; that rank then works M (f+B) without a gap; its last backward
  // returns to rank 0 in (P-1) B.
  const std::string name = GENERATE("gpipe", "1f1b", "pipedream");
  const ScheduleTimes t = some_times();
  const int ranks = GENERATE(1, 2, 3, 5, 8);
  const int microbatches = GENERATE(1, 2, 5, 16);
  const Case c = run_of(name, {.ranks = ranks, .microbatches = microbatches, .times = t});
  CHECK(extra(c) == (ranks - 1) * (t.forward + t.backward_input + t.backward_weight));
  for (int rank = 0; rank < ranks; ++rank) {
    const int kept = name == "gpipe" ? microbatches : std::min(ranks - rank, microbatches);
    CHECK(c.run.peak_inflight[static_cast<std::size_t>(rank)] == kept);
  }
}

TEST_CASE("interleaved 1f1b and looped bfs: the bubble is V times shorter", "[schedule][oracle]") {
  // A chunk takes 1/V of a rank's time, so filling and draining the pipeline once takes (P-1)(f+B)/V; with M a multiple
  // of P the wrap-around from the last rank to the first never waits.
  const std::string name = GENERATE("interleaved-1f1b", "looped-bfs");
  const ScheduleTimes t = some_times();
  const int ranks = GENERATE(2, 3, 5, 8);
  const int chunks = GENERATE(1, 2, 3, 4);
  const int microbatches = ranks * GENERATE(1, 2, 4);
  const Case c = run_of(name, {.ranks = ranks, .microbatches = microbatches, .chunks = chunks, .times = t});
  CHECK(extra(c) * chunks == (ranks - 1) * (t.forward + t.backward_input + t.backward_weight) * c.unit);
  for (int rank = 0; rank < ranks; ++rank) {
    const int all = microbatches * chunks;
    const int kept = name == "looped-bfs" ? all : std::min(2 * (ranks - 1 - rank) + (chunks - 1) * ranks + 1, all);
    CHECK(c.run.peak_inflight[static_cast<std::size_t>(rank)] == kept);
  }
}

TEST_CASE("chimera: one middle bubble per unit of P micro-batches when B > f", "[schedule][oracle]") {
  // First unit: P f down, then (2P-2) B. Every further unit of P micro-batches takes its work P (f+B) and a gap
  // (P-2)(B-f) in the middle, where forwards of one copy are shorter than the backwards of the other.
  const ScheduleTimes t = GENERATE(ScheduleTimes{1, 1, 1, 0}, ScheduleTimes{7, 10, 4, 0}, ScheduleTimes{3, 2, 1, 0});
  const int ranks = GENERATE(2, 4, 6, 8);
  const int units = GENERATE(1, 2, 4);
  const Number f = t.forward;
  const Number b = t.backward_input + t.backward_weight;
  const Case c = run_of("chimera", {.ranks = ranks, .microbatches = units * ranks, .times = t});
  CHECK(extra(c) == ranks * f + (2 * ranks - 2) * b + (units - 1) * (ranks * (f + b) + (ranks - 2) * (b - f)) -
                        units * ranks * (f + b));
  if (b == f) CHECK(2 * extra(c) == (ranks - 2) * (f + b));
  for (int rank = 0; rank < ranks; ++rank) {
    const int kept = ranks == 2 ? 2 : ranks / 2 + 1 + std::min(rank, ranks - 1 - rank);
    CHECK(c.run.peak_inflight[static_cast<std::size_t>(rank)] == kept);
  }
}

TEST_CASE("zb-h1 and interleaved zb: (P-1)/V max(f, b, f+b-w)", "[schedule][oracle]") {
  // Going down costs f per rank and going up b; what of both cannot be filled with the r weight gradients that rank r has
  // put off is f+b-w per rank.
  const ScheduleTimes t = some_times();
  const int ranks = GENERATE(2, 3, 5, 8);
  const int chunks = GENERATE(1, 2, 4);
  const int microbatches = ranks * GENERATE(1, 2, 4);
  const Case c = run_of(chunks == 1 ? "zb-h1" : "interleaved-zb",
                        {.ranks = ranks, .microbatches = microbatches, .chunks = chunks, .times = t});
  const Number per_rank = std::max({t.forward, t.backward_input, t.forward + t.backward_input - t.backward_weight});
  CHECK(extra(c) * chunks == (ranks - 1) * per_rank * c.unit);
  for (int kept : c.run.peak_inflight_until_weight) CHECK(kept == ranks * chunks);
}

TEST_CASE("zb-h2: the ranks' own spans lose only what differs between f, b and w", "[schedule][oracle]") {
  const ScheduleTimes t = some_times();
  const int ranks = GENERATE(2, 3, 5, 8);
  const int microbatches = 2 * ranks - 1 + GENERATE(0, 1, 9);
  const Case c = run_of("zb-h2", {.ranks = ranks, .microbatches = microbatches, .times = t});
  const Number uneven = std::max(t.backward_input - t.forward, t.forward + t.backward_input - 2 * t.backward_weight);
  CHECK(extra(c) == (ranks - 1) * std::max(t.forward, uneven));
  CHECK(c.run.max_rank_span - c.run.ideal == (ranks - 1) * std::max<Number>(0, uneven));
  for (int kept : c.run.peak_inflight_until_weight) CHECK(kept == 2 * ranks - 1);
}

TEST_CASE("zb-v: no bubble within a rank's span at equal times", "[schedule][oracle]") {
  // Chunks take half of f: rank P-1 starts (P-1) f/2 after rank 0 and works without a gap.
  const int ranks = GENERATE(2, 3, 5, 8);
  const int microbatches = 2 * ranks - 1 + GENERATE(0, 1, 9);
  const Case c = run_of("zb-v", {.ranks = ranks, .microbatches = microbatches});
  CHECK(2 * extra(c) == (ranks - 1) * c.unit);
  CHECK(c.run.max_rank_span == c.run.ideal);
  for (int kept : c.run.peak_inflight_until_weight) CHECK(kept == 2 * ranks);
}

TEST_CASE("dualpipe: the outer ranks wait for what the inner ones have not overlapped", "[schedule][oracle]") {
  const ScheduleTimes t = some_times();
  const int ranks = GENERATE(2, 4, 6, 8);
  const int microbatches = 2 * ranks + 2 * GENERATE(0, 1, 5);
  const Number f = t.forward;
  const Number b = t.backward_input;
  const Number w = t.backward_weight;
  const Number h = ranks / 2;
  const Case c = run_of("dualpipe", {.ranks = ranks, .microbatches = microbatches, .times = t}, f + b + w);
  const Number waits = std::max({(h - 2) * f + 2 * (h - 1) * b - (h - 1) * w, (h - 1) * (2 * f + b - w),
                                 2 * (h - 1) * f, (h - 2) * f + (h - 1) * b});
  CHECK(extra(c) == (ranks == 2 ? 0 : waits));
  for (int kept : c.run.peak_inflight) CHECK(kept == ranks + 1);
}

TEST_CASE("dualpipev: (P-1) f at equal times", "[schedule][oracle]") {
  const int ranks = GENERATE(2, 3, 4, 8);
  const int microbatches = 2 * ranks + GENERATE(0, 1, 8);
  const Case c = run_of("dualpipev", {.ranks = ranks, .microbatches = microbatches}, 3);
  CHECK(extra(c) == (ranks - 1) * c.unit);
  for (int kept : c.run.peak_inflight) CHECK(kept == 2 * ranks + 1);
}

TEST_CASE("hanayo: one wave over P micro-batches waits (P-1) B", "[schedule][oracle]") {
  // Two chunks of half a rank's time: at B >= 2 f the backwards set the pace on the way down and up the snake. The form
  // is exact when B is a multiple of f; else a forward that began before a backward arrived delays it by part of itself.
  const ScheduleTimes t = GENERATE(ScheduleTimes{1, 1, 1, 0}, ScheduleTimes{5, 8, 7, 0});
  const int ranks = GENERATE(2, 3, 4, 8);
  const Case c = run_of("hanayo", {.ranks = ranks, .microbatches = ranks, .times = t});
  CHECK(extra(c) == (ranks - 1) * (t.backward_input + t.backward_weight) * c.unit);
}

TEST_CASE("latency per hop", "[schedule][oracle]") {
  // docs/references.md#hop-latency. f = 4, so that 1 is small beside it.
  const int ranks = GENERATE(2, 3, 4, 8);
  const int microbatches = ranks * GENERATE(2, 3);
  const ScheduleTimes with{4, 4, 4, 1};
  const ScheduleTimes without{4, 4, 4, 0};
  const auto added = [&](const std::string& name, int chunks) {
    const ScheduleRequest request{.ranks = ranks, .microbatches = microbatches, .chunks = chunks, .times = with};
    ScheduleRequest free = request;
    free.times = without;
    const Case c = run_of(name, request);
    return (c.run.makespan - run_of(name, free).run.makespan) / c.unit;
  };
  CHECK(added("gpipe", 1) == 2 * (ranks - 1));
  // In the steady state a stage has one slot of slack per round trip of two hops: each P micro-batches pay 2 (P-1).
  const int rounds = (microbatches * (ranks - 1) + ranks - 1) / ranks;
  CHECK(added("1f1b", 1) == 2 * (ranks - 2) + 2 * rounds);
  CHECK(added("interleaved-1f1b", 2) == 2 * (2 * ranks - 1));
  CHECK(added("looped-bfs", 2) == 2 * (ranks - 1));
}

TEST_CASE("one stage half again as slow", "[schedule][oracle]") {
  // Times in halves: f = 2, b = w = 2, the slow stage 3.
  const int slow = GENERATE(0, 1, 2, 3);
  const auto halves = [&](const std::string& name) {
    const Schedule schedule = *make_schedule(name, {.ranks = 4, .microbatches = 8});
    PipelineTimes times = uniform_times(schedule, {2, 2, 2, 0});
    times.stages[static_cast<std::size_t>(slow)] = {3, 3, 3};
    return simulate_pipeline(schedule, times)->makespan;
  };
  CHECK(halves("1f1b") == 81 + 3 * slow);  // 40.5, 42, 43.5, 45
  CHECK(halves("gpipe") == 90);            // 45
}
