#include <catch2/catch.hpp>

#include "sim/engine/simulate.hpp"
#include "sim/graph/schedule_graph.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

Schedule make(const std::string& name, int ranks, int microbatches, int chunks = 1) {
  const ScheduleRequest request{.ranks = ranks, .microbatches = microbatches, .chunks = chunks};
  return make_schedule(name, request).value();
}

StepGraph graph_of(const Schedule& schedule, const ScheduleTimes& times) {
  return schedule_graph(schedule, uniform_times(schedule, times))->graph;
}

Op compute(Duration duration, Duration host = {}) {
  Op op;
  op.duration = duration;
  op.host = host;
  return op;
}

Op collective(StreamId stream, Duration duration, std::vector<EventRef> waits, EventRef records) {
  Op op;
  op.type = OpType::collective;
  op.stream = stream;
  op.payload = 0;
  op.duration = duration;
  op.waits = std::move(waits);
  op.records = records;
  return op;
}

constexpr EventRef local(std::int32_t n) { return {n, EventRef::kLocal}; }

/// Ranks that each run their own template once and share one communicator.
StepGraph graph_of(std::vector<std::vector<Op>> per_rank) {
  StepGraph graph;
  graph.streams = {{"compute"}, {"tp"}, {"dp"}};
  graph.local_events = 8;
  graph.microbatches = 1;
  CostedCollective call;
  call.traffic = Traffic::tensor_parallel;
  graph.collectives = {call};
  Communicator communicator;
  communicator.name = "tp";
  for (std::size_t i = 0; i < per_rank.size(); ++i) {
    Template each;
    each.name = "work";
    each.ops = std::move(per_rank[i]);
    graph.templates.push_back(each);
    graph.programs.push_back({{static_cast<std::int32_t>(i), 0}});
    Rank rank;
    rank.representative = static_cast<std::int32_t>(i);
    rank.program = static_cast<std::int32_t>(i);
    rank.communicators = {0};
    graph.ranks.push_back(rank);
    communicator.members.push_back(static_cast<std::int32_t>(i));
  }
  graph.communicators = {communicator};
  return graph;
}

Duration exposed_tp(const RankTime& time) { return time.exposed[static_cast<std::size_t>(Traffic::tensor_parallel)]; }

}  // namespace

TEST_CASE("engine: ranks that take too much memory are refused before they take it", "[engine]") {
  StepGraph graph = graph_of({{compute(1_ms)}, {compute(1_ms)}});
  graph.rank_events = 500'000'000;  // of 32 bytes
  const Result<Timeline> result = simulate(graph);
  REQUIRE(!result);
  CHECK(
      to_string(result.error()) ==
      "simulating 2 ranks one by one takes 32 GB (allowed: 16 GB; equal ranks are simulated once, without --unfold and "
      "perturb.speed_spread)");
}

TEST_CASE("engine: 1f1b of a uniform step lasts (m+p-1)(f+b)", "[oracle][engine]") {
  const int p = GENERATE(1, 2, 4, 8);
  const int m = GENERATE(8, 16, 64);
  const Schedule schedule = make("1f1b", p, m);
  // First forward reaches the last stage after (p-1)f; it works m(f+b); its last backward returns in (p-1)b.
  const Timeline t = simulate(graph_of(schedule, {1, 1, 1, 0})).value();
  CHECK(t.step_time == Duration{(m + p - 1) * 3});
  for (const RankTime& rank : t.ranks) {
    CHECK(rank.compute == Duration{3 * m});
    CHECK(rank.bubble == Duration{3 * (p - 1)});
  }
}

TEST_CASE("engine: a collective starts when its last member arrives", "[engine]") {
  // Rank 0 computes 10 and waits; rank 1 computes 30; the transfer takes 5.
  const auto work = [](Duration before) {
    Op first = compute(before);
    first.records = local(0);
    Op after = compute(7_ps);
    after.waits = {local(1)};
    return std::vector<Op>{first, collective(1, 5_ps, {local(0)}, local(1)), after};
  };
  const Timeline t = simulate(graph_of({work(10_ps), work(30_ps)})).value();
  CHECK(t.step_time == 42_ps);
  CHECK(t.ranks[0].compute == 17_ps);
  CHECK(t.ranks[0].bubble == 20_ps);  // wait time and transfer time are recorded separately
  CHECK(exposed_tp(t.ranks[0]) == 5_ps);
  CHECK(t.ranks[1].bubble == 0_ps);
  CHECK(exposed_tp(t.ranks[1]) == 5_ps);
}

TEST_CASE("engine: only the part of a transfer that compute does not hide is exposed", "[engine]") {
  Op first = compute(10_ps);
  first.records = local(0);
  const Duration hidden = GENERATE(3_ps, 5_ps, 9_ps);
  Op after = compute(1_ps);
  after.waits = {local(1)};
  const Timeline t =
      simulate(graph_of({{first, collective(1, 5_ps, {local(0)}, local(1)), compute(hidden), after}})).value();
  const Duration left = std::max(0_ps, 5_ps - hidden);
  CHECK(exposed_tp(t.ranks[0]) == left);
  CHECK(t.step_time == 10_ps + hidden + left + 1_ps);
}

TEST_CASE("engine: transfers of one stream follow each other; the tail after the last compute is exposed", "[engine]") {
  Op first = compute(10_ps);
  first.records = local(0);
  // Two transfers of 8 ready at 10; they end at 18 and 26.
  const Timeline t =
      simulate(
          graph_of({{first, collective(1, 8_ps, {local(0)}, {}), collective(1, 8_ps, {local(0)}, {}), compute(2_ps)}}))
          .value();
  CHECK(t.step_time == 26_ps);
  CHECK(exposed_tp(t.ranks[0]) == 14_ps);
}

TEST_CASE("engine: bucketed gradient reduction overlaps backward", "[oracle][engine]") {
  // Four layers of 10 ms backward; each layer's bucket takes 15 ms: communication ends at 70 ms, 30 ms exposed.
  std::vector<Op> ops;
  for (int layer = 0; layer < 4; ++layer) {
    Op backward = compute(10_ms);
    backward.records = local(layer);
    ops.push_back(backward);
    ops.push_back(collective(2, 15_ms, {local(layer)}, {}));
  }
  const Timeline t = simulate(graph_of({ops})).value();
  CHECK(t.step_time == 70_ms);
  CHECK(exposed_tp(t.ranks[0]) == 30_ms);
}

TEST_CASE("engine: one-ahead prefetch of FSDP", "[oracle][engine]") {
  // AGstart_i = max(AGend_{i-1}, Cstart_{i-1}); Cstart_i = max(AGend_i, Cend_{i-1}). Four layers, compute 10 ms.
  const auto run = [](Duration gather) {
    std::vector<Op> ops;
    for (int layer = 0; layer < 4; ++layer) {
      // The gather of layer i waits for the start of layer i-1, which is the end of layer i-2's compute or of its own gather.
      std::vector<EventRef> after;
      if (layer >= 2) after.push_back(local(layer - 2));
      ops.push_back(collective(1, gather, after, local(4 + layer)));
    }
    for (int layer = 0; layer < 4; ++layer) {
      Op work = compute(10_ms);
      work.waits = {local(4 + layer)};
      work.records = local(layer);
      ops.push_back(work);
    }
    return simulate(graph_of({ops})).value().step_time;
  };
  CHECK(run(15_ms) == 70_ms);
  CHECK(run(6_ms) == 46_ms);
}

TEST_CASE("engine: the host issues in order and may be the slower one", "[engine]") {
  // Five kernels of 2 us, 3 us to issue each: the last is issued at 15 and ends at 17; before each the stream idles.
  std::vector<Op> ops(5, compute(2_us, 3_us));
  const Timeline launch_bound = simulate(graph_of({ops})).value();
  CHECK(launch_bound.step_time == 17_us);
  CHECK(launch_bound.ranks[0].host == 7_us);
  // Kernels of 10 us hide all but the first launch.
  ops.assign(5, compute(10_us, 3_us));
  CHECK(simulate(graph_of({ops})).value().step_time == 53_us);
}

TEST_CASE("engine: a host that waits for the device issues what follows late", "[engine]") {
  Op first = compute(100_us, 1_us);
  first.records = local(0);
  Op sync;
  sync.type = OpType::host_sync;
  sync.waits = {local(0)};
  StepGraph graph = graph_of({{first, sync}});
  Template after;
  after.name = "after";
  after.ops = {compute(10_us, 4_us)};
  graph.templates.push_back(after);
  graph.programs[0].push_back({1, 0});
  const Timeline t = simulate(graph).value();
  CHECK(t.step_time == 115_us);  // 1 issue, 100 compute, 4 issue, 10 compute
  CHECK(t.ranks[0].host == 5_us);
}

TEST_CASE("engine: spans add up, keep their order and name their cause", "[engine]") {
  const Schedule schedule = make("interleaved-1f1b", 4, 8, 2);
  const Timeline t = simulate(graph_of(schedule, {6, 8, 4, 1}), {}, {true}).value();
  std::vector<std::int64_t> compute_time(4);
  for (const Span& span : t.spans) {
    CHECK(span.arrival <= span.start);
    CHECK(span.start <= span.end);
    if (span.cause >= 0) CHECK(t.spans[static_cast<std::size_t>(span.cause)].end <= span.start);
  }
  // Back along the causes from the last end the path is busy at every moment.
  const auto last =
      std::max_element(t.spans.begin(), t.spans.end(), [](const Span& a, const Span& b) { return a.end < b.end; });
  Duration until = t.step_time;
  for (auto i = static_cast<std::int32_t>(last - t.spans.begin()); i >= 0;
       i = t.spans[static_cast<std::size_t>(i)].cause) {
    const Span& span = t.spans[static_cast<std::size_t>(i)];
    CHECK(span.end == until);
    until = span.start;
  }
  CHECK(until == 0_ps);
}

TEST_CASE("engine: a slow rank's operations are rounded one by one", "[oracle][engine]") {
  // 1.5 x 3 ps is 4.5, rounded up to 5; three of them are 15, not round(1.5 x 9) = 14. Transfers are not slower.
  const std::vector<Op> ops{compute(3_ps), compute(3_ps), compute(3_ps), collective(1, 10_ps, {}, {})};
  StepGraph graph = graph_of({ops});
  graph.ranks[0].slowdown = 3 * kNoSlowdown / 2;
  CHECK(simulate(graph).value().ranks[0].compute == 15_ps);
  const Timeline traced = simulate(graph, {}, {true}).value();
  CHECK(traced.ranks[0].compute == 15_ps);
  CHECK(traced.spans[0].end == 5_ps);
  CHECK(traced.spans[2].end == 15_ps);
  CHECK(traced.spans[3].end == 10_ps);
  CHECK(scale_duration(1'000'000_s, 3 * kNoSlowdown) == 3'000'000_s);
  CHECK(scale_duration(7_ps, kNoSlowdown) == 7_ps);
}

TEST_CASE("engine: the host of a slow rank issues as fast as any", "[oracle][engine]") {
  // Kernels of 2 us take 3 on this rank, and 4 to issue: the last of five is issued at 20 and ends at 23.
  StepGraph graph = graph_of({std::vector<Op>(5, compute(2_us, 4_us))});
  graph.ranks[0].slowdown = 3 * kNoSlowdown / 2;
  for (const bool spans : {false, true}) CHECK(simulate(graph, {}, {spans}).value().step_time == 23_us);
}

TEST_CASE("engine: the slowest member of a group decides, with spans and without", "[engine]") {
  Op first = compute(10_ps);
  first.records = local(0);
  StepGraph graph =
      graph_of({{first, collective(1, 5_ps, {local(0)}, {})}, {first, collective(1, 5_ps, {local(0)}, {})}});
  graph.ranks[1].slowdown = 2 * kNoSlowdown;
  for (const bool spans : {false, true}) {
    const Timeline t = simulate(graph, {}, {spans}).value();
    CHECK(t.step_time == 25_ps);
    CHECK(t.ranks[0].bubble == 10_ps);
    CHECK(t.ranks[1].bubble == 0_ps);
  }
}

TEST_CASE("engine: blocking sends deadlock where eager sends do not, and the error describes the cycle",
          "[engine][error]") {
  // Two ranks, both send on the stream on which they receive, before they receive.
  StepGraph graph = graph_of({{}, {}});
  graph.streams = {{"compute"}, {"p2p"}};
  graph.rank_events = 1;
  for (int channel = 0; channel < 2; ++channel) {
    Message message;
    message.channel = channel;
    graph.messages.push_back(message);
  }
  for (int rank = 0; rank < 2; ++rank) {
    Op send;
    send.type = OpType::send;
    send.stream = 1;
    send.payload = 0;
    send.duration = 1_ps;
    Op receive = send;
    receive.type = OpType::receive;
    receive.payload = 1;
    graph.templates[static_cast<std::size_t>(rank)].name = "exchange";
    graph.templates[static_cast<std::size_t>(rank)].ops = {send, receive};
    graph.ranks[static_cast<std::size_t>(rank)].channels = {{1 - rank, 1}, {1 - rank, 0}};
  }
  const Result<Timeline> stuck = simulate(graph);
  REQUIRE_FALSE(stuck.has_value());
  CHECK(to_string(stuck.error()) ==
        "the step graph deadlocks: rank 0 (p2p, exchange, micro-batch 0) waits for rank 1 to receive; rank 1 (p2p, "
        "exchange, micro-batch 0) waits "
        "for rank 0 to receive");
  for (Message& message : graph.messages) message.eager = true;
  CHECK(simulate(graph).value().step_time == 1_ps);
}

TEST_CASE("engine: all times k-fold make the step k-fold", "[metamorphic][engine]") {
  const Schedule schedule = make("1f1b", 4, 8);
  const auto step = [&](std::int64_t k) {
    return simulate(graph_of(schedule, {5 * k, 7 * k, 3 * k, k})).value().step_time;
  };
  CHECK(step(1000) == step(1) * 1000);
}
