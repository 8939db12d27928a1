/// \file
/// Compute slowed by concurrent transfers on the same GPU.
///
/// NCCL's channels are thread blocks: a collective takes that many SMs from concurrent compute. The data that it moves
/// passes through the GPU's memory, which memory-bound work needs as well. While a transfer moves, an operator keeps the
/// following share of its speed, at least a tenth:
///
///   compute-bound   1 - channels / SMs
///   memory-bound    1 - 2 size / duration / memory bandwidth        every byte is read once and written once
///
/// If an operator spends a share p of its time beside transfers that leave it a share v of its speed, then
///
///   duration' = duration / (1 - p (1 - v))
///
/// p refers to the slowed run itself and is found by simulating a few times. It is a mean over all executions of an operator
/// of a template, in integers, so that folded and unfolded graphs agree.
///
/// Compared with Galvatron's overlap coefficient of 8-GPU A100 nodes, 1.126 (12 of 108 SMs). Leaves out: transfers slowed by
/// compute, caches, clocks; pipeline messages over copy engines.
#pragma once

#include "sim/base/result.hpp"
#include "sim/cost/profile.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/timeline.hpp"
#include "sim/graph/step_graph.hpp"

namespace tracecast {

/// The share of its full speed, 0.1 to 1, that an operator keeps while the collective moves.
double speed_during(const Profile& gpu, OperatorKind kind, const CollectiveCost& cost, Bytes size);

/// Returns `base` with each compute duration as slowed by the transfers of `run`.
/// Requires that `run` simulated `base`, or an earlier result of this function for it, with spans.
StepGraph slowed_by_transfers(const StepGraph& base, const Timeline& run, const Profile& gpu);

}  // namespace tracecast
