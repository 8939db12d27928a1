/// \file
/// The failures of one history in the order of time: one random process per kind of the failure model. Each has its own
/// random streams, so that an added kind does not change the draws of the others.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/reliability/failure_model.hpp"
#include "sim/reliability/job_time.hpp"

namespace tracecast {

class FailureProcesses {
 public:
  /// Kind k draws its times from stream (seed, history, 2k) and everything else from (seed, history, 2k + 1).
  FailureProcesses(const FailureModel& model, const Machine& machine, std::uint64_t seed, std::uint32_t history);

  /// Time (kNever: none) and kind of the next failure. Of two at the same time the kind with the lower number is first.
  JobTime next() const { return next_; }
  int next_kind() const { return next_kind_; }
  void pop();

  /// Parts do not age for `duration`: every future failure is that much later.
  void pause(JobTime duration);

  /// Draws everything about a failure of this kind except its time.
  RandomStream& attributes(int kind) { return attributes_[static_cast<std::size_t>(kind)]; }

 private:
  JobTime on_the_clock(double age_s) const;
  void choose();

  std::vector<FleetFailures> fleets_;
  std::vector<RandomStream> attributes_;
  std::vector<JobTime> times_;
  JobTime paused_;
  JobTime next_ = kNever;
  int next_kind_ = -1;
};

}  // namespace tracecast
