/// Compute slowed by the transfers that run beside it on the same GPU.
///
/// NCCL's channels are thread blocks: a collective takes as many SMs from whatever computes beside it; and what it moves goes
/// through the GPU's memory, which memory-bound work needs as well. While a transfer is moving, an operator runs at the share
///
///   compute-bound   1 - channels / SMs
///   memory-bound    1 - 2 size / duration / memory bandwidth        every byte is read once and written once
///
/// of its speed, at least a tenth. So if a share p of an operator's time passes beside transfers that leave it v,
///
///   duration' = duration / (1 - p (1 - v))
///
/// p is of the slowed run itself, which is found by running again a few times. It is a mean over all runs of an operator of a
/// template, in integers, so that folded and unfolded graphs agree.
///
/// Held to: Galvatron's overlap coefficient of 8-GPU A100 nodes, 1.126 (12 of 108 SMs). Leaves out: transfers slowed by
/// compute, caches, clocks; messages of pipelines over copy engines.
#pragma once

#include "sim/base/result.hpp"
#include "sim/cost/profile.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/timeline.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// Of full speed, what compute keeps beside a collective.
double speed_beside(const Profile& gpu, OperatorKind kind, const CollectiveCost& cost, Bytes size);

/// `base` with the durations that its compute operations had if they were slowed as in `run`, a run of it (or of what this
/// function made of it) with spans.
StepGraph slowed_by_transfers(const StepGraph& base, const Timeline& run, const Profile& gpu);

}  // namespace tracecast
