/// \file
/// Operators: the smallest pieces of work that a GPU is asked to do and that a profile knows the cost of.
///
/// An operator says what is computed (kind, pass, shape, precision), never how long it takes; `sim/cost` does that.
/// Shapes are per rank: tensor, context and sequence parallelism have already been divided out.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "sim/base/enum_names.hpp"
#include "sim/base/units.hpp"

namespace tracecast {

enum class Precision { fp32, fp16, bf16, fp8, fp8_block, mxfp8, nvfp4 };
template <>
struct EnumNames<Precision> {
  static constexpr NamedValue<Precision> table[] = {{Precision::fp32, "fp32"},           {Precision::fp16, "fp16"},
                                                    {Precision::bf16, "bf16"},           {Precision::fp8, "fp8"},
                                                    {Precision::fp8_block, "fp8_block"}, {Precision::mxfp8, "mxfp8"},
                                                    {Precision::nvfp4, "nvfp4"}};
};

/// Bytes of one element as it is moved by a collective or kept in memory (4-bit formats are rounded up to 1).
std::int64_t element_size(Precision precision);
/// 8 or 4 bits: operands are quantised from 16 bit, results leave in 16 bit.
bool is_narrow(Precision precision);
/// Bytes of one quantised element with its share of the scales: fp8_block an fp32 scale per 128 elements, mxfp8 8 bits per
/// 32, nvfp4 8 bits per 16. For 16 and 32 bit the element itself.   Source: OCP MX 1.0; DeepSeek-V3 3.3; NVIDIA NVFP4.
double quantised_size(Precision precision);

enum class OperatorKind {
  gemm,          ///< one matrix multiplication
  grouped_gemm,  ///< one multiplication per expert, in one kernel
  attention,     ///< fused scores, softmax and value product (FlashAttention or cuDNN)
  scores,        ///< unfused attention: the two batched multiplications of one direction, together
  softmax,       ///< unfused attention: scale, mask, softmax, dropout over [b, a, s, s]
  norm,          ///< LayerNorm or RMSNorm
  activation,    ///< GeLU, SwiGLU …
  rope,
  residual,  ///< residual addition, with bias and dropout when the model has them
  embedding,
  cross_entropy,  ///< vocabulary-parallel softmax cross-entropy
  optimizer,
  cast,              ///< precision conversion, transposition, quantisation
  permute,           ///< MoE token shuffle, router top-k
  copy,              ///< host-device or device-device copy
  scan,              ///< chunked linear attention: Mamba-2, gated delta net, Kimi delta attention
  convolution,       ///< causal convolution over the last tokens, before a scan
  indexer,           ///< scores of all keys for sparse attention, and the choice of the best
  sparse_attention,  ///< latent attention to chosen keys, `window` of them for each query
};
inline constexpr int kOperatorKinds = 19;
constexpr bool is_multiplication(OperatorKind kind) {
  return kind == OperatorKind::gemm || kind == OperatorKind::grouped_gemm;
}
template <>
struct EnumNames<OperatorKind> {
  static constexpr NamedValue<OperatorKind> table[] = {{OperatorKind::gemm, "gemm"},
                                                       {OperatorKind::grouped_gemm, "grouped_gemm"},
                                                       {OperatorKind::attention, "attention"},
                                                       {OperatorKind::scores, "scores"},
                                                       {OperatorKind::softmax, "softmax"},
                                                       {OperatorKind::norm, "norm"},
                                                       {OperatorKind::activation, "activation"},
                                                       {OperatorKind::rope, "rope"},
                                                       {OperatorKind::residual, "residual"},
                                                       {OperatorKind::embedding, "embedding"},
                                                       {OperatorKind::cross_entropy, "cross_entropy"},
                                                       {OperatorKind::optimizer, "optimizer"},
                                                       {OperatorKind::cast, "cast"},
                                                       {OperatorKind::permute, "permute"},
                                                       {OperatorKind::copy, "copy"},
                                                       {OperatorKind::scan, "scan"},
                                                       {OperatorKind::convolution, "convolution"},
                                                       {OperatorKind::indexer, "indexer"},
                                                       {OperatorKind::sparse_attention, "sparse_attention"}};
};

enum class Pass { forward, dgrad, wgrad, backward, optimizer };  ///< backward: input and weight gradients in one kernel
template <>
struct EnumNames<Pass> {
  static constexpr NamedValue<Pass> table[] = {{Pass::forward, "forward"},
                                               {Pass::dgrad, "dgrad"},
                                               {Pass::wgrad, "wgrad"},
                                               {Pass::backward, "backward"},
                                               {Pass::optimizer, "optimizer"}};
};

/// C[m,n] += A[m,k] B[k,n], `batch` times. For wgrad, m and n are the weight's sides and k the tokens.
struct GemmShape {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  bool accumulate_fp32 = false;  ///< adds into an fp32 gradient (gradient accumulation fusion)
  auto operator<=>(const GemmShape&) const = default;
};

struct AttentionShape {
  std::int64_t batch = 0;
  std::int64_t q_len = 0;
  std::int64_t kv_len = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t qk_dim = 0;
  std::int64_t v_dim = 0;
  bool causal = true;
  std::int64_t window = 0;  ///< sliding window, 0 for none
  double attended = 1;      ///< share of attention_pairs that is multiplied: within one document (plan/packing.hpp)
  /// Part of causal attention over a ring of so many context ranks, each with the `q_len` tokens of an early and a late piece
  /// of the sequence: the keys that arrive with the `ring_block`-th block. Which of them are in the window differs from rank to
  /// rank; `attended` has the mean of the ring (share_in_window).
  int ring_ranks = 1;
  int ring_block = 0;  ///< always 0 without a window, where blocks are alike
  auto operator<=>(const AttentionShape&) const = default;
};

/// Linear attention in chunks of C tokens: inside a chunk products of C x C, between chunks `heads` states of
/// key_dim x value_dim. Letters: a heads, k key heads, N key_dim, d value_dim.
struct ScanShape {
  std::int64_t batch = 0;
  std::int64_t length = 0;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t chunk = 0;
  bool delta = false;          ///< delta rule: the state forgets what its key held before
  bool channel_decay = false;  ///< a decay for each channel of the keys, not for each head
  bool gated = false;          ///< Mamba-2: the result is multiplied with a function of the gate
  auto operator<=>(const ScanShape&) const = default;
};

/// Memory-bound work: time goes by bytes read and written.
struct ElementwiseShape {
  std::int64_t elements = 0;
  Bytes traffic;             ///< read + written; lower bound, docs/references.md#elementwise-bytes
  std::int32_t kernels = 1;  ///< of equal parts, one after another
  auto operator<=>(const ElementwiseShape&) const = default;
};

/// `count` symmetric n x n matrices in fp32, factorised in one step of every `interval`; the shape is of the mean step.
struct FactorizationShape {
  std::int64_t n = 0;
  std::int64_t count = 1;
  std::int64_t interval = 1;
  bool eigenvectors = true;  ///< all of them and a root V f(D) V^T; false: one power iteration S Q and its QR
  auto operator<=>(const FactorizationShape&) const = default;
};

using OperatorShape = std::variant<GemmShape, AttentionShape, ElementwiseShape, ScanShape, FactorizationShape>;
/// An empty shape of the type that operators of this kind have; an optimizer's factorisations have their own.
OperatorShape shape_for(OperatorKind kind);

struct Operator {
  OperatorKind kind = OperatorKind::gemm;
  Pass pass = Pass::forward;
  Precision precision = Precision::bf16;
  std::string name;  ///< "qkv", "fc1", "rms_norm": what a trace and a report call it
  OperatorShape shape;
  bool operator==(const Operator&) const = default;
};

/// Pairs of query and key that are multiplied, per batch and head: q kv, halved when causal; causal with a window w:
/// q (w - w^2 / 2 kv), the mean of the context ranks that share `kv` keys. A window of a ring is in `attended`.
double attention_pairs(const AttentionShape& shape);

/// Share of the pairs of a ring's block that are in the window, the mean of the ranks; 1 outside of rings. All blocks of all C ranks
/// together have the s w - w^2/2 pairs of the sequence, s = C q.
double share_in_window(const AttentionShape& shape);

/// Floating-point operations executed. Gemm 2mnk; attention 4 b s_q s_kv a d forward (halved when causal) and, fused, 2.5
/// times that backward; unfused scores twice. Sparse attention as a window of its keys; an indexer (v_dim 0) half of a forward's
/// products, twice that backward. Elementwise work counts 0.   Source: docs/references.md#gemm-shapes
/// Scans, of each token forward: Mamba-2 2CNk + 2Cda + 4Nda; delta rule (2C (3N + 2d) + 6Nd + C^2) a. Backward twice that,
/// and once more what it computes again: scores and states.   Source: docs/references.md#linear-attention
/// Factorisations, of each matrix: 4/3 n^3 to a tridiagonal, 4/3 n^3 for its eigenvectors, 2 n^3 for those of the matrix, 2 n^3 for
/// the root; or 2 n^3 for a power iteration, 8/3 n^3 for Q and R.   Source: docs/references.md#preconditioners
Flops flops(const Operator& op);

/// Bytes that must be read and written at least once; of a scan, what the kernels of the published algorithm hand to each
/// other through memory: states, the C x C matrices, and what the delta rule makes of keys and values. Eigenvectors: half of the
/// products of the tridiagonal's columns read the rest of the matrix, 4/3 n^3 bytes; QR: each matrix six times.
Bytes compulsory_traffic(const Operator& op);

}  // namespace tracecast
