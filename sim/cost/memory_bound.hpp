/// \file
/// Time of memory-bound kernels: t = t0 + traffic / (efficiency x memory bandwidth), by operator kind and pass.
///
/// Efficiency belongs to the kernel as much as to the GPU (docs/references.md#memory-bound-fit), so each kind has its
/// own.
/// Left out: traffic that stays in L2. It matters below about one L2 size, where t0 weighs as much.
#pragma once

#include "sim/cost/profile.hpp"

namespace tracecast {

/// The model of a kind and pass; without one that of its forward pass, then that of `copy`; nullptr when there is none.
const MemoryModel* find_memory_model(const Profile& profile, OperatorKind kind, Pass pass);

/// Seconds of one isolated kernel that moves `traffic`.
double memory_bound_seconds(const MemoryModel& model, double memory_bandwidth, Bytes traffic);

}  // namespace tracecast
