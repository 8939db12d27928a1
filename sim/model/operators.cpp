#include "sim/model/operators.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/integers.hpp"

namespace tracecast {
namespace {

bool is_backward(Pass pass) { return pass != Pass::forward; }

/// Pairs between the queries of one piece of a sequence and the keys of another, of c tokens each and `distance` pieces earlier, that
/// are less than w tokens apart.
double pairs_of_pieces(double c, int distance, double w) {
  if (distance < 0) return 0;
  if (distance == 0) return w < c ? w * c - w * w / 2 : c * c / 2;
  const double reach = std::clamp(w - distance * c, -c, c);
  return reach < 0 ? (c + reach) * (c + reach) / 2 : c * c - (c - reach) * (c - reach) / 2;
}

/// Forward: QK^T and PV. Backward: dV, dP, dQ, dK, and QK^T again when the kernel is fused.
double attention_flops(const Operator& op, const AttentionShape& shape) {
  const double qk = static_cast<double>(shape.qk_dim);
  const double v = static_cast<double>(shape.v_dim);
  double width = qk + v;
  const bool fused = op.kind == OperatorKind::attention || op.kind == OperatorKind::sparse_attention;
  if (is_backward(op.pass)) width = (fused ? 3 * qk : 2 * qk) + 2 * v;
  return 2 * attention_pairs(shape) * static_cast<double>(shape.batch * shape.heads) * width;
}

/// Forward: queries, keys, and fp32 scores that are written and read by the choice; backward the same of the chosen pairs.
Bytes indexer_traffic(const Operator& op, const AttentionShape& shape) {
  const std::int64_t inputs = shape.q_len * shape.heads * shape.qk_dim + shape.kv_len * shape.qk_dim;
  const auto scores = static_cast<std::int64_t>(8 * attention_pairs(shape));
  return Bytes{(is_backward(op.pass) ? 2 : 1) * element_size(op.precision) * inputs + scores} * shape.batch;
}

double scan_flops(const Operator& op, const ScanShape& shape) {
  const double chunk = static_cast<double>(shape.chunk);
  const double n = static_cast<double>(shape.key_dim);
  const double d = static_cast<double>(shape.value_dim);
  const double heads = static_cast<double>(shape.heads);
  const double scores = 2 * chunk * n * static_cast<double>(shape.key_heads);
  // Mamba-2: C B^T; times x; states; states times C. Delta rule: keys with keys, W, U, queries with keys, times values;
  // W times state, the new state, queries times state; the triangular inverse.
  const double forward = shape.delta ? heads * (2 * chunk * (3 * n + 2 * d) + 6 * n * d + chunk * chunk)
                                     : scores + heads * (2 * chunk * d + 4 * n * d);
  const double again = shape.delta ? heads * (2 * chunk * (n + d) + 4 * n * d) : scores + heads * 2 * n * d;
  return static_cast<double>(shape.batch * shape.length) * (is_backward(op.pass) ? 2 * forward + again : forward);
}

double cube(std::int64_t n) { return static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n); }

double factorization_flops(const FactorizationShape& shape) {
  const double each = (shape.eigenvectors ? 20.0 / 3 : 14.0 / 3) * cube(shape.n);
  return each * static_cast<double>(shape.count) / static_cast<double>(shape.interval);
}

Bytes factorization_traffic(const FactorizationShape& shape) {
  const double each = shape.eigenvectors ? 4.0 / 3 * cube(shape.n) : 24 * static_cast<double>(shape.n * shape.n);
  return Bytes{std::llround(each * static_cast<double>(shape.count) / static_cast<double>(shape.interval))};
}

/// Narrow formats are inputs only: results leave in 16 bit.
std::int64_t result_size(Precision precision) { return std::max<std::int64_t>(element_size(precision), 2); }

Bytes gemm_traffic(Precision precision, const GemmShape& shape) {
  const std::int64_t inputs = element_size(precision) * (shape.m * shape.k + shape.k * shape.n);
  // An fp32 accumulator is read and written.
  const std::int64_t result = shape.m * shape.n * (shape.accumulate_fp32 ? 8 : result_size(precision));
  return Bytes{inputs + result} * shape.batch;
}

/// Forward reads Q, K, V and writes O and the fp32 log-sum-exp; backward reads these and dO, and writes dQ, dK, dV.
Bytes fused_attention_traffic(const Operator& op, const AttentionShape& shape) {
  const std::int64_t query = shape.q_len * shape.heads * shape.qk_dim;
  const std::int64_t key_value = shape.kv_len * shape.kv_heads * (shape.qk_dim + shape.v_dim);
  const std::int64_t out = shape.q_len * shape.heads * shape.v_dim;
  const std::int64_t log_sum_exp = 4 * shape.q_len * shape.heads;
  const std::int64_t elements = is_backward(op.pass) ? 2 * (query + key_value) + 2 * out : query + key_value + out;
  return Bytes{element_size(op.precision) * elements + log_sum_exp} * shape.batch;
}

/// Unfused: the [a, s, s] score matrices pass through memory, one per product.
Bytes scores_traffic(const Operator& op, const AttentionShape& shape) {
  const std::int64_t matrix = shape.q_len * shape.kv_len * shape.heads;
  const std::int64_t query = shape.q_len * shape.heads * shape.qk_dim;
  const std::int64_t key_value = shape.kv_len * shape.kv_heads * (shape.qk_dim + shape.v_dim);
  const std::int64_t out = shape.q_len * shape.heads * shape.v_dim;
  // Forward: Q K -> S; P V -> O. Backward: P dO -> dV; dO V -> dP; dS K -> dQ; dS Q -> dK.
  const std::int64_t forward = 2 * matrix + query + key_value + out;
  const std::int64_t backward = 4 * matrix + 2 * (query + key_value + out);
  return Bytes{element_size(op.precision) * (is_backward(op.pass) ? backward : forward)} * shape.batch;
}

/// Bytes that the kernels of a scan move for each token, and for each chunk of tokens.
struct ScanBytes {
  std::int64_t token;
  std::int64_t chunk;
};

/// Forward: k four times, q, W twice; v, U twice, new values twice, o; both C x C matrices, fp32 and 16 bit; decays. Backward three
/// times that: the states are made again, and every tensor is read with its gradient.
ScanBytes delta_bytes(const ScanShape& shape, std::int64_t e, bool backward) {
  const std::int64_t keys = shape.heads * shape.key_dim;
  const std::int64_t values = shape.heads * shape.value_dim;
  const std::int64_t decays = shape.channel_decay ? keys * (e + 20) : 12 * shape.heads;
  const std::int64_t token = e * (7 * keys + 6 * values) + 12 * shape.chunk * shape.heads + decays;
  const int passes = backward ? 3 : 1;
  return {passes * token, passes * 2 * e * values * shape.key_dim};
}

/// Mamba-2. Forward: x twice and the result, with a gate also that and the result before it; keys and queries twice each; C x C in
/// fp32; the steps; states written and read in fp32, and once more in 16 bit after they are summed up. Backward: the sums of the
/// kernels in docs/references.md#linear-attention, without a gate all but those of its gradient.
ScanBytes mamba_bytes(const ScanShape& shape, std::int64_t e, bool backward) {
  const std::int64_t keys = shape.key_heads * shape.key_dim;
  const std::int64_t values = shape.heads * shape.value_dim;
  const std::int64_t state = values * shape.key_dim;
  const std::int64_t squares = shape.chunk * shape.key_heads;
  if (backward)
    return {e * ((shape.gated ? 69 : 45) * values / 4 + 19 * keys) + 24 * squares + 72 * shape.heads, 34 * state};
  return {e * ((shape.gated ? 5 : 3) * values + 4 * keys) + 8 * squares + 24 * shape.heads, 12 * state};
}

Bytes scan_traffic(const Operator& op, const ScanShape& shape) {
  const std::int64_t e = element_size(op.precision);
  const bool backward = is_backward(op.pass);
  const ScanBytes each = shape.delta ? delta_bytes(shape, e, backward) : mamba_bytes(shape, e, backward);
  const std::int64_t chunks = ceil_div(shape.length, shape.chunk);
  return Bytes{shape.batch * (shape.length * each.token + chunks * each.chunk)};
}

}  // namespace

OperatorShape shape_for(OperatorKind kind) {
  switch (kind) {
    case OperatorKind::gemm:
    case OperatorKind::grouped_gemm:
    case OperatorKind::scores:
      return GemmShape{};
    case OperatorKind::attention:
    case OperatorKind::indexer:
    case OperatorKind::sparse_attention:
      return AttentionShape{};
    case OperatorKind::scan:
      return ScanShape{};
    default:
      return ElementwiseShape{};
  }
}

std::int64_t element_size(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return 4;
    case Precision::fp16:
    case Precision::bf16:
      return 2;
    case Precision::fp8:
    case Precision::fp8_block:
    case Precision::mxfp8:
    case Precision::nvfp4:
      return 1;
  }
  return 0;
}

bool is_narrow(Precision precision) { return element_size(precision) == 1; }

double quantised_size(Precision precision) {
  switch (precision) {
    case Precision::fp8_block:
      return 1 + 4.0 / 128;
    case Precision::mxfp8:
      return 1 + 1.0 / 32;
    case Precision::nvfp4:
      return 0.5 + 1.0 / 16;
    default:
      return static_cast<double>(element_size(precision));
  }
}

double attention_pairs(const AttentionShape& shape) {
  const double queries = static_cast<double>(shape.q_len), keys = static_cast<double>(shape.kv_len);
  const bool bounded = shape.window > 0 && shape.ring_ranks == 1;
  const double window = bounded ? std::min(static_cast<double>(shape.window), keys) : keys;
  if (!shape.causal) return shape.attended * queries * window;
  return shape.attended * queries * (window - window * window / (2 * keys));  // the first `window` queries see fewer
}

double share_in_window(const AttentionShape& shape) {
  const int ranks = shape.ring_ranks;
  if (ranks == 1 || shape.window == 0 || shape.window >= ranks * shape.q_len) return 1;
  double pairs = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int from = (rank - shape.ring_block + ranks) % ranks;
    for (const int queries : {rank, 2 * ranks - 1 - rank})
      for (const int keys : {from, 2 * ranks - 1 - from})
        pairs +=
            pairs_of_pieces(static_cast<double>(shape.q_len) / 2, queries - keys, static_cast<double>(shape.window));
  }
  AttentionShape whole = shape;
  whole.attended = 1;
  return pairs / (ranks * attention_pairs(whole));
}

Flops flops(const Operator& op) {
  if (const auto* gemm = std::get_if<GemmShape>(&op.shape)) {
    return {2.0 * static_cast<double>(gemm->m) * static_cast<double>(gemm->n) * static_cast<double>(gemm->k) *
            static_cast<double>(gemm->batch)};
  }
  if (const auto* attention = std::get_if<AttentionShape>(&op.shape)) return {attention_flops(op, *attention)};
  if (const auto* scan = std::get_if<ScanShape>(&op.shape)) return {scan_flops(op, *scan)};
  if (const auto* each = std::get_if<FactorizationShape>(&op.shape)) return {factorization_flops(*each)};
  return {};
}

Bytes compulsory_traffic(const Operator& op) {
  if (const auto* gemm = std::get_if<GemmShape>(&op.shape)) return gemm_traffic(op.precision, *gemm);
  if (const auto* attention = std::get_if<AttentionShape>(&op.shape)) {
    if (op.kind == OperatorKind::indexer) return indexer_traffic(op, *attention);
    return op.kind == OperatorKind::scores ? scores_traffic(op, *attention) : fused_attention_traffic(op, *attention);
  }
  if (const auto* scan = std::get_if<ScanShape>(&op.shape)) return scan_traffic(op, *scan);
  if (const auto* each = std::get_if<FactorizationShape>(&op.shape)) return factorization_traffic(*each);
  return std::get<ElementwiseShape>(op.shape).traffic;
}

}  // namespace tracecast
