/// \file
/// Steps with packed batches: every micro-batch of every rank takes the time of its own documents, and a step waits for the
/// slowest. The graph is built once; each step has other times of attention (VaryingWork). With dynamic context parallelism programs
/// differ too, and each step has a graph.
///
///   mean       of the seeded steps; exact for these batches, and a sample of those of the law
///   balanced   the step in which all micro-batches take the mean time; mean - balanced is what imbalance costs
/// Leaves out   linear layers of shorter sequences (padding is computed), what is left out by packing.hpp
#pragma once

#include <functional>
#include <vector>

#include "sim/forecast/forecast.hpp"

namespace tracecast {

/// What packed batches add to a forecast.
struct PackedTimes {
  std::vector<double> steps_s;  ///< empty: all steps are alike
  double balanced_s = 0;        ///< 0 with dynamic context parallelism
  Timeline nearest;             ///< of the step nearest to the mean, with spans if asked for
};

/// Simulates all steps of run.plan, each after `select_step` has made run.graph the step's. Leaves the mean of their times in
/// run.timeline, without spans, and the step nearest to it in run.graph. A mean above `longest` is given up; 0: no limit.
/// Errors: those of `simulate`
Result<PackedTimes> simulate_packed_steps(ForecastRun& run, const std::function<void(int)>& select_step,
                                          const std::function<Result<Timeline>(const StepGraph&)>& simulate,
                                          Duration longest);

/// The same plan with micro-batches that all take the mean time.
Plan balanced(const Plan& plan);

/// Fills forecast.packed.   Requires a plan with packed sequences and a summarised forecast
void add_packed(const Plan& plan, const PackedTimes& times, Forecast& forecast);

}  // namespace tracecast
