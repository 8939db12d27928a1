/// \file
/// The optimizer on the host's processors (DeepSpeed's CPU Adam), for offloaded states and parameter servers.
///
///   t = parameters / rate, the host's rate shared by the ranks that it serves
///
/// rate    3.9e9 parameters/s of a host with two sockets: about 1 s for 4e9 parameters and 2.6 s for 10e9 on a DGX-2 (two
///         Xeon 8168), as Ren et al., ZeRO-Offload (arXiv 2101.06840) report of their CPU Adam. At 30 bytes per
///         parameter (docs/references.md#elementwise-bytes, docs/references.md#zero-offload) that is
///         117 GB/s, about half of what such a host's memory gives
/// Leaves out: that gradients arrive and parameters leave tile by tile meanwhile; other optimizers are taken to cost the
/// same.
#pragma once

#include <cstdint>

#include "sim/base/units.hpp"

namespace tracecast {

/// Each of `ranks` that share a host updates `parameters`.   Requires ranks >= 1
Duration host_update(std::int64_t parameters, int ranks);
/// Relative standard deviation of the rate between hosts; an assumption.
inline constexpr double kHostUpdateSpread = 0.3;

}  // namespace tracecast
