// NCCL's profiler interface by hand-made calls, and the trace that comes of them.

#include "tracer/nccl_events.hpp"

#include <string>

#include <catch2/catch.hpp>

#include "sim/io/trace_reader.hpp"
#include "tests/io/temporary_folder.hpp"

using namespace tracecast;

namespace {

/// Calls as NCCL makes them, at times that the test sets.
class Calls {
 public:
  Calls() { context_ = recorder_.begin_communicator(0xABCDEF, 8, 3); }

  void* collective(std::uint8_t channels) {
    nccl::Event event{};
    event.type = nccl::kCollective;
    event.collective = {7,        "AllReduce", nullptr, nullptr,  1 << 20, 0, "ncclBfloat16",
                        channels, 16,          "RING",  "SIMPLE", nullptr};
    return recorder_.start(context_, event);
  }
  void* send() {
    nccl::Event event{};
    event.type = nccl::kPointToPoint;
    event.point_to_point = {"Send", nullptr, "ncclInt8", 4096, 5, 1, nullptr};
    return recorder_.start(context_, event);
  }
  void* channel(void* operation, std::uint8_t number) {
    nccl::Event event{};
    event.type = nccl::kKernelChannel;
    event.parent = operation;
    event.kernel_channel = {number, 0};
    return recorder_.start(context_, event);
  }
  Trace trace() {
    recorder_.end_communicator(context_);
    writer_.finish();
    const Result<Trace> read = read_trace(folder_.path() / "t");
    if (!read) FAIL(to_string(read.error()));
    return *read;
  }

  std::int64_t time = 0;
  void* context() const { return context_; }
  nccl::Recorder& recorder() { return recorder_; }

 private:
  TemporaryFolder folder_;
  TraceWriter writer_{(folder_.path() / "t").string(), TraceHeader{}};
  nccl::Recorder recorder_{writer_, [this] { return time; }};
  void* context_ = nullptr;
};

}  // namespace

TEST_CASE("nccl events: a collective lasts from its first channel's begin to its last channel's end",
          "[tracer][nccl]") {
  Calls calls;
  calls.time = 100;
  void* const all_reduce = calls.collective(2);
  calls.time = 110;
  calls.recorder().stop(all_reduce);  // the host has enqueued it
  calls.time = 200;
  void* const first = calls.channel(all_reduce, 0);
  calls.time = 205;
  void* const second = calls.channel(all_reduce, 1);
  calls.time = 300;
  calls.recorder().record_state(first, nccl::kKernelChannelStop);
  calls.recorder().stop(first);  // the other channel is still at work
  calls.time = 310;
  calls.recorder().record_state(second, nccl::kKernelChannelStop);
  calls.time = 400;  // later: its handle is given back
  calls.recorder().stop(second);
  const Trace trace = calls.trace();
  REQUIRE(trace.collectives.size() == 1);
  const TraceCollective expected{"AllReduce", "ncclBfloat16", "RING", "SIMPLE", 0xABCDEF, 3, 8,
                                 -1,          1 << 20,        7,      200,      310};
  CHECK(trace.collectives[0] == expected);
  CHECK(trace.complete);
}

TEST_CASE("nccl events: messages have a peer, and without channels the time of the call", "[tracer][nccl]") {
  Calls calls;
  calls.time = 50;
  void* const send = calls.send();
  calls.time = 60;
  calls.recorder().stop(send);
  const Trace trace = calls.trace();
  REQUIRE(trace.collectives.size() == 1);
  const TraceCollective expected{"Send", "ncclInt8", "", "", 0xABCDEF, 3, 8, 5, 4096, 0, 50, 60};
  CHECK(trace.collectives[0] == expected);
}

TEST_CASE("nccl events: an operation is written when its last channel has ended, not before", "[tracer][nccl]") {
  Calls calls;
  void* const early = calls.collective(1);
  void* const late = calls.collective(1);
  calls.recorder().stop(early);
  calls.recorder().stop(late);
  void* const channel = calls.channel(late, 0);
  calls.time = 10;
  calls.recorder().stop(channel);  // a channel that is stopped without a state has ended too
  const Trace trace = calls.trace();
  REQUIRE(trace.collectives.size() == 2);
  CHECK(trace.collectives[0].end_ns == 10);  // `late` was complete first
  CHECK(trace.collectives[1].end_ns == 0);   // `early` is written at the end, with the time of its call
}

TEST_CASE("nccl events: unknown records are skipped", "[tracer][nccl]") {
  Calls calls;
  CHECK(calls.channel(&calls, 0) == nullptr);  // of an operation that is gone
  nccl::Event group{};
  group.type = 1;
  CHECK(calls.recorder().start(calls.context(), group) == nullptr);
  CHECK(calls.recorder().start(nullptr, group) == nullptr);
  calls.recorder().stop(nullptr);
  calls.recorder().record_state(nullptr, nccl::kKernelChannelStop);
  void* const operation = calls.collective(1);
  calls.recorder().stop(operation);
  void* const channel = calls.channel(operation, 0);
  CHECK(calls.channel(channel, 0) == nullptr);  // a channel has no channels
  calls.recorder().stop(channel);
  calls.recorder().stop(operation);  // gone
  CHECK(calls.trace().collectives.size() == 1);
}

TEST_CASE("nccl events: the layout is that of the library", "[tracer][nccl]") {
  // Offsets of version 5 on 64-bit machines, worked out from the structure's definition.
  CHECK(offsetof(nccl::Event, rank) == 16);
  CHECK(offsetof(nccl::Event, collective.function) == 32);
  CHECK(offsetof(nccl::Event, collective.count) == 56);
  CHECK(offsetof(nccl::Event, collective.type) == 72);
  CHECK(offsetof(nccl::Event, collective.channels) == 80);
  CHECK(offsetof(nccl::Event, collective.algorithm) == 88);
  CHECK(offsetof(nccl::Event, point_to_point.count) == 48);
  CHECK(offsetof(nccl::Event, point_to_point.channels) == 60);
  CHECK(sizeof(nccl::Profiler) == 48);
}
