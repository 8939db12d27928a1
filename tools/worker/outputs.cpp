#include "tools/worker/outputs.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "kernels/samples.hpp"
#include "sim/io/files.hpp"
#include "sim/io/step_record.hpp"
#include "sim/report/perfetto.hpp"

namespace tracecast::worker {
namespace {

namespace fs = std::filesystem;

/// The step whose duration is nearest to the lower quartile.
const Timeline& typical(const std::vector<Timeline>& steps, const Samples& samples) {
  const auto distance = [&](const Timeline& step) {
    return std::abs(seconds(step.step_time) - samples.lower_quartile);
  };
  return *std::min_element(steps.begin(), steps.end(),
                           [&](const Timeline& a, const Timeline& b) { return distance(a) < distance(b); });
}

}  // namespace

Result<void> write_steps(const ExecuteOptions& options, const Scenario& scenario, ForecastRun& run,
                         const std::vector<Timeline>& steps) {
  std::vector<double> durations;
  for (const Timeline& step : steps) durations.push_back(seconds(step.step_time));
  const Samples samples = summarise(durations);
  run.timeline = typical(steps, samples);
  StepRecord record = record_of(run.graph, run.timeline, scenario.name, StepOrigin::executed);
  record.repeats = {samples.count, samples.lower_quartile, samples.median, samples.spread};
  const fs::path folder = options.out;
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  return write_file(folder / "timeline.json", to_json(record)).and_then([&] {
    return write_trace_file(folder / "trace.json", run, {});
  });
}

}  // namespace tracecast::worker
