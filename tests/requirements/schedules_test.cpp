// Requirements on pipeline schedules. Source: docs/references.md#schedule-closed-forms
#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/forecast/schedule_runs.hpp"
#include "sim/schedule/schedule.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;

namespace {

struct Case {
  Schedule schedule;
  ScheduleRun run;
  double makespan = 0;  ///< units
  double span = 0;
};

Case run_of(const std::string& name, ScheduleRequest request, std::optional<std::int64_t> overlapped = {}) {
  Schedule schedule = value_of(make_schedule(name, request));
  ScheduleRun run = value_of(run_schedule(schedule, uniform_times(schedule, request.times, overlapped)));
  const auto scale = static_cast<double>(run.scale);
  Case result{std::move(schedule), std::move(run)};
  result.makespan = static_cast<double>(result.run.makespan) / scale;
  result.span = static_cast<double>(result.run.max_rank_span) / scale;
  return result;
}

/// Four stages, eight micro-batches, forward, input and weight gradient 1 each: 24 units of work.
Case four_by_eight(const std::string& name, int chunks = 0, std::optional<std::int64_t> overlapped = {}) {
  return run_of(name, {.ranks = 4, .microbatches = 8, .chunks = chunks}, overlapped);
}

using Peaks = std::vector<int>;

/// Places of the first backward and the last forward in a rank's list.
std::pair<std::size_t, std::size_t> turn(const Schedule& schedule, std::size_t rank) {
  const std::vector<Action>& actions = schedule.actions[rank];
  std::size_t first_backward = actions.size();
  std::size_t last_forward = 0;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    if (actions[i].kind == ActionKind::forward) last_forward = i;
    if (actions[i].kind == ActionKind::backward) first_backward = std::min(first_backward, i);
  }
  return {first_backward, last_forward};
}

}  // namespace

TEST_CASE("GPipe's bubble is (P-1)/(M+P-1), 27.3 % for four stages and eight micro-batches",
          "[row-1-25][row-3-28][row-3-29][row-3-30][requirements][schedule][oracle]") {
  CHECK(four_by_eight("gpipe").run.bubble_fraction == Approx(3.0 / 11));
  CHECK(four_by_eight("gpipe").makespan == 33);
  for (const int p : {2, 4, 8})
    for (const int m : {1, 8, 32})
      CHECK(run_of("gpipe", {.ranks = p, .microbatches = m}).run.bubble_fraction ==
            Approx(static_cast<double>(p - 1) / (m + p - 1)));
}

TEST_CASE("without micro-batches three of four stages are idle", "[row-4-20][requirements][schedule][oracle]") {
  // F0, send, F1, B1, send, B0: P (f + b + w), of which a rank works one P-th.
  const Case naive = run_of("gpipe", {.ranks = 4, .microbatches = 1, .times = {2, 3, 1}});
  CHECK(naive.makespan == 4 * (2 + 3 + 1));
  CHECK(naive.run.bubble_fraction == Approx(0.75));
  CHECK(run_of("1f1b", {.ranks = 4, .microbatches = 1, .times = {2, 3, 1}}).makespan == naive.makespan);
}

TEST_CASE("GPipe's forwards all end before a backward begins, 1F1B's do not",
          "[row-4-21][row-4-22][requirements][schedule]") {
  const Case gpipe = four_by_eight("gpipe");
  const Case one_f_one_b = four_by_eight("1f1b");
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const auto [backward, last_forward] = turn(gpipe.schedule, rank);
    CHECK(backward > last_forward);
    CHECK(gpipe.run.peak_inflight[rank] == 8);
    const auto [early, late_forward] = turn(one_f_one_b.schedule, rank);
    CHECK(early < late_forward);
    // The forward phase takes M + P - 1 slots, so that every rank is idle in 3 of them: the last one in the first
    // three.
    const ActionSpan& first = gpipe.run.actions[rank].front();
    const ActionSpan& last = gpipe.run.actions[rank][last_forward];
    CHECK(first.start == static_cast<std::int64_t>(rank) * gpipe.run.scale);
    CHECK(last.end - first.start == 8 * gpipe.run.scale);
  }
}

TEST_CASE("PipeDream keeps a version of the weights for every micro-batch in flight",
          "[row-1-26][requirements][schedule][oracle]") {
  const Case stream = four_by_eight("pipedream");
  CHECK(stream.schedule.weight_versions == Peaks{4, 3, 2, 1});
  CHECK_FALSE(stream.schedule.flush);
  CHECK(stream.makespan == 33);
  // Two micro-batches in a step: those of the next steps follow without a flush, so that as many are in flight.
  const Case short_steps = run_of("pipedream", {.ranks = 4, .microbatches = 2});
  CHECK(short_steps.schedule.weight_versions == Peaks{4, 3, 2, 1});
  const Case many = run_of("pipedream", {.ranks = 4, .microbatches = steady_state_microbatches(4, 2)});
  CHECK(steady_state(many.run, 2).peak_inflight == Peaks{4, 3, 2, 1});
}

TEST_CASE("virtual stages shorten the bubble; memory is not what the AWS P5 guide's table says",
          "[row-1-27][row-3-38][requirements][schedule][oracle]") {
  CHECK(four_by_eight("interleaved-1f1b", 2).makespan == 28.5);
  CHECK(four_by_eight("interleaved-1f1b", 4).makespan == 26.25);
  CHECK(four_by_eight("looped-bfs", 2).makespan == 28.5);
  // The guide: bubble high, low, lowest; memory low, medium, high. Of these only the last bubble is right: the first
  // two are equal, and GPipe keeps the most.
  CHECK(four_by_eight("gpipe").run.bubble_fraction == Approx(0.2727).margin(5e-5));
  CHECK(four_by_eight("1f1b").run.bubble_fraction == Approx(0.2727).margin(5e-5));
  CHECK(four_by_eight("interleaved-1f1b", 2).run.bubble_fraction == Approx(0.1579).margin(5e-5));
  CHECK(four_by_eight("gpipe").run.peak_inflight == Peaks{8, 8, 8, 8});
  CHECK(four_by_eight("1f1b").run.peak_inflight == Peaks{4, 3, 2, 1});
  CHECK(four_by_eight("interleaved-1f1b", 2).run.peak_inflight == Peaks{11, 9, 7, 5});  // halves: 5.5
  CHECK(four_by_eight("interleaved-1f1b", 4).run.peak_inflight == Peaks{19, 17, 15, 13});
}

TEST_CASE("Chimera's two replicas", "[row-1-28][requirements][schedule][oracle]") {
  const Case chimera = four_by_eight("chimera");
  CHECK(chimera.makespan == 30);
  CHECK(chimera.schedule.replicas == 2);
  CHECK(chimera.run.peak_inflight == Peaks{3, 4, 4, 3});
  const Case equal = run_of("chimera", {.ranks = 4, .microbatches = 4, .times = {2, 1, 1}});  // B = f
  CHECK(equal.makespan == 4 * 4 + (4 / 2 - 1) * 4);
}

TEST_CASE("zero bubble schedules split the backward", "[row-1-29][requirements][schedule][oracle]") {
  CHECK(four_by_eight("zb-h1").makespan == 27);
  CHECK(four_by_eight("zb-h1").run.peak_inflight_until_weight == Peaks{4, 4, 4, 4});
  CHECK(four_by_eight("zb-h2").makespan == 27);
  CHECK(four_by_eight("zb-h2").span == 24);  // no bubble inside a rank's own span
  CHECK(four_by_eight("zb-v").makespan == 25.5);
  CHECK(four_by_eight("zb-v").span == 24);
  CHECK(four_by_eight("interleaved-zb", 2).makespan == 25.5);
  CHECK(four_by_eight("interleaved-zb", 4).makespan == 24.75);
  CHECK(four_by_eight("dualpipe", 0, 3).makespan == 26);
  CHECK(four_by_eight("dualpipe", 0, 2).makespan == 22);
  CHECK(four_by_eight("hanayo", 2).makespan == 32.5);
}

TEST_CASE("GPipe keeps all micro-batches, 1F1B at most P - r", "[row-3-32][requirements][schedule][oracle]") {
  for (const int m : {2, 4, 16}) {
    const Case gpipe = run_of("gpipe", {.ranks = 4, .microbatches = m});
    const Case one_f_one_b = run_of("1f1b", {.ranks = 4, .microbatches = m});
    for (int rank = 0; rank < 4; ++rank) {
      CHECK(gpipe.run.peak_inflight[static_cast<std::size_t>(rank)] == m);
      CHECK(one_f_one_b.run.peak_inflight[static_cast<std::size_t>(rank)] == std::min(4 - rank, m));
    }
  }
}

TEST_CASE("PyTorch's names of schedules are accepted", "[row-3-39][row-4-24][requirements][schedule]") {
  const std::pair<const char*, const char*> names[] = {{"GPipe", "gpipe"},
                                                       {"ScheduleGPipe", "gpipe"},
                                                       {"1F1B", "1f1b"},
                                                       {"Schedule1F1B", "1f1b"},
                                                       {"Interleaved1F1B", "interleaved-1f1b"},
                                                       {"LoopedBFS", "looped-bfs"},
                                                       {"InterleavedZeroBubble", "interleaved-zb"},
                                                       {"ZBVZeroBubble", "zb-v"},
                                                       {"DualPipeV", "dualpipev"}};
  for (const auto& [alias, name] : names) {
    CAPTURE(alias);
    const ScheduleVariant* found = find_schedule(alias);
    REQUIRE(found != nullptr);
    CHECK(found->name == name);
  }
}
