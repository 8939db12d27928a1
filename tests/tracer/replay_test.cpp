// Recordings made by hand: what depends on what is known, so the graph's answer to a change is known too.

#include "tracer/replay.hpp"

#include <catch2/catch.hpp>

#include "sim/engine/simulate.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

/// A kernel and its launch.
void launch(Trace& trace, const std::string& name, std::int64_t stream, std::int64_t launched, std::int64_t start,
            std::int64_t end) {
  const auto correlation = static_cast<std::int64_t>(trace.calls.size()) + 1;
  trace.calls.push_back({1, correlation, launched, launched + 500, "cudaLaunchKernel"});
  trace.kernels.push_back({name, 0, stream, correlation, start, end, 1, 1});
}

/// Two GEMMs, a reduction of their result on another stream, and a kernel that needs both, all in ns.
Trace recorded() {
  Trace trace;
  launch(trace, "gemm", 7, 1'000, 5'000, 105'000);
  launch(trace, "gemm", 7, 2'000, 106'000, 206'000);
  launch(trace, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 20, 3'000, 208'000, 308'000);
  launch(trace, "adam", 7, 4'000, 309'000, 329'000);
  return trace;
}

Timeline replayed(const Trace& trace) {
  const Replay replay = value_of(replay_graph(trace, std::nullopt, "t"));
  return value_of(simulate(replay.graph));
}

}  // namespace

TEST_CASE("replay: as recorded it takes what it took, and says where the time went", "[tracer][replay]") {
  const Result<Replay> replay = replay_graph(recorded(), std::nullopt, "t");
  REQUIRE(replay);
  CHECK(replay->works == 4);
  CHECK(replay->waits == 2);  // the reduction for the second GEMM, adam for the reduction
  CHECK(replay->recorded == 328_us);
  const Timeline timeline = replayed(recorded());
  CHECK(timeline.step_time == 328_us);
  REQUIRE(timeline.ranks.size() == 1);
  // 220 us of kernels; pauses of 4 us after the first launch, 1 us between the GEMMs, 1 us before adam, and 2 us before the
  // reduction, which is 100 us long.
  CHECK(timeline.ranks[0].compute + timeline.ranks[0].optimizer == 220_us);
  CHECK(timeline.ranks[0].bubble == 8_us);
  CHECK(timeline.ranks[0].exposed[static_cast<std::size_t>(Traffic::gradients)] == 100_us);
}

TEST_CASE("replay: pauses before transfers that compute waits for are waiting, those beside compute are nothing",
          "[tracer][replay]") {
  Trace trace;
  const char* const reduce = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";
  launch(trace, "gemm", 7, 1'000, 1'000, 101'000);
  launch(trace, reduce, 20, 1'200, 41'000, 71'000);    // 40 us of pause and 30 us beside the gemm
  launch(trace, reduce, 20, 1'400, 131'000, 181'000);  // a pause of 60 us, 30 of them beside it; 50 us
  launch(trace, reduce, 20, 1'600, 201'000, 231'000);  // 20 us and 30 us
  launch(trace, "adam", 7, 1'800, 231'000, 251'000);
  const Timeline timeline = replayed(trace);
  CHECK(timeline.step_time == 250_us);
  CHECK(timeline.ranks[0].compute + timeline.ranks[0].optimizer == 120_us);
  CHECK(timeline.ranks[0].exposed[static_cast<std::size_t>(Traffic::gradients)] == 80_us);
  CHECK(timeline.ranks[0].bubble == 50_us);
  // The same if the step ends with a transfer.
  trace.kernels.pop_back();
  CHECK(replayed(trace).step_time == 230_us);
  CHECK(replayed(trace).ranks[0].exposed[static_cast<std::size_t>(Traffic::gradients)] == 80_us);
  CHECK(replayed(trace).ranks[0].bubble == 50_us);
}

TEST_CASE("replay: a faster kernel brings what waits for it forward, on every stream", "[tracer][replay]") {
  Replay replay = replay_graph(recorded(), std::nullopt, "t").value();
  for (Template& part : replay.graph.templates)
    for (Op& op : part.ops)
      if (op.duration == 100_us && op.type == OpType::compute) op.duration = 50_us;
  CHECK(simulate(replay.graph)->step_time == 228_us);
}

TEST_CASE("replay: a host that waits for the GPU goes on when that is done", "[tracer][replay]") {
  Trace trace;
  launch(trace, "gemm", 7, 1'000, 5'000, 105'000);
  trace.calls.push_back({1, 99, 2'000, 110'000, "cudaStreamSynchronize"});
  launch(trace, "gemm", 7, 130'000, 135'000, 235'000);
  Replay replay = replay_graph(trace, std::nullopt, "t").value();
  CHECK(replay.syncs == 1);
  CHECK(simulate(replay.graph)->step_time == 234_us);
  for (Template& part : replay.graph.templates)
    for (Op& op : part.ops)
      if (op.duration == 100_us) op.duration = 60_us;
  CHECK(simulate(replay.graph)->step_time == 154_us);  // 40 us less of each: the host had waited for the first
}

TEST_CASE("replay: kernels that overlap on a stream keep the time at which the last ends", "[tracer][replay]") {
  Trace trace;
  launch(trace, "a", 7, 1'000, 5'000, 9'000);
  launch(trace, "b", 7, 2'000, 8'000, 12'000);
  CHECK(replayed(trace).step_time == 11_us);
}

TEST_CASE("replay: one step of several", "[tracer][replay]") {
  Trace trace = recorded();
  launch(trace, "gemm", 7, 400'000, 401'000, 501'000);
  trace.ranges.push_back({"ProfilerStep#5", "user_annotation", 1, 0, 500, 390'000});
  trace.ranges.push_back({"ProfilerStep#6", "user_annotation", 1, 1, 390'500, 600'000});
  CHECK(recorded_steps(trace) == std::vector<std::int64_t>{5, 6});
  const Replay replay = replay_graph(trace, 6, "t").value();
  CHECK(replay.works == 1);
  CHECK(replay.recorded == 209'500_ns);  // as long as the range, though the GPU was done at 501 us
  CHECK(simulate(replay.graph)->step_time == 209'500_ns);
  const Result<Replay> none = replay_graph(trace, 7, "run.trace");
  REQUIRE_FALSE(none);
  CHECK(to_string(none.error()) == "run.trace: step = 7: not a step of the trace (allowed: 5 6)");
  CHECK(to_string(replay_graph(Trace{}, std::nullopt, "run.trace").error()) == "run.trace: has no GPU work");
}

TEST_CASE("replay: a step ends with its range on the host or with its GPU work, whichever is later",
          "[tracer][replay]") {
  Trace trace;
  launch(trace, "gemm", 7, 1'000, 5'000, 105'000);
  trace.calls.push_back({1, 99, 2'000, 110'000, "cudaDeviceSynchronize"});
  trace.ranges.push_back({"ProfilerStep#1", "user_annotation", 1, 0, 0, 150'000});
  Replay replay = replay_graph(trace, 1, "t").value();
  CHECK(replay.recorded == 150_us);
  CHECK(replay.syncs == 1);
  CHECK(simulate(replay.graph)->step_time == 150_us);
  for (Template& part : replay.graph.templates)
    for (Op& op : part.ops)
      if (op.duration == 100_us) op.duration = 60_us;
  CHECK(simulate(replay.graph)->step_time == 110_us);  // the host had waited for it
  trace.ranges.back().end_ns = 50'000;
  const Replay late = replay_graph(trace, 1, "t").value();
  CHECK(late.recorded == 105_us);
  CHECK(simulate(late.graph)->step_time == 105_us);
}

TEST_CASE("replay: a host that runs ahead does not lengthen the steps of the GPU", "[tracer][replay]") {
  Trace trace;  // three steps of 200 us on the GPU, issued by the host in 30 us
  for (int step = 0; step < 3; ++step) {
    const std::int64_t host = 10'000 * step;
    const std::int64_t gpu = 5'000 + 200'000 * step;
    trace.ranges.push_back({"ProfilerStep#" + std::to_string(step), "user_annotation", 1, step, host, host + 10'000});
    launch(trace, "gemm", 7, host + 1'000, gpu, gpu + 150'000);
    launch(trace, "adam", 7, host + 2'000, gpu + 150'000, gpu + 198'000);
  }
  for (const std::int64_t step : {0, 1}) {
    const Replay replay = replay_graph(trace, step, "t").value();
    CHECK(replay.recorded == 200_us);  // to the first work of the next step
    CHECK(simulate(replay.graph)->step_time == 200_us);
  }
  const Replay last = replay_graph(trace, 2, "t").value();
  CHECK(last.recorded == 200_us);  // from the end of the work before
  CHECK(simulate(last.graph)->step_time == 200_us);
  CHECK(simulate(last.graph)->ranks[0].compute + simulate(last.graph)->ranks[0].optimizer == 198_us);
}

TEST_CASE("replay: NCCL's kernels communicate on whatever stream they ran", "[tracer][replay]") {
  Trace trace;
  launch(trace, "gemm", 7, 1'000, 5'000, 105'000);
  launch(trace, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 7, 2'000, 105'000, 145'000);
  launch(trace, "gemm", 7, 3'000, 150'000, 250'000);
  const Timeline timeline = replayed(trace);
  CHECK(timeline.step_time == 249_us);
  CHECK(timeline.ranks[0].compute == 200_us);
  CHECK(timeline.ranks[0].exposed[static_cast<std::size_t>(Traffic::gradients)] == 40_us);
  CHECK(timeline.ranks[0].bubble == 9_us);  // 4 us until the first kernel, 5 us before the last
  Replay faster = replay_graph(trace, std::nullopt, "t").value();
  for (Template& part : faster.graph.templates)
    for (Op& op : part.ops)
      if (op.type == OpType::collective) op.duration = 10_us;
  CHECK(simulate(faster.graph)->step_time == 219_us);  // the second gemm waited for it
}

TEST_CASE("replay: clocks that go backwards are refused", "[tracer][replay][error]") {
  Trace trace;
  launch(trace, "void gemm<128>(int)", 7, 1'000, 105'000, 5'000);
  CHECK(to_string(replay_graph(trace, std::nullopt, "run.json").error()) ==
        "run.json: kernel gemm = 5000 ns: ends before it begins (allowed: from 105000 ns on)");
}

TEST_CASE("replay: each GPU of a process is a rank", "[tracer][replay]") {
  Trace trace = recorded();
  for (TraceKernel& kernel : trace.kernels) kernel.device = kernel.stream == 20 ? 1 : 0;
  const Replay replay = replay_graph(trace, std::nullopt, "t").value();
  CHECK(replay.graph.ranks.size() == 2);
  CHECK(simulate(replay.graph)->step_time == 328_us);
}

namespace {

/// A rank that computes so long before an all-reduce, which takes `waited` longer on it than on the last one. Its clock is `clock` ns
/// behind.
Trace rank_of_two(int number, std::int64_t computes, std::int64_t all_reduces, std::int64_t clock) {
  Trace trace;
  trace.header.rank = number;
  trace.header.ranks = 2;
  launch(trace, "gemm", 7, 1'000 + clock, 2'000 + clock, 2'000 + computes + clock);
  const std::int64_t begin = 2'000 + computes + clock;
  launch(trace, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 20, 1'500 + clock, begin, begin + all_reduces);
  trace.collectives.push_back(
      {"AllReduce", "ncclBfloat16", "RING", "LL", 77, number, 2, -1, 1024, 1, begin, begin + all_reduces});
  launch(trace, "adam", 7, 1'600 + clock, begin + all_reduces, begin + all_reduces + 30'000);
  return trace;
}

/// Rank 0 computes 100 us and waits for rank 1, which computes 150 us; the all-reduce itself takes 40 us.
std::vector<Replay> two_ranks(std::int64_t clock) {
  std::vector<Replay> replays;
  replays.push_back(replay_graph(rank_of_two(0, 100'000, 90'000, 0), std::nullopt, "a").value());
  replays.push_back(replay_graph(rank_of_two(1, 150'000, 40'000, clock), std::nullopt, "b").value());
  return replays;
}

}  // namespace

TEST_CASE("replay: ranks meet in their collectives, and who comes early waits", "[tracer][replay]") {
  const std::int64_t clock = GENERATE(0, 5'000'000, -700'000);  // ns between the clocks of two hosts
  const Replay joined = join_ranks(two_ranks(clock));
  CHECK(joined.met == 1);
  CHECK(joined.recorded == 221_us);  // from the first launch: 1 + 150 + 40 + 30
  const Result<Timeline> timeline = simulate(joined.graph);
  REQUIRE(timeline);
  CHECK(timeline->step_time == 221_us);
  REQUIRE(timeline->ranks.size() == 2);
  const auto moving = static_cast<std::size_t>(Traffic::gradients);
  CHECK(timeline->ranks[0].exposed[moving] == 40_us);
  CHECK(timeline->ranks[0].bubble >= 50_us);  // alone it was 90 us of communication
  CHECK(timeline->ranks[1].exposed[moving] == 40_us);
}

TEST_CASE("replay: a faster rank gives the others only what they waited for", "[tracer][replay]") {
  Replay joined = join_ranks(two_ranks(0));
  for (Template& part : joined.graph.templates)
    for (Op& op : part.ops)
      if (op.type == OpType::compute && op.duration == 150_us) op.duration = 60_us;
  CHECK(simulate(joined.graph)->step_time == 171_us);  // rank 0 is the last one now: 1 + 100 + 40 + 30
}

TEST_CASE("replay: ranks of different groups and orders do not meet", "[tracer][replay]") {
  std::vector<Trace> traces{rank_of_two(0, 100'000, 90'000, 0), rank_of_two(1, 150'000, 40'000, 0)};
  const auto joined = [&traces] {
    std::vector<Replay> replays;
    for (const Trace& trace : traces) replays.push_back(replay_graph(trace, std::nullopt, "t").value());
    return join_ranks(std::move(replays));
  };
  CHECK(joined().met == 1);
  traces[1].collectives[0].communicator = 78;
  const Replay apart = joined();
  CHECK(apart.met == 0);
  CHECK(simulate(apart.graph)->step_time == apart.recorded);
  traces[1].collectives[0].communicator = 77;
  traces[1].collectives[0].sequence = 2;
  CHECK(joined().met == 0);
}

namespace {

/// `steps` times 100 us of computation (rank 1: 150 us) and an all-reduce whose number was not recorded. The extra steps of rank 1
/// begin with an all-reduce of another group.
Trace without_numbers(int number, int steps, bool extra) {
  Trace trace;
  trace.header.rank = number;
  trace.header.ranks = 2;
  std::int64_t now = 10'000;
  const auto reduce = [&](std::uint64_t group, std::int64_t ns) {
    launch(trace, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 20, 2'000 + now / 1000, now, now + ns);
    trace.collectives.push_back({"AllReduce", "BFloat16", "RING", "LL", group, number, 2, -1, 1024, -1, now, now + ns});
    now += ns;
  };
  for (int step = 0; step < steps; ++step) {
    if (extra) reduce(99, 10'000);
    const std::int64_t computes = number == 0 ? 100'000 : extra ? 140'000 : 150'000;
    launch(trace, "gemm", 7, 2'000 + now / 1000, now, now + computes);
    now += computes;
    reduce(77, number == 0 ? 90'000 : 40'000);
  }
  return trace;
}

Replay joined(const std::vector<Trace>& traces) {
  std::vector<Replay> replays;
  for (const Trace& trace : traces) replays.push_back(replay_graph(trace, std::nullopt, "t").value());
  return join_ranks(std::move(replays));
}

}  // namespace

TEST_CASE("replay: calls without numbers meet in the order of their group, whatever other groups do",
          "[tracer][replay]") {
  const bool extra = GENERATE(false, true);
  const Replay both = joined({without_numbers(0, 3, false), without_numbers(1, 3, extra)});
  CHECK(both.met == 3);
  CHECK(both.notes.empty());
  CHECK(simulate(both.graph)->step_time == both.recorded);
  CHECK(simulate(both.graph)->ranks[0].exposed[static_cast<std::size_t>(Traffic::gradients)] == 120_us);
}

TEST_CASE("replay: calls without numbers are not matched if one is missing, and a note says so", "[tracer][replay]") {
  std::vector<Trace> traces{without_numbers(0, 3, false), without_numbers(1, 3, false)};
  traces[1].collectives.erase(traces[1].collectives.begin());
  std::erase_if(traces[1].kernels, [](const TraceKernel& k) { return k.start_ns == 160'000; });
  const Replay both = joined(traces);
  CHECK(both.met == 0);
  CHECK(both.notes ==
        std::vector<std::string>{"calls of all_reduce without sequence numbers were not matched across ranks, which "
                                 "recorded 2 to 3 of them"});
  CHECK(simulate(both.graph)->step_time == both.recorded);
  for (Trace& trace : traces) trace.collectives.clear();
  CHECK(
      joined(traces).notes ==
      std::vector<std::string>{"NCCL kernels without sequence numbers were not matched across ranks, which recorded 2 "
                               "to 3 of them"});
}

TEST_CASE("replay: messages without numbers meet in the order in which one rank sends to the other",
          "[tracer][replay]") {
  std::vector<Trace> traces{without_numbers(0, 2, false), without_numbers(1, 2, false)};
  for (int rank = 0; rank < 2; ++rank)
    for (TraceCollective& each : traces[static_cast<std::size_t>(rank)].collectives) {
      each.name = rank == 0 ? "Send" : "Recv";
      each.peer = 1 - rank;
    }
  CHECK(joined(traces).met == 2);
  // The other way round they are other messages.
  for (TraceCollective& each : traces[1].collectives) each.name = "Send";
  CHECK(joined(traces).met == 0);
  // Without the other rank their order says nothing.
  for (Trace& trace : traces)
    for (TraceCollective& each : trace.collectives) each.peer = -1;
  CHECK(joined(traces).met == 0);
  CHECK(joined(traces).notes ==
        std::vector<std::string>{"messages whose other rank was not recorded were not matched across ranks"});
}

TEST_CASE("replay: messages of recordings that do not name their rank are not matched", "[tracer][replay]") {
  std::vector<Trace> traces{without_numbers(0, 2, false), without_numbers(1, 2, false)};
  for (int rank = 0; rank < 2; ++rank)
    for (TraceCollective& each : traces[static_cast<std::size_t>(rank)].collectives) {
      each.name = rank == 0 ? "Send" : "Recv";
      each.rank = -1;
      each.peer = 1 - rank;
    }
  CHECK(joined(traces).met == 0);
  CHECK(joined(traces).notes ==
        std::vector<std::string>{"messages of recordings that do not name their rank were not matched across ranks"});
}

TEST_CASE("replay: two ranks that send are not the ends of one message", "[tracer][replay]") {
  std::vector<Trace> traces{without_numbers(0, 2, false), without_numbers(1, 2, false)};
  for (Trace& trace : traces)
    for (TraceCollective& each : trace.collectives) {
      each.name = "Send";
      each.rank = 0;
      each.peer = 2;
    }
  CHECK(joined(traces).met == 0);
  for (TraceCollective& each : traces[1].collectives) {
    each.name = "Recv";
    each.rank = 2;
    each.peer = 0;
  }
  CHECK(joined(traces).met == 2);
}

TEST_CASE("replay: calls that ranks made in different orders are not matched, and a note says so", "[tracer][replay]") {
  std::vector<Trace> traces{without_numbers(0, 2, false), without_numbers(1, 2, false)};
  for (std::size_t rank = 0; rank < 2; ++rank)
    for (std::size_t i = 0; i < 2; ++i)
      traces[rank].collectives[i].sequence = static_cast<std::int64_t>(rank == 0 ? i : 1 - i);
  const Replay both = joined(traces);
  CHECK(both.met == 0);
  CHECK(both.notes == std::vector<std::string>{
                          "calls of a group that its ranks made in different orders were not matched across ranks"});
}

namespace {

/// Steps [first, first + steps) of 200 us on a rank: 100 us of gemm, an all-reduce of 50 us with its number, 40 us of adam, then nothing.
Trace steps_from(int rank, int first, int steps, bool ranges = false) {
  Trace trace;
  trace.header.rank = rank;
  trace.header.ranks = 2;
  for (int step = first; step < first + steps; ++step) {
    const std::int64_t now = 200'000 * step;
    launch(trace, "gemm", 7, now, now + 1'000, now + 101'000);
    launch(trace, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 20, now + 500, now + 101'000, now + 151'000);
    trace.collectives.push_back(
        {"AllReduce", "BFloat16", "RING", "LL", 77, rank, 2, -1, 1024, step, now + 101'000, now + 151'000});
    launch(trace, "adam", 7, now + 600, now + 151'000, now + 191'000);
    if (ranges) trace.ranges.push_back({"ProfilerStep#" + std::to_string(step), "", 1, step, now, now + 199'999});
  }
  return trace;
}

Result<Replay> replayed_step(const std::vector<Trace>& traces, std::int64_t step) {
  std::vector<std::string> files;
  for (std::size_t i = 0; i < traces.size(); ++i) files.push_back("r" + std::to_string(i));
  return replay_ranks(traces, files, rank_steps(traces), step);
}

}  // namespace

TEST_CASE("replay: ranks that began to record at different steps are joined at the same step", "[tracer][replay]") {
  const std::vector<Trace> traces{steps_from(0, 3, 3), steps_from(1, 4, 3)};
  const RankSteps steps = rank_steps(traces);
  CHECK(steps.shifts == std::vector<std::int64_t>{0, -1});
  CHECK(steps.common() == std::vector<std::int64_t>{2, 3});
  const Replay second = value_of(replayed_step(traces, 2));
  CHECK(second.met == 1);
  CHECK(second.recorded == 200_us);
  CHECK(second.notes ==
        std::vector<std::string>{"step 2 of r0 is step 1 of r1, whose recording began at another step"});
  CHECK(error_text(replayed_step(traces, 1)) ==
        "r1: step = 1: not a step of the trace, by the numbers of r0 (allowed: 2 3)");
  CHECK(error_text(replayed_step(traces, 4)) == "r0: step = 4: not a step of the trace (allowed: 2 3)");
}

TEST_CASE("replay: a note names recordings that no numbered call places", "[tracer][replay]") {
  std::vector<Trace> traces{steps_from(0, 1, 2), steps_from(1, 2, 2)};
  for (TraceCollective& each : traces[1].collectives) each.sequence = -1;
  CHECK(rank_steps(traces).placed == std::vector<bool>{true, false});
  const std::vector<std::string> notes = value_of(replayed_step(traces, 1)).notes;
  CHECK(std::ranges::count(
            notes, "no numbered call says which step of r1 is step 1 of r0: taken to have the same number") == 1);
}

TEST_CASE("replay: where a step ends is known from the ranks that recorded the next one", "[tracer][replay]") {
  const bool ranges = GENERATE(false, true);
  const std::vector<Trace> traces{steps_from(0, 1, 2, ranges), steps_from(1, ranges ? 1 : 2, ranges ? 3 : 2, ranges)};
  const Replay last_of_rank_0 = value_of(replayed_step(traces, 2));
  CHECK(last_of_rank_0.met == 1);
  CHECK(last_of_rank_0.recorded == 200_us);  // not 10 us of rank 0 before it, and 10 us of rank 1 behind it
  CHECK(simulate(last_of_rank_0.graph)->step_time == 200_us);
}

TEST_CASE("replay: calls whose other ranks were not recorded are counted", "[tracer][replay]") {
  std::vector<Trace> traces{steps_from(0, 1, 2), steps_from(1, 1, 2)};
  CHECK(value_of(replayed_step(traces, 1)).notes.empty());
  for (Trace& trace : traces)
    for (TraceCollective& each : trace.collectives) each.ranks = 3;
  const std::vector<std::string> both{
      "calls of collectives that were not matched with all their ranks: 2 of 2; their times may include waiting"};
  CHECK(value_of(replayed_step(traces, 1)).notes == both);
  traces.pop_back();
  CHECK(value_of(replayed_step(traces, 1)).notes.front().find(": 1 of 1;") != std::string::npos);
}

TEST_CASE("replay: transfers of other libraries than NCCL are communication that no other rank shares",
          "[tracer][replay]") {
  std::vector<Trace> traces{steps_from(0, 1, 1), steps_from(1, 1, 1)};
  for (Trace& trace : traces) {
    trace.collectives.clear();
    trace.kernels[1].name = "void deep_ep::intranode::dispatch<8>(int)";
  }
  const Replay both = joined(traces);
  CHECK(both.met == 0);
  CHECK(both.notes == std::vector<std::string>{"transfers of other libraries than NCCL were not matched across ranks"});
  CHECK(both.calls.front().kernel == "deep_ep::intranode::dispatch");
  const Timeline timeline = value_of(simulate(both.graph));
  CHECK(timeline.ranks[0].compute + timeline.ranks[0].optimizer == 140_us);
  CHECK(timeline.ranks[0].exposed[static_cast<std::size_t>(Traffic::expert_parallel)] == 50_us);
}
