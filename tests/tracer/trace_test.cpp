#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <catch2/catch.hpp>
#include <sys/resource.h>

#include "sim/io/trace_reader.hpp"
#include "sim/io/trace_summary.hpp"
#include "tests/e2e/shell.hpp"
#include "tests/support/results.hpp"
#include "tracer/driver_version.hpp"
#include "tracer/trace_writer.hpp"

using namespace tracecast;
namespace fs = std::filesystem;

namespace {

const TraceHeader kHeader{
    "cupti 13.0", "cupti nanoseconds", "2026-11-21T08:00:00Z", "NVIDIA H200", "13.0", "13.0", "2.28.9", 4711, 3, 8, ""};

/// One record of each kind.
void write_all(TraceWriter& writer) {
  writer.call(7, 11, 100, 150, "cudaMemcpy");
  writer.range_begin("layer \"3\"\n", "NVTX", 7, 1, 90);
  writer.kernel("gemm<bf16>", 0, 5, 11, 200, 400, 132, 384);
  writer.kernel("gemm<bf16>", 0, 5, 12, 400, 610, 132, 384);
  writer.copy("host to device", 0, 6, 13, 4096, 410, 420);
  writer.range_end(1, 700);
  writer.external(2, 99, 11);
  writer.collective(
      {"AllReduce", "ncclBfloat16", "RING", "SIMPLE", 0xFEDCBA9876543210, 3, 8, -1, 1 << 20, 5, 300, 800, 2, 17});
}

Trace written_and_read(const std::filesystem::path& path, bool finish) {
  {
    TraceWriter writer(path.string(), kHeader);
    REQUIRE(writer.good());
    write_all(writer);
    if (finish) writer.finish();
  }
  return value_of(read_trace(path));
}

}  // namespace

TEST_CASE("trace: what is written is read back", "[tracer][property]") {
  const TemporaryFolder folder;
  const Trace trace = written_and_read(folder.path() / "run.trace", true);
  CHECK(trace.header == kHeader);
  CHECK(trace.complete);
  CHECK(trace.records == 8);
  REQUIRE(trace.kernels.size() == 2);
  CHECK(trace.kernels[1] == TraceKernel{"gemm<bf16>", 0, 5, 12, 400, 610, 132, 384});
  CHECK(trace.calls == std::vector<TraceCall>{{7, 11, 100, 150, "cudaMemcpy"}});
  CHECK(trace.copies == std::vector<TraceCopy>{{"host to device", 0, 6, 13, 4096, 410, 420}});
  CHECK(trace.ranges == std::vector<TraceRange>{{"layer \"3\"\n", "NVTX", 7, 1, 90, 700}});
  CHECK(trace.externals == std::vector<TraceExternal>{{2, 99, 11}});
  REQUIRE(trace.collectives.size() == 1);
  CHECK(trace.collectives[0] == TraceCollective{"AllReduce", "ncclBfloat16", "RING", "SIMPLE", 0xFEDCBA9876543210, 3, 8,
                                                -1, 1 << 20, 5, 300, 800, 2, 17});
}

TEST_CASE("trace: a program that was killed leaves a trace up to there, which says that it is not complete",
          "[tracer]") {
  const TemporaryFolder folder;
  const Trace trace = written_and_read(folder.path() / "run.trace", false);
  CHECK_FALSE(trace.complete);
  CHECK(trace.records == 8);
}

TEST_CASE("trace: cut at any byte it is readable up to the cut", "[tracer][property]") {
  const TemporaryFolder folder;
  const Trace whole = written_and_read(folder.path() / "run.trace", true);
  const std::string text = content_of(folder.path() / "run.trace");
  const std::size_t header = text.find('\n') + 1;
  std::int64_t before = 0;
  for (std::size_t length = header; length < text.size(); ++length) {
    std::ofstream(folder.path() / "cut.trace", std::ios::binary) << text.substr(0, length);
    const Result<Trace> cut = read_trace(folder.path() / "cut.trace");
    INFO("cut after " << length
                      << " bytes: " << text.substr(length > 40 ? length - 40 : 0, std::min<std::size_t>(40, length)));
    if (!cut) FAIL(to_string(cut.error()));
    // The last line without its newline is still a line.
    CHECK(cut->complete == (length + 1 == text.size()));
    CHECK(cut->records >= before);
    CHECK(std::equal(cut->kernels.begin(), cut->kernels.end(), whole.kernels.begin()));
    before = cut->records;
  }
  CHECK(before == whole.records);
}

TEST_CASE("trace: several threads write whole lines", "[tracer]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "run.trace";
  {
    TraceWriter writer(path.string(), kHeader);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&writer, t] {
        for (int i = 0; i < 500; ++i) writer.kernel("kernel " + std::to_string(i % 7), t, t, i, i, i + 1, 1, 32);
      });
    for (std::thread& thread : threads) thread.join();
    writer.dropped(17);
    writer.finish();
  }
  const Trace trace = read_trace(path).value();
  CHECK(trace.complete);
  CHECK(trace.kernels.size() == 2000);
  CHECK(trace.dropped == 17);
}

TEST_CASE("trace: each error has its own message", "[tracer][error]") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "t.trace";
  const auto complaint = [&path](const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
    const Result<Trace> trace = read_trace(path);
    REQUIRE_FALSE(trace);
    Error error = trace.error();
    error.diagnostics.front().file = "t.trace";
    return to_string(error);
  };
  const std::string header = "{\"format\":\"tracecast trace 1\"}\n";
  CHECK(complaint("") == "t.trace: is empty");
  CHECK(complaint("[1]\n") == "t.trace:1: not a trace: the first line has no \"format\": \"tracecast trace 1\"");
  for (const char* field : {"\"rank\":4294967296", "\"process\":92233720368547758078", "\"ranks\":1.5", "\"gpu\":1"})
    CHECK(complaint("{\"format\":\"tracecast trace 1\"," + std::string(field) + "}\n") ==
          "t.trace:1: not a trace header");
  CHECK(complaint("{\"format\":\"tracecast trace 2\"}\n") ==
        "t.trace:1: not a trace: the first line has no \"format\": \"tracecast trace 1\"");
  CHECK(complaint(header + "[\"kernel\",0,0,0,0,0,0,0,0]\n[\"end\",1]\n") == "t.trace:2: not a trace record");
  CHECK(complaint(header + "[\"call\",1,2,3]\n[\"end\",1]\n") == "t.trace:2: not a trace record");
  CHECK(complaint(header + "[\"cat\"]\n[\"end\",1]\n") == "t.trace:2: not a trace record");
  CHECK(complaint(header + "[\"dropped\",3]\n[\"end\",7]\n") == "t.trace:3: not a trace record");
  CHECK(complaint(header + "[\"call\",1,2,\n[\"end\",0]\n") == "t.trace:2: not a trace record");
  const auto collective_of_rank = [&](const std::string& rank) {
    return header + "[\"string\",0,\"x\"]\n[\"collective\",0,0,0,0,\"f\"," + rank + ",8,-1,1,1,1,1]\n[\"end\",1]\n";
  };
  CHECK(complaint(collective_of_rank("2147483648")) == "t.trace:3: not a trace record");
  CHECK(complaint(collective_of_rank("-2147483649")) == "t.trace:3: not a trace record");
}

TEST_CASE("record: without a driver there is one sentence and exit code 3", "[tracer][e2e]") {
  const Sandbox sandbox;
  if (sandbox.run("ldconfig -p | grep libcuda.so.1").code == 0) {
    WARN("skipped: this machine has an NVIDIA driver");
    return;
  }
  const Outcome outcome = sandbox.run("tracecast record -o run.trace -- true --with an-option");
  CHECK(outcome.code == 3);
  CHECK(outcome.err.starts_with("programs cannot be recorded"));
  CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  CHECK_FALSE(std::filesystem::exists(sandbox.path() / "run.trace"));
}

TEST_CASE("trace: names that are not UTF-8 can be read back", "[tracer]") {
  CHECK(tracecast::json_string("a\"\n\xC3\xA9") == "\"a\\\"\\u000a\xC3\xA9\"");
  const std::string unknown = "\xEF\xBF\xBD";  // U+FFFD
  const auto [bytes, written] = GENERATE_COPY(
      table<std::string, std::string>({{"La\x84nch", "La" + unknown + "nch"},  // found by fuzzing an Nsight database
                                       {"\xC3", unknown},                      // cut
                                       {"\xC0\xAF", unknown + unknown},        // longer than needed
                                       {"\xED\xA0\x80", unknown + unknown + unknown},  // half of a surrogate pair
                                       {"\xF4\x90\x80\x80", unknown + unknown + unknown + unknown},  // beyond Unicode
                                       {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"}}));
  CHECK(tracecast::json_string(bytes) == '"' + written + '"');
  const TemporaryFolder folder;
  Trace trace;
  trace.kernels.push_back({bytes, 0, 7, 1, 10, 20, 1, 1});
  trace.complete = true;
  const std::string path = (folder.path() / "run.trace").string();
  REQUIRE(write_trace(path, trace));
  const Result<Trace> again = read_trace(path);
  REQUIRE(again);
  CHECK(again->kernels[0].name == written);
}

TEST_CASE("trace: the reader's memory is limited, whatever the size of the file", "[io][tracer]") {
  Trace trace;
  trace.complete = true;
  for (std::int64_t i = 0; i < 1'000; ++i) trace.kernels.push_back({"gemm", 0, 7, i, i * 10, i * 10 + 5, 1, 1});
  const TemporaryFolder folder;
  REQUIRE(write_trace(folder.path() / "t", trace));
  const Result<Trace> all = read_trace(folder.path() / "t");
  REQUIRE(all);
  CHECK(all->left_out == 0);
  const Result<Trace> part = read_trace(folder.path() / "t", 100 * sizeof(TraceKernel));
  REQUIRE(part);
  CHECK(part->kernels.size() < 110);
  CHECK(part->kernels.size() > 90);
  CHECK(part->left_out == 1'000 - static_cast<std::int64_t>(part->kernels.size()));
  CHECK(part->complete);
}

TEST_CASE("trace: of a recording that does not fit the last part can be read", "[io][tracer]") {
  Trace trace;
  trace.complete = true;
  for (std::int64_t i = 0; i < 1'000; ++i) {
    trace.calls.push_back({1, i, i * 10, i * 10 + 1, ""});
    trace.externals.push_back({kRecorderIds, kFirstOperatorId + i, i});
    trace.operators.push_back({kFirstOperatorId + i, "fc2"});
    trace.kernels.push_back({"gemm", 0, 7, i, i * 10 + 5, i * 10 + 9, 1, 1});
  }
  const TemporaryFolder folder;
  {  // in the order of time, as the recorder writes
    TraceWriter writer((folder.path() / "t").string(), {});
    for (std::size_t i = 0; i < 1'000; ++i) {
      writer.operator_id(trace.operators[i].id, trace.operators[i].name);
      const auto n = static_cast<std::int64_t>(i);
      writer.external(kRecorderIds, kFirstOperatorId + n, n);
      writer.call(1, n, n * 10, n * 10 + 1, "");
      writer.kernel("gemm", 0, 7, n, n * 10 + 5, n * 10 + 9, 1, 1);
      if (i == 998) writer.range_begin("open", "", 1, 3, n * 10);
    }
    writer.range_end(3, 10'007);
    writer.finish();
  }
  constexpr std::size_t kMost =
      100 * (sizeof(TraceKernel) + sizeof(TraceCall) + sizeof(TraceExternal) + sizeof(TraceOperator));
  const Result<Trace> part = read_trace(folder.path() / "t", kMost, TracePart::last);
  REQUIRE(part);
  CHECK(part->complete);
  const std::size_t kept = part->kernels.size();
  CHECK(kept >= 40);
  CHECK(kept <= 110);
  CHECK(std::equal(part->kernels.rbegin(), part->kernels.rend(), trace.kernels.rbegin()));
  // The launches of all but the first of them, with their operators.
  CHECK(part->calls.size() + 1 >= kept);
  CHECK(std::equal(part->calls.rbegin(), part->calls.rend(), trace.calls.rbegin()));
  CHECK(part->externals.size() == part->calls.size());
  CHECK(part->operators.size() == part->calls.size());
  REQUIRE(part->ranges.size() == 1);
  CHECK(part->ranges[0].end_ns == 10'007);
  const std::size_t read = kept + part->calls.size() + part->externals.size() + part->operators.size();
  CHECK(part->left_out == static_cast<std::int64_t>(4'000 - read));
}

TEST_CASE("trace: the driver's version is read from the kernel module's line", "[tracer][trace]") {
  CHECK(driver_version_in(
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (nixbld@)") ==
        "580.159.04");
  CHECK(driver_version_in("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023") ==
        "535.104.05");
  CHECK(driver_version_in("") == "");
  CHECK(driver_version_in("NVRM version: unknown") == "");
}

TEST_CASE("trace: records that do not fit on the disk are a failed write", "[tracer][error]") {
  const TemporaryFolder folder;
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{1000, before.rlim_max};  // the header fits, which is written first
  Trace trace;
  trace.header = kHeader;
  trace.complete = GENERATE(true, false);
  trace.kernels.resize(100);
  setrlimit(RLIMIT_FSIZE, &small);
  const bool written = write_trace((folder.path() / "run.trace").string(), trace);
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, SIG_DFL);
  CHECK_FALSE(written);
  CHECK(write_trace((folder.path() / "run.trace").string(), trace));
}

TEST_CASE("trace: counts and times that do not fit are refused", "[tracer][error]") {
  const TemporaryFolder folder;
  const auto read_with = [&](const std::string& records) {
    const fs::path path = folder.path() / "run.trace";
    std::ofstream(path) << "{\"format\":\"tracecast trace 1\"}\n" << records;
    const Result<Trace> trace = read_trace(path);
    CHECK(trace_summary(path));  // takes what fits
    return trace ? "" : to_string(trace.error()).substr(path.string().size());
  };
  const std::string most = std::to_string(INT64_MAX);
  CHECK(read_with("[\"dropped\"," + most + "]\n") == "");
  CHECK(read_with("[\"dropped\"," + most + "]\n[\"dropped\",1]\n") == ":3: not a trace record");
  CHECK(read_with("[\"overhead\"," + most + "]\n[\"overhead\",1]\n") == ":3: not a trace record");
  CHECK(read_with("[\"overhead\",-1]\n") == ":2: not a trace record");
  CHECK(read_with("[\"string\",0,\"a\"]\n[\"kernel\",0,0,0,0,-" + most + "," + most + ",1,1]\n") ==
        ":3: not a trace record");
}
