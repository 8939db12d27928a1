/// \file
/// Step times of a degraded machine from the step engine: an implementation of StepTimes with forecast().
///
///   lost replicas   the layout with fewer data-parallel replicas; the batch shrinks with them, or stays and is padded
///                   to whole micro-batches (tokens count once)
///   slow GPU        all compute of one pipeline rank takes 1/speed as long, in every replica: others wait for a slow
///                   one at their next common collective, so that one slow replica costs as much as many.
///                   The slow pipeline rank is the one that costs most; with lost replicas, the one that costs most
///                   without them, since a machine that lost some has thousands of classes of ranks.
///   lost rail       every node has one NIC less: exact if each rail is a separate switch
///   slow link       every NIC runs at that speed: an upper bound, since only rings through the link are slow
///   slow uplink     oversubscription above the nodes increases by 1/speed
///   batch ramp      the scenario with that global batch
#pragma once

#include <optional>

#include "sim/forecast/forecast.hpp"
#include "sim/io/scenario.hpp"
#include "sim/reliability/job.hpp"
#include "sim/reliability/step_times.hpp"

namespace tracecast {

/// Data-parallel replicas of the scenario, given or derived.
int replicas_of(const Scenario& scenario);

class EngineStepTimes final : public StepTimes {
 public:
  /// `keep_batch`: the batch stays when replicas are lost. `healthy_step_s` > 0, a measured step time, scales all step
  /// times so that the healthy step takes that long. `known`: a forecast of the scenario, which is then not forecast again.
  explicit EngineStepTimes(Scenario scenario, bool keep_batch = false, double healthy_step_s = 0,
                           const ForecastRun* known = nullptr);
  /// Errors: those of forecast().
  Result<StepTime> of(const MachineState& state) const override;

 private:
  struct Slow {
    int speed_percent = 100;          ///< of one pipeline rank
    std::optional<int> pp_rank = {};  ///< that rank; nothing: the one that costs most
  };
  struct Step {
    Duration time;
    std::optional<int> slow_pp_rank = {};
  };
  Result<Step> engine_step(const Scenario& scenario, const Slow& slow) const;
  Result<Step> engine_step(const Scenario& scenario, const ForecastRun& run, const Slow& slow) const;
  Result<Step> with_all_replicas(const Scenario& scenario, const MachineState& state) const;

  Scenario scenario_;
  bool keep_batch_;
  double healthy_step_s_;
  const ForecastRun* known_;
};

}  // namespace tracecast
