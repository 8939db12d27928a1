/// \file
/// Schedules made by repeating one micro-batch's pattern, in a V of two chunks per rank.
///
/// The pattern places the four passes F0, F1, I1, I0 of micro-batch 0 on every rank in unit slots; the next micro-batch
/// does the same 6 slots later (2 F, 2 I and 2 W fill them). A pass moves from rank to rank `hop` slots at a time, so the
/// hops decide how long activations live, and with it the memory: the sum of the four hops, in sixths of P chunks.
///
/// Source: Qi et al. 2024, "Pipeline Parallelism with Controllable Memory" (the idea of building blocks).
#pragma once

#include "sim/schedule/schedule.hpp"

namespace tracecast {

/// Slots between neighbouring ranks, of each pass.
struct Hops {
  int forward0 = 1;
  int forward1 = 1;
  int input1 = 1;
  int input0 = 1;
};

/// Forwards and input gradients of all micro-batches in the order of the repeated pattern; no weight gradients yet. The
/// four passes turn round as early as they can without two of them sharing a slot (modulo 6) on any rank.
/// Requires hops for which that is possible: 1,1,1,1 and 2,1,2,1 are, for any number of ranks.
Schedule repeat_building_block(const ScheduleRequest& request, const Hops& hops);

}  // namespace tracecast
