/// \file
/// Local SGD and DiLoCo: the mean step of replicas that train apart and average a part of the model now and then.
///
///   time     ((H - A) local + A averaging) / H     H steps of a period, in A of them a part of the model travels
///            A = P max(1, o)                       P parts (averaging_fragments), each beside o steps (averaging_overlap)
///   bytes    2 (R - 1)/R S / H                     R replicas, S bytes of what a rank updates, as they travel
///
/// local: a step without traffic between replicas; averaging: one with an all-reduce of S / A bytes. Without overlap it
/// follows the update and the step waits for it. With overlap it begins with the step and is waited for after the update: a
/// part that takes longer than its o steps delays each of them by the same, so the sum over them is what it takes longer.
///
/// Every time of the forecast is such a mean, also those of its causes; throughput and utilisation follow from the mean step. A
/// slow replica delays the others only where they average, by what it lost in the whole period: the mean of a period is the same.
/// Leaves out   the loss, which depends on H, the data and the optimizers; states of the inner optimizer, which stay apart;
///              o latencies in place of one for a part that travels beside o steps (too slow where transfers are waited for)
/// Source       docs/references.md#local-sgd
#pragma once

#include "sim/forecast/forecast.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// Whether a collective averages parameters between replicas, given that the run does so.
bool averages(Traffic traffic, Collective collective);

/// Makes the forecast of a step that averages the mean of a period, of which `local` is a step that does not.
/// Requires period >= averaging_steps() of the run's plan, whose own period is not 0
void mean_of_period(ForecastRun& run, const Forecast& local, int period);

}  // namespace tracecast
