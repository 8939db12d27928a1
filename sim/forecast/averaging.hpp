/// \file
/// Local SGD: the mean step of replicas that train apart and average their parameters every H steps.
///
///   time     ((H - 1) local + averaging) / H       local: a step without traffic between replicas; averaging: one that
///                                                  ends with an all-reduce of the parameters
///   bytes    2 (R - 1)/R S / H                     R replicas, S bytes that a rank updates (fp32 copies, if it has them)
///
/// Every time of the forecast is such a mean, throughput and utilisation follow from the mean step. A slow replica delays
/// the others only where they average, by what it lost in the whole period: the mean of a period is the same.
/// Leaves out   the loss, which depends on H, the data and the optimizer; states of the optimizer, which stay apart
///              (as in DiLoCo); work of an outer optimizer, whose bytes are the same
/// Source       docs/references.md#local-sgd
#pragma once

#include "sim/forecast/forecast.hpp"

namespace tracecast {

/// Makes the forecast of a step that averages the mean of a period, of which `local` is a step that does not.
/// Requires period >= 1 and `run` of period 1
void mean_of_period(ForecastRun& run, const Forecast& local, int period);

}  // namespace tracecast
