/// What holds for every schedule, every P, M, V and all times.
#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/base/random.hpp"
#include "sim/schedule/schedule.hpp"
#include "tests/support/pipeline_run.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;

namespace {

constexpr std::uint64_t kSeed = 20260404;

/// Start and end of every (part, stage, micro-batch), whoever ran it.
using Times = std::map<std::tuple<char, int, int>, std::pair<Interval, int>>;

Times times_of(const Schedule& s, const PipelineRun& run) {
  Times times;
  for (std::size_t rank = 0; rank < s.actions.size(); ++rank) {
    for (std::size_t i = 0; i < s.actions[rank].size(); ++i) {
      const Action& a = s.actions[rank][i];
      const auto put = [&](char part, int chunk, int m) {
        const auto [at, fresh] = times.try_emplace({part, s.stage_of[rank][static_cast<std::size_t>(chunk)], m},
                                                   run.actions[rank][i], static_cast<int>(rank));
        CHECK(fresh);
      };
      switch (a.kind) {
        case ActionKind::forward:
          put('F', a.chunk, a.microbatch);
          break;
        case ActionKind::backward:
          put('I', a.chunk, a.microbatch), put('W', a.chunk, a.microbatch);
          break;
        case ActionKind::backward_input:
          put('I', a.chunk, a.microbatch);
          break;
        case ActionKind::backward_weight:
          put('W', a.chunk, a.microbatch);
          break;
        case ActionKind::forward_backward:
          put('F', a.chunk, a.microbatch), put('I', a.chunk2, a.microbatch2), put('W', a.chunk2, a.microbatch2);
          break;
      }
    }
  }
  return times;
}

void check_dependencies(const Schedule& s, const PipelineTimes& given, const Times& times) {
  const auto not_before = [&](char part, int stage, int m, char input, int input_stage) {
    const auto& [interval, rank] = times.at({part, stage, m});
    const auto& [from, from_rank] = times.at({input, input_stage, m});
    CHECK(interval.start >= from.end + (rank == from_rank ? 0 : given.latency));
  };
  for (int stage = 0; stage < s.stages(); ++stage) {
    for (int m = 0; m < s.microbatches; ++m) {
      if (stage > 0) not_before('F', stage, m, 'F', stage - 1);
      not_before('I', stage, m, 'F', stage);
      if (stage + 1 < s.stages()) not_before('I', stage, m, 'I', stage + 1);
      // A full backward is both parts in one action.
      if (times.at({'W', stage, m}).first != times.at({'I', stage, m}).first) not_before('W', stage, m, 'I', stage);
    }
  }
}

void check_memory(const Schedule& s) {
  for (const std::vector<Action>& list : s.actions) {
    int inflight = 0;
    for (const Action& a : list) {
      if (a.kind == ActionKind::forward || a.kind == ActionKind::forward_backward) ++inflight;
      if (a.kind != ActionKind::forward && a.kind != ActionKind::backward_weight) --inflight;
      CHECK(inflight >= 0);
    }
    CHECK(inflight == 0);
  }
}

/// No schedule can beat it: every rank has its work to do after the first micro-batch has come and before the last one has
/// gone back; with overlapped pairs of the full sum nothing is gained by overlapping.
std::int64_t lower_bound(const Schedule& s, const PipelineTimes& times) {
  std::int64_t bound = 0;
  for (std::size_t rank = 0; rank < s.actions.size(); ++rank) {
    std::int64_t work = 0;
    std::int64_t before = INT64_MAX;
    for (std::size_t chunk = 0; chunk < s.stage_of[rank].size(); ++chunk) {
      const int stage = s.stage_of[rank][chunk];
      const StageTime& own = times.stages[static_cast<std::size_t>(stage)];
      work += (own.forward + own.backward_input + own.backward_weight) * (s.microbatches / s.replicas);
      std::int64_t way = 0;
      for (int q = 0; q < stage; ++q) way += times.stages[static_cast<std::size_t>(q)].forward;
      before = std::min(before, way);
    }
    bound = std::max(bound, before + work);
  }
  return bound;
}

/// The same schedule with rank r called p[r].
Schedule relabelled(const Schedule& s, const std::vector<std::size_t>& p) {
  Schedule result = s;
  for (std::size_t rank = 0; rank < p.size(); ++rank) {
    result.actions[p[rank]] = s.actions[rank];
    result.stage_of[p[rank]] = s.stage_of[rank];
    result.replica_of[p[rank]] = s.replica_of[rank];
    result.weight_versions[p[rank]] = s.weight_versions[rank];
  }
  return result;
}

}  // namespace

TEST_CASE("every schedule at random sizes and times", "[schedule][property]") {
  RandomStream random(kSeed, 0, 0);
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(random.below(static_cast<std::uint64_t>(high - low + 1)));
  };
  for (const ScheduleVariant& variant : schedule_variants()) {
    int made = 0;
    for (int attempt = 0; attempt < 400 && made < 25; ++attempt) {
      ScheduleRequest request{.ranks = between(1, 8), .microbatches = between(1, 24)};
      if (variant.default_chunks == 2 && attempt % 2 == 0) request.chunks = between(1, 4);
      request.times = {between(1, 9), between(1, 9), between(1, 9), between(0, 3)};
      const std::string name(variant.name);
      const Result<Schedule> schedule = make_schedule(name, request);
      if (!schedule) continue;
      ++made;
      INFO(name << " seed " << kSeed << ": P=" << request.ranks << " M=" << request.microbatches
                << " V=" << request.chunks << " times " << request.times.forward << " " << request.times.backward_input
                << " " << request.times.backward_weight << " " << request.times.latency);
      REQUIRE(error_text(check(*schedule)) == "");
      PipelineTimes times = uniform_times(*schedule, request.times);
      for (StageTime& stage : times.stages) stage.forward += between(0, 3);  // stages need not be alike
      const PipelineRun run = *simulate_pipeline(*schedule, times);
      check_dependencies(*schedule, times, times_of(*schedule, run));
      check_memory(*schedule);
      for (const std::vector<Interval>& list : run.actions) {
        for (std::size_t i = 1; i < list.size(); ++i) CHECK(list[i].start >= list[i - 1].end);
      }
      CHECK(run.makespan >= lower_bound(*schedule, times));
      CHECK(run.max_rank_span <= run.makespan);

      std::vector<std::size_t> p(schedule->actions.size());
      for (std::size_t i = 0; i < p.size(); ++i) p[i] = i;
      for (std::size_t i = p.size(); i > 1; --i) std::swap(p[i - 1], p[random.below(i)]);
      const Schedule other = relabelled(*schedule, p);
      REQUIRE(check(other));
      CHECK(simulate_pipeline(other, times)->makespan == run.makespan);

      PipelineTimes twice = times;
      twice.latency *= 2;
      for (StageTime& stage : twice.stages)
        stage = {2 * stage.forward, 2 * stage.backward_input, 2 * stage.backward_weight};
      CHECK(simulate_pipeline(*schedule, twice)->makespan == 2 * run.makespan);
    }
    INFO(variant.name);
    CHECK(made >= 5);
  }
}

TEST_CASE("names and aliases are found however they are spelled", "[schedule]") {
  const ScheduleRequest request{.ranks = 2, .microbatches = 4};
  for (const ScheduleVariant& variant : schedule_variants()) {
    CHECK(make_schedule(std::string(variant.name), request)->name == variant.name);
    for (std::string_view alias : variant.aliases) {
      CHECK(make_schedule(std::string(alias), request)->name == variant.name);
    }
  }
  CHECK(make_schedule("ZB_H1", request)->name == "zb-h1");
  CHECK(make_schedule("schedulegpipe", request)->name == "gpipe");
}
