/// \file
/// Interface through which the job simulation gets step times: state of the machine in, time and tokens of a step out.
///
/// The job simulation has no slowdown factors. The step engine computes what a slow GPU or a lost rail does to a step
/// (sim/forecast/engine_step_times.hpp). Results are cached per distinct state.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// Condition of the machine. Of several degradations of one kind the worst counts: a synchronous step waits for it.
struct MachineState {
  int lost_replicas = 0;           ///< data-parallel replicas that are down
  int gpu_speed_percent = 100;     ///< of the slowest GPU
  int link_speed_percent = 100;    ///< of the slowest link
  int uplink_speed_percent = 100;  ///< of the fabric above the leaves
  int lost_rails = 0;
  std::int64_t global_batch = 0;  ///< sequences per step (batch ramp); 0: the scenario's
  auto operator<=>(const MachineState&) const = default;
};

struct StepTime {
  Duration time;
  std::int64_t tokens = 0;  ///< trained by one step
  bool operator==(const StepTime&) const = default;
};

/// Thread-safe. Errors: a state without a known step time.
class StepTimes {
 public:
  virtual ~StepTimes() = default;
  virtual Result<StepTime> of(const MachineState& state) const = 0;
};

/// Asks `source` once per distinct state. Thread-safe even if `source` is not. `source` must outlive it.
class CachedStepTimes final : public StepTimes {
 public:
  explicit CachedStepTimes(const StepTimes& source) : source_(source) {}
  Result<StepTime> of(const MachineState& state) const override;
  /// All states with a step time so far.
  std::vector<std::pair<MachineState, StepTime>> known() const;

 private:
  const StepTimes& source_;
  mutable std::mutex mutex_;
  mutable std::map<MachineState, Result<StepTime>> known_;
};

/// Step times from a table: for tests, and for a run whose step time was measured. A machine that lost replicas keeps
/// the healthy step time and trains fewer tokens (the batch shrinks).
struct FixedStepTimes final : StepTimes {
  StepTime healthy;
  int replicas = 1;
  std::map<MachineState, StepTime> table;  ///< takes precedence
  Result<StepTime> of(const MachineState& state) const override;
};

}  // namespace tracecast
