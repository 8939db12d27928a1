/// \file
/// Time of fused attention (FlashAttention, cuDNN). Unfused attention is made of batched GEMMs and a softmax.
///
///   tc = max( FLOPs / (P e' s / (s + s0)),  longest CTA / (P/SMs e') )      s: keys a query could see
///   tm = (q + k + v + o, and their gradients backward) / B
///   t  = t0 + max(tc, tm)
///
/// e' = e (FLOPs / knee)^-p above the knee: long kernels lose clock to the power limit. GB200's cuDNN falls from 1332 TFLOP/s at
/// 8 thousand tokens to 1226 at 32 thousand backward, with 28 and 111 waves of tiles: neither s0 nor whole waves explain it.
/// FLOPs forward: 2 b a (d_qk + d_v) pairs, halved when causal; backward 2.5 times that (scores again, dV, dP, dQ, dK).
/// The longest CTA is a tile of 128 queries over all the keys it sees: with few heads and short sequences it, and not the
/// sum of the work, decides.
/// Documents packed to one sequence are one kernel (variable-length attention): tc is the sum over its documents, each with its
/// own s, the longest CTA that of the longest document, bytes those of all. How close kernels come to that sum was not measured.
/// Between two head sizes with a model, the time is interpolated, in logarithms of both.
/// In 8 bits (AttentionModel::precision) P is the peak of that precision; quantisation is work of its own (graph/attention.cpp).
/// Left out: dropout, attention bias, split-KV (decoding), fewer bytes of 8-bit operands.
/// Source: docs/references.md#attention-fit; parameters by head size and mask are in the profile.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/cost/gemm.hpp"
#include "sim/cost/profile.hpp"
#include "sim/model/operators.hpp"

namespace tracecast {

/// FLOPs executed by the fused kernel.
double attention_flops(const AttentionShape& shape, bool backward);

/// Names of the kernels that a profile has models of, the default first.
std::vector<std::string> attention_kernels(const Profile& profile);

/// True if the profile has a model of `kernel` (empty: its first) in 8 bits of this kind.
bool has_attention_in(const Profile& profile, const std::string& kernel, Precision precision);

/// The model of `kernel` in `precision` whose head size is nearest to the shape's d_qk, among those of its mask; nullptr when
/// there is none. A mask without a model borrows from the other mask, 8 bits without one from 16 bits.
const AttentionModel* nearest_attention_model(std::span<const AttentionModel> models, const std::string& kernel,
                                              const AttentionShape& shape, Precision precision = Precision::bf16);

/// The model of the same kernel, mask and precision on the other side of `head_dim`, the nearest; nullptr when there is none, or
/// `nearest` is of this head size.
const AttentionModel* opposite_attention_model(std::span<const AttentionModel> models, const AttentionModel& nearest,
                                               std::int64_t head_dim);

/// The shape that a kernel works on: backward in 8 bits cuDNN skips no key outside of a window (measured on GB200: the same
/// time per pair of the causal mask with and without one).   Source: docs/references.md#attention-fit
AttentionShape worked_shape(const AttentionModel& model, AttentionShape shape, bool backward);

/// Seconds of one isolated kernel. Requires all sizes >= 1.
double attention_seconds(const AttentionModel& model, const GpuPeak& gpu, const AttentionShape& shape, bool backward);

/// The part of `shape`, which has sequences of `sequence` tokens, that one document of `length` tokens is. Lengths of queries and
/// keys are divided as those of the sequence and rounded up.
AttentionShape document_shape(const AttentionShape& shape, std::int64_t length, std::int64_t sequence);

/// The same kernel over documents of these lengths in all `shape.batch` sequences.   Requires at least one document
double packed_attention_seconds(const AttentionModel& model, const GpuPeak& gpu, const AttentionShape& shape,
                                std::span<const std::int32_t> lengths, std::int64_t sequence, bool backward);

}  // namespace tracecast
