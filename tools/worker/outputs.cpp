#include "tools/worker/outputs.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/samples.hpp"
#include "sim/io/output_folder.hpp"
#include "sim/io/step_record.hpp"
#include "sim/report/perfetto.hpp"

namespace tracecast::worker {
namespace {

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
  OutputFolder folder(options.out);
  folder.write("timeline.json", to_json(record));
  return write_trace_file(folder.file("trace.json"), run, {}).and_then([&] { return folder.commit(); });
}

}  // namespace tracecast::worker
