// The whole way: CUPTI records made by hand, a trace, a profile, a forecast of a job that is a hundred times larger.

#include "tracer/measured_profile.hpp"

#include <filesystem>

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "sim/report/forecast.hpp"
#include "tests/io/temporary_folder.hpp"
#include "tracer/cupti_records.hpp"
#include "tracer/trace_reader.hpp"

using namespace tracecast;

namespace {

namespace fs = std::filesystem;

constexpr double kSlower = 1.25;  // than the fitted profile says: what was recorded must show in the forecast

Scenario scenario(int ranks) {
  const fs::path root = TRACECAST_SOURCE_DIR;
  const DataPaths data{root / "scenarios", root / "topologies", root / "kernels/profiles"};
  const Result<Scenario> read =
      read_scenario(root / "scenarios/teaching/tensor-parallel.json", data,
                    {"cluster.world_size=" + std::to_string(ranks), "training.global_batch_size=" + std::to_string(ranks / 8),
                     "parallel.dp=" + std::to_string(ranks / 8)});
  if (!read) FAIL(to_string(read.error()));
  return *read;
}

ForecastRun forecast_of(const Scenario& scenario) {
  Result<ForecastRun> run = forecast(scenario);
  if (!run) FAIL(to_string(run.error()));
  return std::move(*run);
}

/// As a framework's kernels are called.
const char* kernel_name(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::gemm:
      return "nvjet_sm90_tst_128x256_64x4_bf16";
    case OperatorKind::attention:
      return "cudnn_generated_fort_native_sdpa_sm90_flash_fprop";
    case OperatorKind::norm:
      return "rms_norm_kernel";
    case OperatorKind::activation:
      return "silu_and_mul_kernel";
    case OperatorKind::rope:
      return "rope_kernel";
    case OperatorKind::embedding:
      return "embedding_kernel";
    case OperatorKind::cross_entropy:
      return "cross_entropy_kernel";
    case OperatorKind::optimizer:
      return "multi_tensor_apply_kernel<AdamFunctor>";
    case OperatorKind::cast:
      return "cast_kernel";
    case OperatorKind::copy:
      return "copy_kernel";
    default:
      return "vectorized_elementwise_kernel";
  }
}

/// One rank's step as CUPTI would have recorded it: launches, kernels, and now and then one that is in no step graph.
void record(const ForecastRun& run, TraceWriter& writer, int& strangers) {
  std::uint64_t now = 1'000'000;
  std::uint32_t correlation = 0;
  const auto write = [&](const char* name, double seconds) {
    CUpti_ActivityAPI call{};
    call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
    call.correlationId = ++correlation;
    call.start = now - 2'000;
    call.end = now - 1'000;
    write_record(reinterpret_cast<const CUpti_Activity&>(call), writer);
    CUpti_ActivityKernel10 kernel{};
    kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernel.name = name;
    kernel.streamId = 7;
    kernel.correlationId = correlation;
    kernel.start = now;
    kernel.end = now + static_cast<std::uint64_t>(seconds * 1e9 + 0.5);
    write_record(reinterpret_cast<const CUpti_Activity&>(kernel), writer);
    now = kernel.end + 1'000;
  };
  int count = 0;
  const Rank& rank = run.graph.ranks.front();
  for (const ProgramItem& item : run.graph.programs[static_cast<std::size_t>(rank.program)])
    for (const Op& op : run.graph.templates[static_cast<std::size_t>(item.template_index)].ops) {
      if (op.type != OpType::compute || op.payload < 0) continue;
      const CostedOperator& costed = run.graph.operators[static_cast<std::size_t>(op.payload)];
      write(kernel_name(costed.op.kind), kSlower * seconds(costed.cost.duration));
      if (++count % 50 == 0) {
        write("topk_of_somebody_else", 1e-6);
        ++strangers;
      }
    }
}

}  // namespace

TEST_CASE("profile from a recording: CUPTI records become a measured forecast at 1,024 ranks", "[tracer][profile-from]") {
  const Scenario small = scenario(8);
  const ForecastRun run = forecast_of(small);
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "run.trace").string();
  int strangers = 0;
  {
    TraceWriter writer(path, {});
    record(run, writer, strangers);
    writer.finish();
  }
  const std::vector<Trace> traces{read_trace(path).value()};
  const Result<MeasuredProfile> measured = measured_profile(traces, run.graph, small.profile, path);
  if (!measured) FAIL(to_string(measured.error()));
  REQUIRE(strangers > 0);
  CHECK(measured->matched == measured->kernels - strangers);
  REQUIRE(measured->unmatched.size() == 1);
  CHECK(measured->unmatched[0].first == "topk_of_somebody_else");

  Scenario large = scenario(1024);
  const Duration fitted = forecast_of(large).timeline.ranks.front().compute;
  large.profile = measured->profile;
  const ForecastRun forecast = forecast_of(large);
  CHECK(forecast.graph.total_ranks() == 1024);
  CHECK(forecast.forecast.provenance.at("measured") > 0.95);
  CHECK(seconds(forecast.timeline.ranks.front().compute) == Approx(kSlower * seconds(fitted)).epsilon(0.02));
}

TEST_CASE("profile from a recording: sizes of a range decide where the order does not", "[tracer][profile-from]") {
  const ForecastRun run = forecast_of(scenario(8));
  const CostedOperator* costed = nullptr;
  for (const CostedOperator& each : run.graph.operators)
    if (each.op.kind == OperatorKind::gemm && each.op.pass == Pass::forward) costed = &each;
  REQUIRE(costed != nullptr);
  const auto& shape = std::get<GemmShape>(costed->op.shape);
  Trace trace;
  trace.calls.push_back({1, 1, 100, 110, ""});
  trace.kernels.push_back({"nvjet_bf16", 0, 7, 1, 200, 1'200, 1, 1});
  trace.ranges.push_back({"aten::mm, sizes = [[" + std::to_string(shape.m) + ", " + std::to_string(shape.k) + "], [" +
                              std::to_string(shape.k) + ", " + std::to_string(shape.n) + "]]",
                          "cpu_op", 1, 0, 90, 120});
  const Result<MeasuredProfile> measured = measured_profile(std::vector{trace}, run.graph, Profile{}, "t");
  REQUIRE(measured);
  REQUIRE(measured->profile.measured.size() == 1);
  CHECK(std::get<GemmShape>(measured->profile.measured[0].op.shape).k == shape.k);
  CHECK(measured->profile.measured[0].seconds == Approx(1e-6));
  trace.ranges[0].name = "aten::mm, sizes = [[3, 5], [5, 7]]";
  CHECK(measured_profile(std::vector{trace}, run.graph, Profile{}, "t")->matched == 0);
  CHECK(to_string(measured_profile(std::vector{Trace{}}, run.graph, Profile{}, "t").error()) ==
        "t: has no kernel that computes");
}

TEST_CASE("profile from a recording: of a collective the rank that came last counts", "[tracer][profile-from]") {
  const ForecastRun run = forecast_of(scenario(8));
  Trace first;
  first.kernels.push_back({"gemm", 0, 7, 0, 0, 10, 1, 1});
  first.collectives.push_back({"AllReduce", "ncclBfloat16", "RING", "LL", 1, 0, 8, -1, 1024, 5, 1'000, 9'000});
  Trace second = first;
  second.collectives[0].start_ns = 6'000;
  const Result<MeasuredProfile> measured = measured_profile(std::vector{first, second}, run.graph, Profile{}, "t");
  REQUIRE(measured);
  REQUIRE(measured->profile.measured_collectives.size() == 1);
  CHECK(measured->profile.measured_collectives[0].size.count == 2048);
  CHECK(measured->profile.measured_collectives[0].seconds == Approx(3e-6));
}
