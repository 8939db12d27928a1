/// \file
/// The schedules that `tracecast schedule` shows: by name, from a file, or of a scenario's step, each with its simulated run.
#pragma once

#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/import/pytorch_schedule.hpp"
#include "sim/plan/parallel.hpp"
#include "sim/report/schedule_view.hpp"
#include "sim/schedule/schedule.hpp"
#include "tools/exact_times.hpp"

namespace tracecast::cli {

inline constexpr const char* kDefaultSchedule = default_schedule(1);
inline constexpr int kUsualMicrobatches = 8;

/// What the command line asks for.
struct ScheduleOptions {
  std::string schedule;  ///< empty: kDefaultSchedule, or the scenario's
  std::string file;      ///< in place of a name: PyTorch's CSV
  ScheduleRequest request;
  TimeTexts times;
  std::string times_from;  ///< a scenario
  std::vector<std::string> overrides;
  std::vector<std::string> compare;  ///< names of other schedules
  std::string sends, receives, dialect = "detect";
  bool batched = false;
  bool with_latency_only = false;  ///< shows the schedule also without these rules of messages
  std::string streams;
};

/// The schedule that is asked for, then those that it is compared with.
/// Errors: those of readers and schedules, times that do not fit them
Result<std::vector<ScheduleView>> views_of(ScheduleOptions options);

/// The file of --file.
Result<PytorchSchedule> file_of(const ScheduleOptions& options);

}  // namespace tracecast::cli
