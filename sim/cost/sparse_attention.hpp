/// \file
/// Time of DeepSeek's sparse attention and of the indexer that chooses its keys: rooflines that this project has not measured.
///
///   sparse attention   15 us + FLOPs / (e P)                    e = 0.65 forward, 0.44 backward
///   indexer            15 us + max( FLOPs / (0.5 P), bytes / (0.5 B) )
///
/// FLOPs and bytes are those of operators.hpp, P is the 16-bit rate. e forward is what FlashMLA states for its sparse prefill, 640
/// TFLOP/s on H800 and 1450 on B200; backward it falls as much as FlashMLA's dense kernels do (1460 and 1000 on B200).
/// Left out: an indexer in 8 bits, which would be faster; keys that miss the L2 cache.
/// Source: docs/references.md#sparse-attention
#pragma once

#include "sim/cost/scan.hpp"
#include "sim/model/operators.hpp"

namespace tracecast {

/// Seconds of one isolated operator of kind sparse_attention or indexer.   Requires sizes of at least 1, but for v_dim
double sparse_attention_seconds(const GpuPeak& gpu, const Operator& op);

}  // namespace tracecast
