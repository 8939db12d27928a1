// End to end: CUPTI records made by hand, a trace, a profile, a forecast of a job that is a hundred times larger.

#include <catch2/catch.hpp>

#include "sim/cost/slowest_rank.hpp"
#include "sim/io/trace_reader.hpp"
#include "tests/support/results.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tracer/recorded_ranks.hpp"
#include "tracer/cupti_records.hpp"
#include "tracer/measured_profile.hpp"

using namespace tracecast;

namespace {

constexpr double kSlower = 1.25;  // than the fitted profile says: what was recorded must show in the forecast

/// Writes launches and kernels as CUPTI hands them over.
class Recorder {
 public:
  explicit Recorder(TraceWriter& writer) : writer_(writer) {}

  void kernel(const char* name, double seconds) {
    CUpti_ActivityAPI call{};
    call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
    call.correlationId = ++correlation_;
    call.start = now_ - 2'000;
    call.end = now_ - 1'000;
    write_record(reinterpret_cast<const CUpti_Activity&>(call), writer_);
    CUpti_ActivityKernel10 kernel{};
    kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    kernel.name = name;
    kernel.streamId = 7;
    kernel.correlationId = correlation_;
    kernel.start = now_;
    kernel.end = now_ + static_cast<std::uint64_t>(seconds * 1e9 + 0.5);
    write_record(reinterpret_cast<const CUpti_Activity&>(kernel), writer_);
    now_ = kernel.end + 1'000;
  }

 private:
  TraceWriter& writer_;
  std::uint64_t now_ = 1'000'000;
  std::uint32_t correlation_ = 0;
};

/// Two steps of one rank, and now and then a kernel that is in no step graph. Returns how many of those.
int record(const ForecastRun& run, const std::string& path) {
  TraceWriter writer(path, {});
  Recorder recorder(writer);
  int count = 0;
  int strangers = 0;
  for (int step = 0; step < 2; ++step)
    test::for_each_operator(run.graph, run.graph.ranks.front(), [&](const CostedOperator& each) {
      recorder.kernel(test::kernel_name(each.op.kind), kSlower * seconds(each.cost.duration));
      if (++count % 50 != 0) return;
      recorder.kernel("somebody_elses_sort_by_key", 1e-6);
      ++strangers;
    });
  writer.finish();
  return strangers;
}

}  // namespace

TEST_CASE("profile from a recording: CUPTI records become a measured forecast at 1,024 ranks",
          "[tracer][profile-from]") {
  const Scenario small = test::scenario_of(8);
  const ForecastRun run = test::unfolded_forecast(small);
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "run.trace").string();
  const int strangers = record(run, path);
  const std::vector<NamedTrace> traces{{path, read_trace(path).value()}};
  const MeasuredProfile measured = value_of(measured_profile(traces, run.graph, small.profile));
  REQUIRE(strangers > 0);
  CHECK(measured.steps == 2);
  CHECK(measured.matched == measured.kernels - strangers);
  REQUIRE(measured.unmatched.size() == 1);
  CHECK(measured.unmatched[0].name == "somebody_elses_sort_by_key");

  Scenario large = test::scenario_of(1024);
  const double fitted = seconds(forecast(large)->timeline.ranks.front().compute) /
                        large.profile.in_training.slowest_gpu * small.profile.in_training.slowest_gpu;
  large.profile = measured.profile;
  const ForecastRun run_1024 = forecast(large).value();
  CHECK(run_1024.graph.total_ranks() == 1024);
  CHECK(run_1024.forecast.provenance.at("measured") > 0.95);
  const double recorded = seconds(run_1024.timeline.ranks.front().compute);
  CHECK(recorded == Approx(kSlower * fitted).epsilon(0.02));
  // The recorded GPU is one of many: the slowest of 1,024 is 3.234 deviations slower.
  wait_for_slowest(large.profile, 1024, kGpuSpread);
  CHECK(seconds(forecast(large)->timeline.ranks.front().compute) == Approx(recorded * 1.06468).epsilon(0.002));
}
