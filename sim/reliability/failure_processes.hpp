/// The failures of one history, in the order of time: one process per line of the failure model, each with random
/// streams of its own, so that a line that is added does not move the draws of the others.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/reliability/failure_model.hpp"
#include "sim/reliability/job_time.hpp"

namespace tracecast {

class FailureProcesses {
 public:
  /// Line k draws its instants from stream (seed, history, 2k) and everything else from (seed, history, 2k + 1).
  FailureProcesses(const FailureModel& model, const Machine& machine, std::uint64_t seed, std::uint32_t history);

  /// When the next failure comes (kNever: none), and of which kind. Of two at one instant the earlier line is first.
  JobTime next() const { return next_; }
  int next_kind() const { return next_kind_; }
  void pop();

  /// Nothing ages for `duration`: every failure to come is that much later.
  void pause(JobTime duration);

  /// For what else is random about a failure of this kind.
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
