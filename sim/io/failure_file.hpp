/// \file
/// Failure models as data: scenarios/failures/NAME.json (docs/formats/failures.md).
///
/// A file holds the published failure rates of one machine and how a job recovers there, both with their source.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/reliability/checkpoint.hpp"
#include "sim/reliability/failure_model.hpp"
#include "sim/reliability/job.hpp"

namespace tracecast {

/// The machine and the time that counts refer to.
struct Observed {
  Machine machine;
  double duration_s = 0;
  bool operator==(const Observed&) const = default;
};

struct FailureFile {
  FailureModel model;
  Observed observed;
  RecoveryPolicy recovery;
  bool spares_given = false;       ///< else as many as the job needs: enough_spares()
  bool rollback_given = false;     ///< recovery.elastic_rollback; else as the layout says
  bool reconfigure_given = false;  ///< recovery.reconfigure; else as long as a hot spare takes to join
  CheckpointSettings checkpoint;   ///< without storage: the topology's is used
  TrainingCourse course;
  std::string ramp_file;  ///< that has course.ramp, for errors of its batches; "--set"; "" without one
  int ramp_line = 0;      ///< there; 0: none
  bool operator==(const FailureFile&) const = default;
};

/// `overrides`: "recovery.spares=8", "checkpoint.interval=20 min"; they replace the file's values before it is read.
/// Errors: those of the JSON reader; a kind without exactly one of count, mtbf and rate_per_1000_days; a count without
/// `observed`; quantities out of range. All are reported, with lines.
Result<FailureFile> read_failure_file(const std::filesystem::path& path,
                                      const std::vector<std::string>& overrides = {});

/// "6334.6 h", "54 d": spans that may be longer than a Duration can be.
Result<double> parse_long_time_s(const std::string& text);

}  // namespace tracecast
