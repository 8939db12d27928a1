#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/engine/simulate.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/kernel_names.hpp"
#include "tests/import/samples.hpp"
#include "tests/support/results.hpp"
#include "tracer/replay.hpp"

using namespace tracecast;

namespace {

Trace kineto(const std::string& events, const std::string& head = "") {
  return value_of(import_as<ImportedTrace>("{" + head + "\"traceEvents\":[" + events + "]}", "t.json", "kineto")).trace;
}

std::string complaint(const std::string& content) {
  return error_text(import_as<ImportedTrace>(content, "t.json", "kineto"));
}

constexpr const char* kLaunch =
    R"({"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":7,"tid":8,"ts":10.5,"dur":3,"args":{"correlation":4}},)";
constexpr const char* kKernel =
    R"({"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":20.125,"dur":100.5,"args":{"device":1,"stream":9,)"
    R"("correlation":4,"grid":[8,2,1],"block":[128,1,1]}})";

struct Expected {
  const char* file;
  std::size_t kernels, copies, calls, nccl, collectives;
  int rank, ranks;
};

}  // namespace

TEST_CASE("kineto: a kernel, its launch and its operator", "[tracer][kineto]") {
  const Trace trace = kineto(
      std::string(kLaunch) +
          R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":8,"ts":9,"dur":6,"args":{"Input Dims":[[4,8],[8,16],[]]}},)" +
          R"({"ph":"M","name":"process_name","pid":"Spans","tid":"x","args":{"name":"y"}},)" + kKernel,
      R"("distributedInfo":{"rank":"3","world_size":8,"nccl_version":"2.21.5"},"deviceProperties":[{"id":0,"name":"GPU X"}],)");
  REQUIRE(trace.kernels.size() == 1);
  CHECK(trace.kernels[0] == TraceKernel{"gemm", 1, 9, 4, 20'125, 120'625, 16, 128});
  CHECK(trace.calls == std::vector<TraceCall>{{8, 4, 10'500, 13'500, "cudaLaunchKernel"}});
  CHECK(trace.ranges ==
        std::vector<TraceRange>{{"aten::mm, sizes = [[4, 8], [8, 16], []]", "cpu_op", 8, 0, 9'000, 15'000}});
  CHECK(trace.header.rank == 3);
  CHECK(trace.header.ranks == 8);
  CHECK(trace.header.gpu == "GPU X");
  CHECK(trace.header.nccl == "2.21.5");
}

TEST_CASE("kineto: a kernel without a recorded call has the operator of its external id", "[tracer][kineto]") {
  // Kineto writes the id of an operator into its own event and into those of its kernels.
  const std::string operators =
      R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":7,"tid":8,"ts":9,"dur":6,"args":{"External id":33,"Input Dims":[[4,8],[8,16]]}},)"
      R"({"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":200,"dur":9,"args":{"correlation":5,"External id":33}},)"
      R"({"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":300,"dur":9,"args":{"correlation":6,"External id":34}},)";
  const Trace trace = kineto(operators + kLaunch + kKernel);
  CHECK(trace.externals == std::vector<TraceExternal>{{kRecorderIds, kFirstOperatorId + 33, 5}});
  CHECK(trace.operators == std::vector<TraceOperator>{{kFirstOperatorId + 33, "aten::mm, sizes = [[4, 8], [8, 16]]"}});
  // With its call a kernel is in the operator's range, and in those around it.
  const std::string called = operators + kLaunch +
                             R"({"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":20,"dur":9,)"
                             R"("args":{"correlation":4,"External id":33}})";
  CHECK(kineto(called).externals.size() == 1);
}

TEST_CASE("kineto: an epoch in microseconds keeps its nanoseconds", "[tracer][kineto]") {
  const Trace trace =
      kineto(R"({"ph":"X","cat":"Kernel","name":"k","pid":0,"tid":7,"ts":1694128201426674.123,"dur":1})");
  CHECK(trace.kernels[0].start_ns == 1'694'128'201'426'674'123);
  CHECK(trace.kernels[0].end_ns == 1'694'128'201'426'675'123);
}

TEST_CASE("kineto: NCCL's arguments become collectives", "[tracer][kineto]") {
  const Trace trace =
      kineto(R"({"ph":"X","cat":"kernel","name":"ncclDevKernel_AllGather_RING_LL","pid":0,"tid":20,"ts":5,"dur":2,)"
             R"("args":{"Collective name":"_allgather_base","In msg nelems":100,"Out msg nelems":400,"Group size":4,)"
             R"("dtype":"BFloat16","Process Group Name":"1","Process Group Ranks":"[0, 1, 2, 3]"}})");
  REQUIRE(trace.collectives.size() == 1);
  const TraceCollective& c = trace.collectives[0];
  CHECK(c.name == "_allgather_base");
  CHECK(collective_of(c.name) == Collective::all_gather);
  CHECK(c.algorithm == "RING");
  CHECK(c.protocol == "LL");
  CHECK(c.ranks == 4);
  CHECK(c.count * type_size(c.type) == 800);
  CHECK(c.sequence == -1);
}

TEST_CASE("kineto: calls of several streams are in the order of time, with the number that PyTorch gave them",
          "[tracer][kineto]") {
  const auto reduce = [](int ts, int stream, const std::string& seq) {
    return R"({"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL","pid":0,"tid":)" +
           std::to_string(stream) + R"(,"ts":)" + std::to_string(ts) +
           R"(,"dur":2,"args":{"Collective name":"allreduce")" + seq + "}}";
  };
  const Trace trace =
      kineto(reduce(30, 20, R"(,"Seq":8)") + "," + reduce(10, 21, R"(,"Seq":7)") + "," + reduce(20, 21, ""));
  REQUIRE(trace.collectives.size() == 3);
  CHECK(trace.collectives[0].sequence == 7);
  CHECK(trace.collectives[1].sequence == -1);
  CHECK(trace.collectives[2].sequence == 8);
}

TEST_CASE("kineto: messages have NCCL's names and no number, since each rank counts its own", "[tracer][kineto]") {
  const auto message = [](const std::string& name, const std::string& peer, int ts) {
    return R"({"ph":"X","cat":"kernel","name":"ncclDevKernel_SendRecv","pid":0,"tid":20,"ts":)" + std::to_string(ts) +
           R"(,"dur":2,"args":{"Collective name":")" + name +
           R"(","Group size":4,"dtype":"BFloat16","Process Group Name":"3","Seq":7,")" + peer + R"(":2}})";
  };
  const Trace trace = kineto(message("send", "Dst Rank", 10) + "," + message("recv", "Src Rank", 20));
  REQUIRE(trace.collectives.size() == 2);
  CHECK(trace.collectives[0].name == "Send");
  CHECK(trace.collectives[1].name == "Recv");
  for (const TraceCollective& each : trace.collectives) {
    CHECK(each.rank == -1);
    CHECK(each.peer == 2);
    CHECK(each.sequence == -1);
  }
  // The file may name its rank before or behind its events.
  CHECK(
      kineto(message("send", "Dst Rank", 10), R"("distributedInfo":{"rank":3,"world_size":4},)").collectives[0].rank ==
      3);
}

TEST_CASE("kineto: each damage has its sentence", "[tracer][kineto][error]") {
  CHECK(complaint("{}") == "t.json: traceEvents: is missing: expected a trace of PyTorch's profiler");
  CHECK(complaint("{\"traceEvents\":[\n{\"ph\":") ==
        "t.json:2: is not JSON from byte 24 on: damaged, or cut while it was written");
  CHECK(complaint("{\"traceEvents\":[]}") ==
        "t.json: traceEvents: has no kernel or copy among 0 events: the GPU was not recorded (profile with "
        "ProfilerActivity.CUDA)");
  CHECK(complaint(R"({"traceEvents":[{"ph":"i"},{"ph":"X","cat":"kernel","name":"k","ts":"soon","dur":1}]})") ==
        "t.json: traceEvents[1].ts = soon: must be a time in microseconds, from 0");
  CHECK(complaint(R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":-4}]})") ==
        "t.json: traceEvents[0].dur = -4: must be a duration in microseconds, from 0");
  CHECK(complaint(R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":-0.5}]})") ==
        "t.json: traceEvents[0].dur = -0.5: must be a duration in microseconds, from 0");
}

TEST_CASE("kineto: every sample is read, or refused because its GPU was not recorded", "[tracer][kineto]") {
  if (!have_samples()) return;
  const Expected kExpected[] = {{"alexnet_cuda_sync_trace", 79, 19, 361, 0, 0, 0, -1},
                                {"dlrm_worker0.pt.trace", 245, 16, 525, 8, 0, 0, 8},
                                {"dlrm_worker1.pt.trace", 310, 16, 527, 8, 0, 1, 8},
                                {"event_sync_multi_stream_trace", 3, 3, 39, 0, 0, 0, -1},
                                {"mi250_minitoy_train_ROCm6_2_kineto", 14, 2, 21, 0, 0, -1, -1},
                                {"minimal_base", 6, 12, 5, 0, 0, 1, -1},
                                {"nccl_data", 2700, 1074, 8740, 21, 21, 0, 2},
                                {"sampled_rank-0", 1154, 50, 1204, 10, 0, 0, 128},
                                {"triton_example", 1, 0, 2, 0, 0, -1, -1}};
  for (const Expected& expected : kExpected) {
    INFO(expected.file);
    const Result<ImportedTrace> read =
        import_as<ImportedTrace>(sample("kineto/" + std::string(expected.file) + ".json.gz"), "f");
    REQUIRE(read);
    const Trace& trace = read->trace;
    CHECK(trace.kernels.size() == expected.kernels);
    CHECK(trace.copies.size() == expected.copies);
    CHECK(trace.calls.size() == expected.calls);
    CHECK(static_cast<std::size_t>(std::count_if(trace.kernels.begin(), trace.kernels.end(), [](const TraceKernel& k) {
            return nccl_kernel(k.name).collective().has_value();
          })) == expected.nccl);
    CHECK(trace.collectives.size() == expected.collectives);
    CHECK(trace.header.rank == expected.rank);
    CHECK(trace.header.ranks == expected.ranks);
  }
  for (const char* file : {"cpu_only_rank-34", "cupti_profiler_range", "distributed_info_not_found"}) {
    const Result<ImportedTrace> read =
        import_as<ImportedTrace>(sample("kineto/" + std::string(file) + ".json.gz"), "f", "kineto");
    REQUIRE_FALSE(read);
    CHECK(to_string(read.error()).find("the GPU was not recorded") != std::string::npos);
  }
}

TEST_CASE("kineto: every recorded step replays to the duration that it had", "[tracer][kineto][replay]") {
  if (!have_samples()) return;
  int steps = 0;
  for (const char* file :
       {"alexnet_cuda_sync_trace", "dlrm_worker0.pt.trace", "dlrm_worker1.pt.trace", "event_sync_multi_stream_trace",
        "mi250_minitoy_train_ROCm6_2_kineto", "minimal_base", "nccl_data", "sampled_rank-0", "triton_example"}) {
    const Result<ImportedTrace> read =
        import_as<ImportedTrace>(sample("kineto/" + std::string(file) + ".json.gz"), "f", "kineto");
    REQUIRE(read);
    std::vector<std::optional<std::int64_t>> which{std::nullopt};
    for (const std::int64_t step : recorded_steps(read->trace)) which.emplace_back(step);
    for (const auto& step : which) {
      INFO(file << " step " << step.value_or(-1));
      const Result<Replay> replay = replay_graph(read->trace, step, "f");
      if (!replay) continue;  // a step that ended before anything was launched in it
      const Result<Timeline> timeline = simulate(replay->graph);
      REQUIRE(timeline);
      CHECK(timeline->step_time == replay->recorded);
      ++steps;
    }
  }
  CHECK(steps >= 16);
}
