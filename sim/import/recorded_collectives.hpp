/// \file
/// Ties the collectives of our own recordings to their kernels.
#pragma once

#include "sim/io/trace.hpp"

namespace tracecast {

/// Gives every collective that was not timed on the GPU the times of its kernel:
///
///   launch > 0   the NCCL kernel whose launch carries that external id: exact
///   otherwise    by time: NCCL reports the operations of a kernel right after its launch, so the last NCCL kernel of that kind
///                launched before; collectives with the same (negative) launch share a kernel
///
/// Collectives without a kernel keep their host time and last nothing (end_ns == start_ns). Returns how many have a kernel.
std::int64_t pair_collectives(Trace& trace);

}  // namespace tracecast
