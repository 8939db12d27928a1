/// Where the job simulation takes its step times from: the state of the machine in, time and tokens of one step out.
///
/// The job simulation knows no slowdown factors; what a slow GPU or a lost rail does to a step, the step engine says
/// (sim/forecast/engine_step_times.hpp). Answers are cached per distinct state.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "sim/base/result.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

/// What is wrong with the machine. Of several troubles of one kind the worst counts: a synchronous step waits for it.
struct MachineState {
  int lost_replicas = 0;           ///< data-parallel replicas that are out
  int gpu_speed_percent = 100;     ///< of the slowest GPU
  int link_speed_percent = 100;    ///< of the slowest link
  int uplink_speed_percent = 100;  ///< of the fabric above the leaves
  int lost_rails = 0;
  std::int64_t global_batch = 0;  ///< sequences per step, 0: the scenario's (batch ramp)
  auto operator<=>(const MachineState&) const = default;
};

struct StepTime {
  Duration time;
  std::int64_t tokens = 0;  ///< trained by one step
  bool operator==(const StepTime&) const = default;
};

/// Thread-safe. Errors: a state that the provider cannot speak about.
class StepTimes {
 public:
  virtual ~StepTimes() = default;
  virtual Result<StepTime> of(const MachineState& state) const = 0;
};

/// Asks `source` once per distinct state. Thread-safe whether `source` is or not; `source` must outlive it.
class CachedStepTimes final : public StepTimes {
 public:
  explicit CachedStepTimes(const StepTimes& source) : source_(source) {}
  Result<StepTime> of(const MachineState& state) const override;
  /// The states asked for so far, with their answers.
  std::vector<std::pair<MachineState, StepTime>> known() const;

 private:
  const StepTimes& source_;
  mutable std::mutex mutex_;
  mutable std::map<MachineState, Result<StepTime>> known_;
};

/// One step time for a healthy machine, and tables for the rest: for tests, and for a run whose step time was measured.
/// A machine that lost replicas keeps its step time and trains that much less (the batch shrinks).
struct FixedStepTimes final : StepTimes {
  StepTime healthy;
  int replicas = 1;
  std::map<MachineState, StepTime> table;  ///< asked first
  Result<StepTime> of(const MachineState& state) const override;
};

}  // namespace tracecast
