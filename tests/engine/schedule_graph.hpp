/// A step graph made of a schedule and given times alone: every action one operation, every boundary one message.
#pragma once

#include <string>
#include <vector>

#include "sim/graph/step_graph.hpp"
#include "sim/schedule/pipeline_run.hpp"
#include "sim/schedule/schedule.hpp"

namespace tracecast::test {

struct ScheduleGraphOptions {
  bool eager = true;  ///< senders do not wait for receivers
};

/// One tick of `times` is one picosecond. Each chunk has its own four point-to-point streams.
StepGraph schedule_graph(const Schedule& schedule, const PipelineTimes& times,
                         const ScheduleGraphOptions& options = {});

}  // namespace tracecast::test
