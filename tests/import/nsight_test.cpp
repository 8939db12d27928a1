#include <numeric>

#include <catch2/catch.hpp>

#include "sim/engine/simulate.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/kernel_names.hpp"
#include "tests/import/samples.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tracer/replay.hpp"

using namespace tracecast;

namespace {

std::int64_t kernel_time(const Trace& trace) {
  return std::accumulate(trace.kernels.begin(), trace.kernels.end(), std::int64_t{0},
                         [](std::int64_t sum, const TraceKernel& k) { return sum + k.end_ns - k.start_ns; });
}

Trace nsight(const std::string& name) {
  return value_of(import_as<ImportedTrace>(sample("nsight/" + name), name)).trace;
}

}  // namespace

TEST_CASE("nsight: the samples have the rows that were counted in them", "[tracer][nsight]") {
  if (!have_samples()) return;
  const Trace h100 = nsight("h100_2gpu_1s.sqlite.gz");
  CHECK(h100.kernels.size() == 3442);
  CHECK(h100.copies.size() == 904 + 22);
  CHECK(h100.calls.size() == 5796);
  CHECK(kernel_time(h100) == 44'829'522);
  CHECK(h100.header.recorder == "nsight systems, schema 3.25.0");
  const Trace mfu = nsight("mfu_2gpu_before.sqlite.gz");
  CHECK(mfu.kernels.size() == 4010);
  CHECK(kernel_time(mfu) == 535'200'650);
  CHECK(mfu.ranges.size() > 1000);
  const Trace mock = nsight("mock.sqlite.gz");
  CHECK(mock.kernels.size() == 2);
  CHECK(kernel_time(mock) == 4'129);
  CHECK_FALSE(mock.header.gpu.empty());
}

TEST_CASE("nsight: recordings replay to the duration that they had", "[tracer][nsight][replay]") {
  if (!have_samples()) return;
  for (const char* file : {"h100_2gpu_1s.sqlite.gz", "mfu_2gpu_before.sqlite.gz", "mock.sqlite.gz"}) {
    INFO(file);
    const Result<Replay> replay = replay_graph(nsight(file), std::nullopt, file);
    REQUIRE(replay);
    const Result<Timeline> timeline = simulate(replay->graph);
    REQUIRE(timeline);
    CHECK(timeline->step_time == replay->recorded);
  }
}

// Tables as the schema of nsys describes them (docs/references.md#format-nsight), made with Python's sqlite3.
TEST_CASE("nsight: CUDA graphs that were recorded as a whole are work, and their kernels are missed aloud",
          "[tracer][nsight]") {
  const Result<std::string> content = read_packed(source_dir() / "tests/fuzz/corpus/nsight-graph.sqlite");
  REQUIRE(content);
  const ImportedTrace read = value_of(import_as<ImportedTrace>(*content, "a.sqlite"));
  REQUIRE(read.trace.kernels.size() == 2);
  CHECK(read.trace.kernels[1].name == kWholeGraph);
  CHECK(read.trace.kernels[1].end_ns - read.trace.kernels[1].start_ns == 7000);
  CHECK(read.notes == std::vector<std::string>{
                          "1 launches of CUDA graphs were recorded as a whole, their kernels are unknown (nsys profile "
                          "--cuda-graph-trace=node records them)"});
  // The GPU that ran the work, not the first of the host.
  CHECK(read.trace.header.gpu == "NVIDIA H100 80GB HBM3");
}

TEST_CASE("nsight: two processes that count their GPUs from 0 have two GPUs", "[tracer][nsight]") {
  const Result<std::string> content = read_packed(source_dir() / "tests/fuzz/corpus/nsight-processes.sqlite");
  REQUIRE(content);
  const ImportedTrace read = value_of(import_as<ImportedTrace>(*content, "a.sqlite"));
  REQUIRE(read.trace.kernels.size() == 2);
  CHECK(read.trace.kernels[0].device == 0);
  CHECK(read.trace.kernels[1].device == 1);
  CHECK(read.notes == std::vector<std::string>{
                          "1 GPUs have a number that another process uses too; each is taken as a GPU of its own"});
}

TEST_CASE("nsight: a file that is not an export, or is damaged, is rejected", "[tracer][nsight][error]") {
  std::string content("SQLite format 3\0", 16);
  content.resize(4096, 'x');
  const Result<ImportedTrace> damaged = import_as<ImportedTrace>(content, "a.sqlite");
  REQUIRE_FALSE(damaged);
  CHECK(to_string(damaged.error()).starts_with("a.sqlite: "));
  const Result<ImportedTrace> csv = import_as<ImportedTrace>("Time (%),Total Time (ns)\n", "a.csv");
  REQUIRE_FALSE(csv);
  CHECK(to_string(csv.error()) == "a.csv: matches none of the formats kineto nsight");
}
