// Rules about what sends and receives wait for, simulated by the engine.
#include <string>

#include <catch2/catch.hpp>

#include "sim/forecast/schedule_runs.hpp"
#include "tests/support/results.hpp"

using namespace tracecast;

namespace {

struct Made {
  Schedule schedule;
  PipelineTimes times;
};

Made made(const std::string& name, int ranks, int microbatches, const ScheduleTimes& times, int chunks = 0) {
  const Schedule schedule =
      *make_schedule(name, {.ranks = ranks, .microbatches = microbatches, .chunks = chunks, .times = times});
  return {schedule, uniform_times(schedule, times)};
}

std::int64_t makespan(const Made& m, const MessageRules& rules) {
  const Result<ScheduleRun> run = run_schedule(m.schedule, m.times, rules);
  INFO((error_text(run)));
  REQUIRE(run);
  return run->makespan / run->scale;
}

std::string deadlock(const Made& m, const MessageRules& rules) {
  return error_text(run_schedule(m.schedule, m.times, rules));
}

}  // namespace

TEST_CASE("eager sends on streams of pairs: early receives and two streams change nothing",
          "[schedule][differential]") {
  for (const ScheduleVariant& variant : schedule_variants()) {
    for (int latency : {0, 1, 5}) {
      const Made m = made(std::string(variant.name), 4, 8, {3, 4, 2, latency});
      INFO(variant.name << " latency " << latency);
      const ScheduleRun expected = *run_schedule(m.schedule, m.times);
      CHECK(*run_schedule(m.schedule, m.times, {.receives = ReceiveOrder::early}) == expected);
      CHECK(*run_schedule(m.schedule, m.times, {.streams = MessageStreams::two}) == expected);
    }
  }
}

TEST_CASE("stricter rules never shorten a step of fixed order", "[schedule][property]") {
  for (const ScheduleVariant& variant : schedule_variants()) {
    const Made m = made(std::string(variant.name), 4, 8, {3, 4, 2, 1});
    INFO(variant.name);
    for (ReceiveOrder receives : {ReceiveOrder::at_use, ReceiveOrder::early}) {
      std::int64_t before = 0;
      for (MessageStreams streams :
           {MessageStreams::pairs, MessageStreams::two, MessageStreams::one, MessageStreams::compute}) {
        const auto run = run_schedule(m.schedule, m.times, {.receives = receives, .streams = streams});
        if (!run) continue;
        CHECK(run->makespan >= before);
        before = run->makespan;
        const auto rendezvous = run_schedule(m.schedule, m.times,
                                             {.sends = SendRule::rendezvous, .receives = receives, .streams = streams});
        if (rendezvous) CHECK(rendezvous->makespan >= run->makespan);
      }
    }
  }
}

TEST_CASE("gpipe on the compute stream: the transfer itself costs the sender", "[schedule][oracle]") {
  // Two ranks, M = 2, f = 2, b + w = 4, a hop of 1. Eager on the compute stream: a receive occupies it until the message
  // is there. Rank 1: waits 3 (f + hop), F0 to 5, its second message came at 5: F1 to 7, B0 to 11, B1 to 15;
  // rank 0 gets B0's gradient at 12 and computes to 16, the second is there at 16: to 20.
  const Made m = made("gpipe", 2, 2, {2, 2, 2, 1});
  CHECK(makespan(m, {.streams = MessageStreams::compute}) == 20);
  // Rendezvous: rank 0 sends its first from 2 to 3, when rank 1 stands at the receive; F1 only then, 3 to 5. Rank 1
  // computes F0 until 5, takes the second message until 6, F1 to 8, B0 to 12; its send waits for rank 0, idle since 6:
  // 12 to 13. B1 to 17, sent until 18. Rank 0: B0 13 to 17, B1 18 to 22.
  CHECK(makespan(m, {.sends = SendRule::rendezvous, .streams = MessageStreams::compute}) == 22);
}

TEST_CASE("a receive posted early holds up the sends behind it when they share a stream", "[schedule][oracle]") {
  // Interleaved 1F1B as PyTorch lowers it. In unit-time pictures and on two streams nothing is lost.
  const Made m = made("interleaved-1f1b", 4, 8, {8, 8, 8, 1}, 2);
  const std::int64_t two_streams = makespan(m, {.receives = ReceiveOrder::early, .streams = MessageStreams::two});
  const std::int64_t shared = makespan(m, {.receives = ReceiveOrder::early, .streams = MessageStreams::one});
  const std::int64_t at_use = makespan(m, {.receives = ReceiveOrder::at_use, .streams = MessageStreams::one});
  CHECK(two_streams < shared);
  CHECK(at_use <= shared);
  CHECK(two_streams == run_schedule(m.schedule, m.times)->makespan / m.times.scale);
}

TEST_CASE("1f1b with rendezvous and one stream deadlocks unless it is batched", "[schedule]") {
  // Between its forward and its backward a rank sends an activation down and receives a gradient from below; its
  // adjacent stage sends that gradient before it takes the activation. Megatron-LM therefore fuses the two.
  const Made m = made("1f1b", 2, 4, {1, 1, 1, 1});
  CHECK(deadlock(m, {.sends = SendRule::rendezvous, .streams = MessageStreams::one}) ==
        "the step graph deadlocks: rank 0 (messages, 0SEND_F, micro-batch 1) waits for rank 1 to receive; "
        "rank 1 (messages, 1SEND_B, micro-batch 0) waits for rank 0 to receive");
  CHECK(deadlock(m, {.sends = SendRule::rendezvous, .streams = MessageStreams::compute}) ==
        "the step graph deadlocks: rank 0 (compute 0, 0SEND_F, micro-batch 1) waits for rank 1 to receive; "
        "rank 1 (compute 0, 1SEND_B, micro-batch 0) waits for rank 0 to receive");
  CHECK(deadlock(m, {.sends = SendRule::rendezvous, .batched = true, .streams = MessageStreams::one}).empty());
  CHECK(deadlock(m, {.sends = SendRule::rendezvous, .streams = MessageStreams::two}).empty());
  CHECK(deadlock(m, {.sends = SendRule::eager, .streams = MessageStreams::one}).empty());
}

TEST_CASE("a batch ends when its last message has come", "[schedule][oracle]") {
  // Two ranks, M = 2, f = 1, b + w = 2, no latency, all on the compute stream, rendezvous, batched (fused send-receive).
  // Rank 0: F0 0-1, send; F1 1-2, then one call sends F1 and receives B0's gradient. Rank 1: F0 1-2, B0 2-4, then one
  // call sends that gradient and receives F1's input at 4; F1 4-5, B1 5-7. Rank 0: B0 4-6, B1 7-9.
  const Made m = made("1f1b", 2, 2, {1, 1, 1, 0});
  const ScheduleRun run = *run_schedule(
      m.schedule, m.times, {.sends = SendRule::rendezvous, .batched = true, .streams = MessageStreams::compute});
  CHECK(run.makespan == 9);
  const auto check_times = [](const std::vector<ActionSpan>& spans, const std::vector<std::pair<int, int>>& expected) {
    REQUIRE(spans.size() == expected.size());
    for (std::size_t i = 0; i < spans.size(); ++i)
      CHECK(std::pair<int, int>(spans[i].start, spans[i].end) == expected[i]);
  };
  check_times(run.actions[0], {{0, 1}, {1, 2}, {4, 6}, {7, 9}});
  check_times(run.actions[1], {{1, 2}, {2, 4}, {4, 5}, {5, 7}});
}
