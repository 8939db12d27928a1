// NCCL's profiler interface in the order in which NCCL calls it (src/group.cc, src/enqueue.cc of 2.28.9), and the trace that comes of
// it. The order: kernel launch, its end; then the group, its operations, its end.

#include "tracer/nccl_events.hpp"

#include <atomic>
#include <ctime>
#include <mutex>
#include <string>
#include <thread>

#include <catch2/catch.hpp>

#include "sim/import/recorded_collectives.hpp"
#include "sim/io/trace_reader.hpp"
#include "tests/support/results.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;

namespace {

struct Sent {
  const char* function;
  int peer;
  std::size_t count;
};

/// NCCL as seen by a plug-in, with CUPTI's external ids.
class Nccl {
 public:
  void* communicator(std::uint64_t id, int ranks, int rank, int nodes = 1) {
    return recorder_.begin_communicator(id, nodes, ranks, rank);
  }

  /// Version 5.
  void launch(void* context) {
    nccl::Event event{};
    event.type = nccl::kKernelLaunch;
    void* const handle = recorder_.start(context, event);
    recorder_.stop(handle);
  }
  void* group(void* context) {
    nccl::Event event{};
    event.type = nccl::kGroup;
    return recorder_.start(context, event);
  }
  void collective(void* context, void* group, const char* function, std::size_t count, const char* type,
                  std::uint64_t sequence = 0, const char* algorithm = "RING", std::uint8_t channels = 24,
                  void* call = nullptr) {
    nccl::Event event{};
    event.type = nccl::kCollective;
    event.parent = call;
    event.collective = {sequence,  function, nullptr,
                        nullptr,   count,    0,
                        type,      channels, channels == 0 ? std::uint8_t{0} : std::uint8_t{16},
                        algorithm, "SIMPLE", group};
    recorder_.stop(recorder_.start(context, event));
  }
  void message(void* context, void* group, const Sent& m) {
    nccl::Event event{};
    event.type = nccl::kPointToPoint;
    event.point_to_point = {m.function, nullptr, "ncclBfloat16", m.count, m.peer, 4, group};
    recorder_.stop(recorder_.start(context, event));
  }
  /// From the first call within ncclGroupStart and ncclGroupEnd, or of one collective alone.
  void* group_call(void* context, bool captured = false) {
    nccl::Event event{};
    event.type = nccl::kGroupCall;
    event.group_call = {captured, 1};
    return recorder_.start(context, event);
  }
  void* call(void* context, const char* function, std::size_t count, const char* type, bool captured = false) {
    nccl::Event event{};
    event.type = nccl::kCollectiveCall;
    event.collective_call = {function, count, type, 0, nullptr, captured};
    void* const handle = recorder_.start(context, event);
    if (handle != nullptr) recorder_.stop(handle);
    return handle;
  }
  void messages(void* context, const std::vector<Sent>& all) {
    launch(context);
    void* const handle = group(context);
    for (const Sent& each : all) message(context, handle, each);
    recorder_.stop(handle);
  }
  void one(void* context, const char* function, std::size_t count, const char* type, std::uint64_t sequence = 0) {
    launch(context);
    void* const handle = group(context);
    collective(context, handle, function, count, type, sequence);
    recorder_.stop(handle);
  }

  Trace trace() {
    recorder_.finish();
    writer_.finish();
    return value_of(read_trace(folder_.path() / "t"));
  }

  std::atomic<std::int64_t> time{100};
  std::vector<std::int64_t> ids;  ///< pushed
  int open_ids = 0;
  nccl::Recorder& recorder() { return recorder_; }

 private:
  TemporaryFolder folder_;
  TraceWriter writer_{(folder_.path() / "t").string(), TraceHeader{}};
  nccl::Recorder recorder_{writer_, nccl::Clock{[this] { return time.load(); },
                                                [this](std::int64_t id) {
                                                  ids.push_back(id);
                                                  ++open_ids;
                                                },
                                                [this] { --open_ids; }}};
};

std::vector<Sent> all_to_all(int ranks, std::size_t count) {
  std::vector<Sent> all;
  for (int peer = 0; peer < ranks; ++peer) {
    all.push_back({"Recv", peer, count});
    all.push_back({"Send", peer, count});
  }
  return all;
}

}  // namespace

TEST_CASE("nccl plug-in: the count is that of the larger buffer", "[nccl-plugin][tracer]") {
  Nccl nccl;
  void* const world = nccl.communicator(0xABCDEF, 8, 3, 2);
  // ncclAllGather and ncclBroadcast turn elements into bytes (collTaskAppend): 1,024 bf16 are 2,048 ncclInt8.
  nccl.one(world, "AllGather", 2'048, "ncclInt8");
  nccl.one(world, "ReduceScatter", 1'024, "ncclBfloat16");
  nccl.one(world, "AllReduce", 1'024, "ncclBfloat16", 7);
  nccl.one(world, "Broadcast", 2'048, "ncclInt8");
  const Trace trace = nccl.trace();
  REQUIRE(trace.collectives.size() == 4);
  CHECK(trace.collectives[0].count == 8 * 2'048);
  CHECK(trace.collectives[1].count == 8 * 1'024);
  CHECK(trace.collectives[3].count == 2'048);
  CHECK(trace.collectives[2] ==
        TraceCollective{"AllReduce", "ncclBfloat16", "RING", "SIMPLE", 0xABCDEF, 3, 8, -1, 1'024, 7, 100, 100, 2, 3});
  CHECK(trace.complete);
  CHECK(nccl.ids == std::vector<std::int64_t>{1, 2, 3, 4});
  CHECK(nccl.open_ids == 0);
}

TEST_CASE("nccl plug-in: a symmetric kernel is known by its call alone", "[nccl-plugin][tracer]") {
  // NCCL 2.28: ncclSymmetricTaskScheduler frees the tasks, so that neither a launch nor a group is reported.
  Nccl nccl;
  void* const world = nccl.communicator(0xABC, 8, 3, 2);
  nccl.one(world, "AllGather", 2'048, "ncclInt8");  // an ordinary kernel: counted by NCCL, from 0
  for (int i = 0; i < 2; ++i) {
    void* const group = nccl.group_call(world);
    nccl.call(world, "AllGather", 1'024, "ncclBfloat16");
    CHECK(nccl.recorder().open_groups() == 1);
    CHECK(nccl.open_ids == 1);  // what the group launches carries its number
    ++nccl.time;
    nccl.recorder().stop(group);
    CHECK(nccl.open_ids == 0);
  }
  const Trace trace = nccl.trace();
  CHECK(nccl.ids == std::vector<std::int64_t>{1, 2, 3});
  constexpr std::int64_t kFirst = nccl::Recorder::kUnreported;
  REQUIRE(trace.collectives.size() == 3);
  CHECK(trace.collectives[0].launch == 1);
  CHECK(trace.collectives[1] ==
        TraceCollective{"AllGather", "ncclBfloat16", "", "", 0xABC, 3, 8, -1, 8 * 1'024, kFirst, 101, 101, 2, 2});
  CHECK(trace.collectives[2] ==
        TraceCollective{"AllGather", "ncclBfloat16", "", "", 0xABC, 3, 8, -1, 8 * 1'024, kFirst + 1, 102, 102, 2, 3});
}

TEST_CASE("nccl plug-in: a call that NCCL reports is written once", "[nccl-plugin][tracer]") {
  Nccl nccl;
  void* const world = nccl.communicator(1, 8, 3);
  SECTION("a symmetric kernel whose tasks NCCL keeps, and a switch that reduces: NVLS, without channels") {
    for (const char* algorithm : {"RING", "NVLS"}) {
      void* const group = nccl.group_call(world);
      void* const other = nccl.call(world, "AllReduce", 10, "ncclFloat32");
      void* const call = nccl.call(world, "AllReduce", 20, "ncclFloat32");
      nccl.launch(world);
      void* const tasks = nccl.group(world);
      nccl.collective(world, tasks, "AllReduce", 20, "ncclFloat32", 1, algorithm, 0, call);
      nccl.collective(world, tasks, "AllReduce", 10, "ncclFloat32", 0, algorithm, 0, other);
      nccl.recorder().stop(tasks);
      nccl.recorder().stop(group);
      CHECK(nccl.recorder().open_groups() == 0);
    }
    const Trace trace = nccl.trace();
    REQUIRE(trace.collectives.size() == 4);
    CHECK(nccl.ids == std::vector<std::int64_t>{1, 2, 3, 4});
    CHECK(trace.collectives[0].launch == 2);  // the launch's number, not the group's
    CHECK(trace.collectives[2].algorithm == "NVLS");
    CHECK(trace.collectives[2].launch == 4);
  }
  SECTION("ncclAlltoAll, which becomes messages") {
    void* const group = nccl.group_call(world);
    nccl.call(world, "AlltoAll", 1'000, "ncclBfloat16");
    nccl.messages(world, all_to_all(8, 1'000));
    nccl.recorder().stop(group);
    const Trace trace = nccl.trace();
    REQUIRE(trace.collectives.size() == 1);
    CHECK(trace.collectives[0].name == "AllToAll");
    CHECK(trace.collectives[0].count == 8'000);
  }
  SECTION("copy engines of version 6") {
    void* const group = nccl.group_call(world);
    nccl.call(world, "AllGather", 1'000, "ncclBfloat16");
    nccl::Event event{};
    event.type = nccl::kCopyEngine;
    event.copy_engine.sequence = 4;
    event.copy_engine.function = "AllGather";
    event.copy_engine.count = 1'000;
    event.copy_engine.type = "ncclBfloat16";
    nccl.recorder().stop(nccl.recorder().start(world, event));
    nccl.recorder().stop(group);
    const Trace trace = nccl.trace();
    REQUIRE(trace.collectives.size() == 1);
    CHECK(trace.collectives[0].algorithm == "CE");
    CHECK(trace.collectives[0].sequence == nccl::Recorder::kCopies + 4);
  }
  SECTION("captured by a CUDA graph, which reports it at each replay") {
    CHECK(nccl.group_call(world, true) == nullptr);
    CHECK(nccl.call(world, "AllReduce", 10, "ncclFloat32", true) == nullptr);
    CHECK(nccl.trace().collectives.empty());
  }
  SECTION("of one rank, which NCCL copies") {
    void* const alone = nccl.communicator(2, 1, 0);
    void* const group = nccl.group_call(alone);
    CHECK(nccl.call(alone, "AllReduce", 10, "ncclFloat32") == nullptr);
    nccl.recorder().stop(group);
    CHECK(nccl.trace().collectives.empty());
  }
}

TEST_CASE("nccl plug-in: messages to and from all ranks are one all-to-all", "[nccl-plugin][tracer]") {
  const int ranks = GENERATE(2, 3, 8);
  Nccl nccl;
  void* const world = nccl.communicator(1, ranks, 1);
  for (int i = 0; i < 3; ++i) nccl.messages(world, all_to_all(ranks, 1'000));
  // A mixture of experts sends different counts, and none to itself.
  std::vector<Sent> uneven;
  for (const Sent& each : all_to_all(ranks, 0))
    if (each.peer != 1) uneven.push_back({each.function, each.peer, static_cast<std::size_t>(10 + each.peer)});
  nccl.messages(world, uneven);
  const Trace trace = nccl.trace();
  REQUIRE(trace.collectives.size() == (ranks == 2 ? 5 : 4));
  for (std::int64_t i = 0; i < 3; ++i) {
    const TraceCollective& c = trace.collectives[static_cast<std::size_t>(i)];
    CHECK(c.name == "AllToAll");
    CHECK(c.count == ranks * 1'000);
    CHECK(c.peer == -1);
    CHECK(c.sequence == i);
    CHECK(c.launch == i + 1);
  }
  const TraceCollective& last = trace.collectives[3];
  if (ranks == 2) {  // may be an exchange of activations
    CHECK(last.name == "Recv");
    CHECK(trace.collectives[4].name == "Send");
    CHECK(trace.collectives[4].launch == last.launch);
  } else {
    CHECK(last.name == "AllToAll");
    CHECK(last.count == ranks * (ranks - 1) / 2 - 1 + 10 * (ranks - 1));
  }
}

TEST_CASE("nccl plug-in: messages are counted by peer and direction, those to oneself left out",
          "[nccl-plugin][tracer]") {
  Nccl nccl;
  void* const stages = nccl.communicator(1, 4, 1);
  nccl.messages(stages, {{"Send", 2, 64}});
  nccl.messages(stages, {{"Recv", 0, 64}, {"Send", 2, 64}});
  nccl.messages(stages, {{"Recv", 1, 64}, {"Send", 1, 64}, {"Recv", 2, 64}});
  const Trace trace = nccl.trace();
  std::vector<std::tuple<std::string, int, std::int64_t, std::int64_t>> found;
  for (const TraceCollective& c : trace.collectives) found.emplace_back(c.name, c.peer, c.sequence, c.launch);
  CHECK(found == std::vector<std::tuple<std::string, int, std::int64_t, std::int64_t>>{
                     {"Send", 2, 0, 1}, {"Recv", 0, 0, 2}, {"Send", 2, 1, 2}, {"Recv", 2, 0, 3}});
}

TEST_CASE("nccl plug-in: handles and the cost of an event stay bounded", "[nccl-plugin][tracer]") {
  Nccl nccl;
  void* const world = nccl.communicator(1, 64, 5);
  const std::vector<Sent> messages = all_to_all(64, 1'000);
  std::vector<double> seconds;
  for (int part = 0; part < 4; ++part) {
    const auto begin = std::clock();
    for (int i = 0; i < 500; ++i) nccl.messages(world, messages);
    seconds.push_back(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    CHECK(nccl.recorder().open_groups() == 0);
  }
  CHECK(seconds[3] < 3 * seconds[0] + 0.05);
  CHECK(nccl.trace().collectives.size() == 2'000);
}

TEST_CASE("nccl plug-in: communicators made and used in threads", "[nccl-plugin][tracer]") {
  Nccl nccl;
  std::vector<std::thread> threads;
  std::mutex one_at_a_time;  // of the test's own list of ids
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      void* const mine = nccl.communicator(static_cast<std::uint64_t>(t), 8, t);
      for (std::uint64_t i = 0; i < 50; ++i) {
        {
          const std::lock_guard lock(one_at_a_time);
          nccl.launch(mine);
        }
        void* const group = nccl.group(mine);
        nccl.collective(mine, group, "AllReduce", 10, "ncclFloat32", i);
        nccl.recorder().stop(group);
      }
      nccl.recorder().end_communicator(mine);
    });
  for (std::thread& each : threads) each.join();
  const Trace trace = nccl.trace();
  std::set<std::int64_t> launches;
  std::map<std::uint64_t, std::int64_t> next;
  for (const TraceCollective& c : trace.collectives) {
    launches.insert(c.launch);
    CHECK(c.sequence == next[c.communicator]++);
    CHECK(c.rank == static_cast<int>(c.communicator));
  }
  CHECK(launches.size() == 400);
  CHECK(*launches.begin() == 1);
}

TEST_CASE("nccl plug-in: a captured launch does not lend its number", "[nccl-plugin][tracer]") {
  Nccl nccl;
  void* const world = nccl.communicator(1, 8, 0);
  nccl.launch(world);  // captured: its group is reported at each replay, by a thread of the driver
  nccl.one(world, "AllReduce", 10, "ncclFloat32", 1);
  std::thread([&] {
    for (std::uint64_t replay = 0; replay < 2; ++replay) {
      void* const group = nccl.group(world);
      nccl.collective(world, group, "AllReduce", 20, "ncclFloat32", 2);
      nccl.recorder().stop(group);
    }
  }).join();
  const Trace trace = nccl.trace();
  REQUIRE(trace.collectives.size() == 3);
  CHECK(trace.collectives[0].launch == 2);
  CHECK(trace.collectives[1].launch < 0);
  CHECK(trace.collectives[2].launch < trace.collectives[1].launch);
}

TEST_CASE("nccl plug-in: version 4 has the group as parent and no launches", "[nccl-plugin][tracer]") {
  Nccl nccl;
  void* const world = nccl.communicator(1, 8, 0);
  for (int i = 0; i < 2; ++i) {
    nccl::EventV4 event{};
    event.type = static_cast<std::uint8_t>(nccl::kGroup);
    void* const group = nccl.recorder().start(world, event);
    event = {};
    event.type = static_cast<std::uint8_t>(nccl::kCollective);
    event.parent = group;
    event.collective = {3, "ReduceScatter", nullptr, nullptr, 100, 0, "ncclFloat32", 2, 16, "PAT", "LL"};
    CHECK(nccl.recorder().start(world, event) == nullptr);
    nccl.recorder().stop(group);
  }
  const Trace trace = nccl.trace();
  REQUIRE(trace.collectives.size() == 2);
  CHECK(trace.collectives[0].count == 800);
  CHECK(trace.collectives[0].algorithm == "PAT");
  CHECK(trace.collectives[0].launch == -1);
  CHECK(trace.collectives[1].launch == -2);
}

TEST_CASE("nccl plug-in: what is unknown or too late is skipped", "[nccl-plugin][tracer]") {
  Nccl nccl;
  void* const world = nccl.communicator(1, 8, 0);
  nccl::Event event{};
  for (const std::uint64_t type : {std::uint64_t{1} << 3, std::uint64_t{1} << 10, std::uint64_t{1} << 20}) {
    event.type = type;
    CHECK(nccl.recorder().start(world, event) == nullptr);
  }
  event.type = nccl::kGroup;
  CHECK(nccl.recorder().start(nullptr, event) == nullptr);
  nccl.recorder().stop(nullptr);
  nccl.recorder().stop(&nccl);
  nccl.collective(world, nullptr, "AllReduce", 10, "ncclFloat32");  // its group is gone
  void* const group = nccl.group(world);
  nccl.collective(world, group, "AllReduce", 10, "ncclFloat32");
  nccl.recorder().end_communicator(world);  // before the group's end
  CHECK(nccl.recorder().open_groups() == 0);
  nccl.recorder().stop(group);
  CHECK(nccl.trace().collectives.size() == 2);
}

namespace {

/// A trace with NCCL kernels, one launch each.
class Kernels {
 public:
  /// `id`: of the launch; 0: none.
  void kernel(const std::string& name, std::int64_t launch, std::int64_t start, std::int64_t id = 0) {
    const std::int64_t correlation = launch;  // kernels of one launch share it
    trace.calls.push_back({1, correlation, launch, launch + 1, ""});
    trace.kernels.push_back({name, 0, 7, correlation, start, start + 5, 1, 1});
    if (id != 0) trace.externals.push_back({kRecorderIds, id, correlation});
  }
  void collective(const std::string& name, std::int64_t time, std::int64_t launch) {
    TraceCollective c;
    c.name = name;
    c.start_ns = c.end_ns = time;
    c.launch = launch;
    c.nodes = 1;
    trace.collectives.push_back(c);
  }
  std::vector<std::int64_t> starts() {
    paired = pair_collectives(trace);
    std::vector<std::int64_t> result;
    for (const TraceCollective& c : trace.collectives) result.push_back(c.end_ns > c.start_ns ? c.start_ns : -1);
    return result;
  }
  Trace trace;
  std::int64_t paired = 0;
};

using Starts = std::vector<std::int64_t>;
constexpr const char* kReduce = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)";
constexpr const char* kGather = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgs)";
constexpr const char* kSendRecv = "ncclDevKernel_SendRecv(ncclDevKernelArgs)";

}  // namespace

TEST_CASE("collectives and kernels: by the number of the launch", "[nccl-plugin][tracer]") {
  Kernels k;
  k.kernel(kReduce, 10, 1'000, 2);
  k.kernel(kReduce, 20, 2'000, 1);  // the numbers decide, not the order
  k.kernel("gemm", 30, 3'000, 3);
  k.collective("AllReduce", 21, 1);
  k.collective("AllReduce", 11, 2);
  k.collective("AllReduce", 31, 3);  // that launch is not NCCL's
  CHECK(k.starts() == Starts{2'000, 1'000, -1});
  CHECK(k.paired == 2);
}

TEST_CASE("collectives and kernels: of one number by their kinds, and none where its launch is lost",
          "[nccl-plugin][tracer]") {
  Kernels k;
  k.kernel("ncclSymkDevKernel_AllGather_STMC(ncclSymkDevWorkArgs4K)", 10, 1'000, 1);
  k.kernel("ncclSymkDevKernel_ReduceScatter_LD_sum_bf16(ncclSymkDevWorkArgs4K)", 20, 2'000, 1);
  k.kernel(kGather, 30, 3'000);  // of another recorder's time
  k.collective("ReduceScatter", 21, 1);
  k.collective("AllGather", 21, 1);
  k.collective("AllGather", 31, 2);
  CHECK(k.starts() == Starts{2'000, 1'000, -1});
}

TEST_CASE("collectives and kernels: without numbers the last launch of that kind before the report",
          "[nccl-plugin][tracer]") {
  Kernels k;
  k.kernel(kReduce, 10, 1'000);
  k.kernel(kReduce, 20, 2'000);  // its collective was lost
  k.kernel(kReduce, 30, 3'000);
  k.kernel(kGather, 40, 4'000);
  k.kernel(kSendRecv, 50, 5'000);
  k.kernel("ncclDevKernel_Generic(ncclDevKernelArgs)", 60, 6'000);
  k.collective("AllReduce", 11, -1);
  k.collective("AllReduce", 31, -2);
  k.collective("AllGather", 40, -3);  // in the nanosecond of its launch
  k.collective("Send", 51, -4);
  k.collective("Recv", 51, -4);
  k.collective("AllReduce", 9, -5);   // before every launch
  k.collective("Broadcast", 61, -6);  // the generic kernel runs any
  CHECK(k.starts() == Starts{1'000, 3'000, 4'000, 5'000, 5'000, -1, 6'000});
}

TEST_CASE("collectives and kernels: those of a CUDA graph in the order in which they begin", "[nccl-plugin][tracer]") {
  Kernels k;
  for (const std::int64_t start : {3'000, 1'000, 2'000}) k.kernel(kReduce, 10, start);
  for (const std::int64_t group : {1, 2, 3, 4}) k.collective("AllReduce", 10 + group, -group);
  CHECK(k.starts() == Starts{1'000, 2'000, 3'000, -1});
}
