/// Step times of a machine that is not healthy, from the step engine: the job simulation's StepTimes over forecast().
///
///   lost replicas   the layout with fewer data-parallel replicas; the batch shrinks with them, or is kept and padded to
///                   whole micro-batches (tokens count once)
///   slow GPU        all compute of one pipeline rank takes 1/speed as long, in every replica: others wait for a slow
///                   one at their next common collective, so that one slow replica and many take the same time.
///                   The pipeline rank is the one that costs most.
///   lost rail       every node has one NIC less: exact where a rail is a switch of its own
///   slow link       every NIC runs at that speed: an upper bound, since only rings through the link are slow
///   slow uplink     oversubscription above the nodes goes up by 1/speed
///   batch ramp      the scenario with that global batch
#pragma once

#include "sim/io/scenario.hpp"
#include "sim/reliability/job.hpp"
#include "sim/reliability/step_times.hpp"

namespace tracecast {

class EngineStepTimes final : public StepTimes {
 public:
  /// `keep_batch`: what a loss of replicas does. `healthy_step_s` > 0 scales all answers so that the healthy step takes
  /// that long: a measured step time, with the engine's ratios.
  explicit EngineStepTimes(Scenario scenario, bool keep_batch = false, double healthy_step_s = 0);
  /// Errors: layouts that the plan refuses.
  Result<StepTime> of(const MachineState& state) const override;

 private:
  Result<Duration> engine_time(const Scenario& scenario, int gpu_speed_percent) const;

  Scenario scenario_;
  bool keep_batch_;
  double healthy_step_s_;
};

}  // namespace tracecast
