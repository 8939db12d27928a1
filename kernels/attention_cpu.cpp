#include <algorithm>
#include <cmath>
#include <vector>

#include <cblas.h>

#include "kernels/cpu.hpp"

namespace tracecast::cpu {
namespace {

/// Query rows whose scores are computed together: 64 rows by a few thousand keys fit a core's cache.
constexpr std::int64_t kTile = 64;

/// One head of one sequence, with its memory strides.
struct Head {
  const AttentionShape& shape;
  std::int64_t batch;
  std::int64_t head;

  std::int64_t kv_head() const { return head / (shape.heads / shape.kv_heads); }
  std::int64_t query_stride() const { return shape.heads * shape.qk_dim; }
  std::int64_t key_stride() const { return shape.kv_heads * shape.qk_dim; }
  std::int64_t value_stride() const { return shape.kv_heads * shape.v_dim; }
  std::int64_t out_stride() const { return shape.heads * shape.v_dim; }
  std::int64_t query(std::int64_t row) const {
    return (batch * shape.q_len + row) * query_stride() + head * shape.qk_dim;
  }
  std::int64_t key() const { return batch * shape.kv_len * key_stride() + kv_head() * shape.qk_dim; }
  std::int64_t value() const { return batch * shape.kv_len * value_stride() + kv_head() * shape.v_dim; }
  std::int64_t out(std::int64_t row) const { return (batch * shape.q_len + row) * out_stride() + head * shape.v_dim; }
  std::int64_t statistics() const { return (batch * shape.heads + head) * shape.q_len; }

  /// Keys [first, last) that query `row` sees.
  std::int64_t last_key(std::int64_t row) const {
    return shape.causal ? std::min(shape.kv_len, row + shape.kv_len - shape.q_len + 1) : shape.kv_len;
  }
  std::int64_t first_key(std::int64_t row) const {
    return shape.window > 0 ? std::max<std::int64_t>(0, last_key(row) - shape.window) : 0;
  }
};

/// Row-major C = alpha op(A) op(B) + beta C on parts of larger matrices.
void multiply(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
              const float* a, std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c,
              std::int64_t ldc) {
  cblas_sgemm(CblasRowMajor, ta, tb, static_cast<int>(m), static_cast<int>(n), static_cast<int>(k), alpha, a,
              static_cast<int>(lda), b, static_cast<int>(ldb), beta, c, static_cast<int>(ldc));
}

/// A tile of queries and the keys visible to any of them.
struct Tile {
  std::int64_t row;
  std::int64_t rows;
  std::int64_t first;
  std::int64_t keys;
};

Tile tile_at(const Head& head, std::int64_t row) {
  const std::int64_t rows = std::min(kTile, head.shape.q_len - row);
  const std::int64_t first = head.first_key(row);
  return {row, rows, first, head.last_key(row + rows - 1) - first};
}

float score_scale(const AttentionShape& shape) { return 1.0F / std::sqrt(static_cast<float>(shape.qk_dim)); }

/// scores [rows, keys] = scale Q K^T.
void make_scores(const Head& head, const Tile& tile, const float* q, const float* k, float* scores) {
  multiply(CblasNoTrans, CblasTrans, tile.rows, tile.keys, head.shape.qk_dim, score_scale(head.shape),
           q + head.query(tile.row), head.query_stride(), k + head.key() + tile.first * head.key_stride(),
           head.key_stride(), 0.0F, scores, tile.keys);
}

/// Writes exp(score - shift) for the keys that the row sees, 0 for the others; returns the sum.
double exponentials(float* row, std::int64_t keys, std::int64_t from, std::int64_t to, float shift) {
  std::fill(row, row + from, 0.0F);
  double sum = 0;
  for (std::int64_t j = from; j < to; ++j) {
    row[j] = std::exp(row[j] - shift);
    sum += static_cast<double>(row[j]);
  }
  std::fill(row + to, row + keys, 0.0F);
  return sum;
}

/// Turns scores into probabilities and writes the log-sum-exp of each row.
void softmax_tile(const Head& head, const Tile& tile, float* scores, float* log_sum_exp) {
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    float* row = scores + i * tile.keys;
    const std::int64_t from = head.first_key(tile.row + i) - tile.first;
    const std::int64_t to = head.last_key(tile.row + i) - tile.first;
    const float maximum = *std::max_element(row + from, row + to);
    const double sum = exponentials(row, tile.keys, from, to, maximum);
    const auto inverse = static_cast<float>(1 / sum);
    for (std::int64_t j = from; j < to; ++j) row[j] *= inverse;
    log_sum_exp[head.statistics() + tile.row + i] = maximum + static_cast<float>(std::log(sum));
  }
}

/// Turns scores into probabilities with the log-sum-exp of the forward.
void probabilities_again(const Head& head, const Tile& tile, const float* log_sum_exp, float* scores) {
  for (std::int64_t i = 0; i < tile.rows; ++i)
    exponentials(scores + i * tile.keys, tile.keys, head.first_key(tile.row + i) - tile.first,
                 head.last_key(tile.row + i) - tile.first, log_sum_exp[head.statistics() + tile.row + i]);
}

/// d_scores = p (dP - sum(dO O)), scaled for the derivative by Q and K.
void score_gradients(const Head& head, const Tile& tile, const float* p, const float* out, const float* d_out,
                     float* d_p) {
  const float scale = score_scale(head.shape);
  for (std::int64_t i = 0; i < tile.rows; ++i) {
    const float* o = out + head.out(tile.row + i);
    const float* d_o = d_out + head.out(tile.row + i);
    float sum = 0;
    for (std::int64_t d = 0; d < head.shape.v_dim; ++d) sum += o[d] * d_o[d];
    const float* p_row = p + i * tile.keys;
    float* row = d_p + i * tile.keys;
    for (std::int64_t j = 0; j < tile.keys; ++j) row[j] = p_row[j] * (row[j] - sum) * scale;
  }
}

template <class Function>
void for_each_head(const AttentionShape& shape, Function function) {
  for (std::int64_t batch = 0; batch < shape.batch; ++batch)
    for (std::int64_t head = 0; head < shape.heads; ++head) function(Head{shape, batch, head});
}

}  // namespace

void attention_forward(const AttentionShape& shape, const float* q, const float* k, const float* v, float* out,
                       float* log_sum_exp) {
  std::vector<float> scores(static_cast<std::size_t>(kTile * shape.kv_len));
  for_each_head(shape, [&](const Head& head) {
    for (std::int64_t row = 0; row < shape.q_len; row += kTile) {
      const Tile tile = tile_at(head, row);
      make_scores(head, tile, q, k, scores.data());
      softmax_tile(head, tile, scores.data(), log_sum_exp);
      multiply(CblasNoTrans, CblasNoTrans, tile.rows, shape.v_dim, tile.keys, 1.0F, scores.data(), tile.keys,
               v + head.value() + tile.first * head.value_stride(), head.value_stride(), 0.0F, out + head.out(row),
               head.out_stride());
    }
  });
}

void attention_backward(const AttentionShape& shape, const float* q, const float* k, const float* v, const float* out,
                        const float* log_sum_exp, const float* d_out, float* d_q, float* d_k, float* d_v) {
  std::fill(d_k, d_k + shape.batch * shape.kv_len * shape.kv_heads * shape.qk_dim, 0.0F);
  std::fill(d_v, d_v + shape.batch * shape.kv_len * shape.kv_heads * shape.v_dim, 0.0F);
  std::vector<float> p(static_cast<std::size_t>(kTile * shape.kv_len));
  std::vector<float> d_p(p.size());
  for_each_head(shape, [&](const Head& head) {
    for (std::int64_t row = 0; row < shape.q_len; row += kTile) {
      const Tile tile = tile_at(head, row);
      const std::int64_t key = head.key() + tile.first * head.key_stride();
      const std::int64_t value = head.value() + tile.first * head.value_stride();
      make_scores(head, tile, q, k, p.data());
      probabilities_again(head, tile, log_sum_exp, p.data());
      multiply(CblasTrans, CblasNoTrans, tile.keys, shape.v_dim, tile.rows, 1.0F, p.data(), tile.keys,
               d_out + head.out(row), head.out_stride(), 1.0F, d_v + value, head.value_stride());
      multiply(CblasNoTrans, CblasTrans, tile.rows, tile.keys, shape.v_dim, 1.0F, d_out + head.out(row),
               head.out_stride(), v + value, head.value_stride(), 0.0F, d_p.data(), tile.keys);
      score_gradients(head, tile, p.data(), out, d_out, d_p.data());
      multiply(CblasNoTrans, CblasNoTrans, tile.rows, shape.qk_dim, tile.keys, 1.0F, d_p.data(), tile.keys, k + key,
               head.key_stride(), 0.0F, d_q + head.query(row), head.query_stride());
      multiply(CblasTrans, CblasNoTrans, tile.keys, shape.qk_dim, tile.rows, 1.0F, d_p.data(), tile.keys,
               q + head.query(row), head.query_stride(), 1.0F, d_k + key, head.key_stride());
    }
  });
}

}  // namespace tracecast::cpu
