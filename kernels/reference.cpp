#include "kernels/reference.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tracecast::reference {
namespace {

double at(const Doubles& values, std::int64_t index) { return values[static_cast<std::size_t>(index)]; }
double& at(Doubles& values, std::int64_t index) { return values[static_cast<std::size_t>(index)]; }
Doubles zeros(std::int64_t count) { return Doubles(static_cast<std::size_t>(count), 0.0); }

/// One head of one sample: visible keys and vector offsets.
struct Head {
  const AttentionShape& s;
  std::int64_t sample;
  std::int64_t head;

  std::int64_t shared() const { return head / (s.heads / s.kv_heads); }
  std::int64_t query(std::int64_t i) const { return ((sample * s.q_len + i) * s.heads + head) * s.qk_dim; }
  std::int64_t key(std::int64_t j) const { return ((sample * s.kv_len + j) * s.kv_heads + shared()) * s.qk_dim; }
  std::int64_t value(std::int64_t j) const { return ((sample * s.kv_len + j) * s.kv_heads + shared()) * s.v_dim; }
  std::int64_t out(std::int64_t i) const { return ((sample * s.q_len + i) * s.heads + head) * s.v_dim; }
  std::int64_t row(std::int64_t i) const { return (sample * s.heads + head) * s.q_len + i; }
  bool sees(std::int64_t i, std::int64_t j) const {
    const std::int64_t last = s.causal ? i + s.kv_len - s.q_len : s.kv_len - 1;
    return j <= last && (s.window == 0 || j > last - s.window);
  }
  double scale() const { return 1 / std::sqrt(static_cast<double>(s.qk_dim)); }

  Doubles scores(const Doubles& q, const Doubles& k, std::int64_t i) const {
    Doubles row(static_cast<std::size_t>(s.kv_len), -std::numeric_limits<double>::infinity());
    for (std::int64_t j = 0; j < s.kv_len; ++j) {
      if (!sees(i, j)) continue;
      double sum = 0;
      for (std::int64_t d = 0; d < s.qk_dim; ++d) sum += at(q, query(i) + d) * at(k, key(j) + d);
      at(row, j) = sum * scale();
    }
    return row;
  }
};

double log_sum_exp(const Doubles& row) {
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const double x : row) sum += std::exp(x - largest);
  return largest + std::log(sum);
}

template <class Work>
void each_head(const AttentionShape& shape, Work work) {
  for (std::int64_t sample = 0; sample < shape.batch; ++sample)
    for (std::int64_t head = 0; head < shape.heads; ++head) work(Head{shape, sample, head});
}

void add_row_gradient(const Head& head, std::int64_t i, const Doubles& q, const Doubles& k, const Doubles& v,
                      const Doubles& d_out, AttentionGradient& gradient) {
  const AttentionShape& s = head.s;
  Doubles shares = head.scores(q, k, i);
  const double total = log_sum_exp(shares);
  Doubles d_shares = zeros(s.kv_len);
  double along = 0;
  for (std::int64_t j = 0; j < s.kv_len; ++j) {
    at(shares, j) = std::exp(at(shares, j) - total);
    for (std::int64_t d = 0; d < s.v_dim; ++d) {
      at(d_shares, j) += at(d_out, head.out(i) + d) * at(v, head.value(j) + d);
      at(gradient.d_v, head.value(j) + d) += at(shares, j) * at(d_out, head.out(i) + d);
    }
    along += at(shares, j) * at(d_shares, j);
  }
  for (std::int64_t j = 0; j < s.kv_len; ++j) {
    const double d_score = at(shares, j) * (at(d_shares, j) - along) * head.scale();
    for (std::int64_t d = 0; d < s.qk_dim; ++d) {
      at(gradient.d_q, head.query(i) + d) += d_score * at(k, head.key(j) + d);
      at(gradient.d_k, head.key(j) + d) += d_score * at(q, head.query(i) + d);
    }
  }
}

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_inner(double x) { return std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x); }

}  // namespace

Doubles gemm(GemmLayout layout, const GemmShape& shape, const Doubles& a, const Doubles& b, const Doubles& c) {
  Doubles result = c.empty() ? zeros(shape.batch * shape.m * shape.n) : c;
  for (std::int64_t batch = 0; batch < shape.batch; ++batch)
    for (std::int64_t m = 0; m < shape.m; ++m)
      for (std::int64_t n = 0; n < shape.n; ++n) {
        double sum = 0;
        for (std::int64_t k = 0; k < shape.k; ++k) {
          const std::int64_t in_a = layout == GemmLayout::transposed_normal ? k * shape.m + m : m * shape.k + k;
          const std::int64_t in_b = layout == GemmLayout::normal_transposed ? n * shape.k + k : k * shape.n + n;
          sum += at(a, batch * shape.m * shape.k + in_a) * at(b, batch * shape.k * shape.n + in_b);
        }
        at(result, (batch * shape.m + m) * shape.n + n) += sum;
      }
  return result;
}

AttentionResult attention(const AttentionShape& shape, const Doubles& q, const Doubles& k, const Doubles& v) {
  const AttentionSizes sizes = sizes_of(shape);
  AttentionResult result{zeros(sizes.out), zeros(sizes.statistics)};
  each_head(shape, [&](const Head& head) {
    for (std::int64_t i = 0; i < shape.q_len; ++i) {
      const Doubles scores = head.scores(q, k, i);
      const double total = log_sum_exp(scores);
      at(result.log_sum_exp, head.row(i)) = total;
      for (std::int64_t j = 0; j < shape.kv_len; ++j)
        for (std::int64_t d = 0; d < shape.v_dim; ++d)
          at(result.out, head.out(i) + d) += std::exp(at(scores, j) - total) * at(v, head.value(j) + d);
    }
  });
  return result;
}

AttentionGradient attention_gradient(const AttentionShape& shape, const Doubles& q, const Doubles& k, const Doubles& v,
                                     const Doubles& d_out) {
  const AttentionSizes sizes = sizes_of(shape);
  AttentionGradient gradient{zeros(sizes.query), zeros(sizes.key), zeros(sizes.value)};
  each_head(shape, [&](const Head& head) {
    for (std::int64_t i = 0; i < shape.q_len; ++i) add_row_gradient(head, i, q, k, v, d_out, gradient);
  });
  return gradient;
}

NormResult norm(const Rows& shape, const NormSettings& settings, const Doubles& x, const Doubles& weight,
                const Doubles& bias) {
  NormResult result{zeros(shape.rows * shape.width), zeros(2 * shape.rows)};
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    double mean = 0;
    double square = 0;
    for (std::int64_t i = 0; settings.layer && i < shape.width; ++i) mean += at(x, r * shape.width + i);
    mean /= static_cast<double>(shape.width);
    for (std::int64_t i = 0; i < shape.width; ++i) square += std::pow(at(x, r * shape.width + i) - mean, 2);
    const double inverse = 1 / std::sqrt(square / static_cast<double>(shape.width) + settings.epsilon);
    for (std::int64_t i = 0; i < shape.width; ++i)
      at(result.y, r * shape.width + i) =
          (at(x, r * shape.width + i) - mean) * inverse * at(weight, i) + (settings.layer ? at(bias, i) : 0);
    at(result.statistics, 2 * r) = mean;
    at(result.statistics, 2 * r + 1) = inverse;
  }
  return result;
}

NormGradient norm_gradient(const Rows& shape, const NormSettings& settings, const Doubles& x, const Doubles& weight,
                           const Doubles& statistics, const Doubles& d_y) {
  NormGradient gradient{zeros(shape.rows * shape.width), zeros(shape.width), zeros(shape.width)};
  const auto width = static_cast<double>(shape.width);
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const double inverse = at(statistics, 2 * r + 1);
    const auto normal = [&](std::int64_t i) { return (at(x, r * shape.width + i) - at(statistics, 2 * r)) * inverse; };
    double along = 0;
    double across = 0;
    for (std::int64_t i = 0; i < shape.width; ++i) {
      const double d = at(d_y, r * shape.width + i);
      along += d * at(weight, i) * normal(i) / width;
      across += settings.layer ? d * at(weight, i) / width : 0;
      at(gradient.d_weight, i) += d * normal(i);
      at(gradient.d_bias, i) += d;
    }
    for (std::int64_t i = 0; i < shape.width; ++i)
      at(gradient.d_x, r * shape.width + i) =
          inverse * (at(d_y, r * shape.width + i) * at(weight, i) - across - normal(i) * along);
  }
  return gradient;
}

Doubles rope(const Rows& shape, std::int64_t heads, std::int64_t positions, bool backward, const Doubles& x) {
  Doubles y = zeros(shape.rows * shape.width);
  for (std::int64_t r = 0; r < shape.rows; ++r)
    for (std::int64_t i = 0; i < shape.width; i += 2) {
      const double turn = static_cast<double>(r / heads % positions) *
                          std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(shape.width));
      const double angle = backward ? -turn : turn;
      const double a = at(x, r * shape.width + i);
      const double b = at(x, r * shape.width + i + 1);
      at(y, r * shape.width + i) = a * std::cos(angle) - b * std::sin(angle);
      at(y, r * shape.width + i + 1) = a * std::sin(angle) + b * std::cos(angle);
    }
  return y;
}

Doubles swiglu(const Rows& shape, const Doubles& x) {
  Doubles y = zeros(shape.rows * shape.width);
  for (std::int64_t r = 0; r < shape.rows; ++r)
    for (std::int64_t i = 0; i < shape.width; ++i) {
      const double gate = at(x, r * 2 * shape.width + i);
      at(y, r * shape.width + i) = gate * logistic(gate) * at(x, r * 2 * shape.width + shape.width + i);
    }
  return y;
}

Doubles swiglu_gradient(const Rows& shape, const Doubles& x, const Doubles& d_y) {
  Doubles d_x = zeros(2 * shape.rows * shape.width);
  for (std::int64_t r = 0; r < shape.rows; ++r)
    for (std::int64_t i = 0; i < shape.width; ++i) {
      const std::int64_t gate = r * 2 * shape.width + i;
      const double g = at(x, gate);
      const double s = logistic(g);
      const double d = at(d_y, r * shape.width + i);
      at(d_x, gate) = d * at(x, gate + shape.width) * s * (1 + g * (1 - s));
      at(d_x, gate + shape.width) = d * g * s;
    }
  return d_x;
}

Doubles gelu(const Doubles& x) {
  Doubles y = x;
  for (double& v : y) v = 0.5 * v * (1 + std::tanh(gelu_inner(v)));
  return y;
}

Doubles gelu_gradient(const Doubles& x, const Doubles& d_y) {
  Doubles d_x = d_y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double t = std::tanh(gelu_inner(x[i]));
    const double inner_slope = std::sqrt(2 / std::acos(-1.0)) * (1 + 3 * 0.044715 * x[i] * x[i]);
    d_x[i] *= 0.5 * (1 + t) + 0.5 * x[i] * (1 - t * t) * inner_slope;
  }
  return d_x;
}

Doubles softmax(const Rows& shape, double scale, const Doubles& x) {
  Doubles y = zeros(shape.rows * shape.width);
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    Doubles row(x.begin() + r * shape.width, x.begin() + (r + 1) * shape.width);
    for (double& v : row) v *= scale;
    const double total = log_sum_exp(row);
    for (std::int64_t i = 0; i < shape.width; ++i) at(y, r * shape.width + i) = std::exp(at(row, i) - total);
  }
  return y;
}

Doubles softmax_gradient(const Rows& shape, double scale, const Doubles& y, const Doubles& d_y) {
  Doubles d_x = zeros(shape.rows * shape.width);
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    double sum = 0;
    for (std::int64_t i = r * shape.width; i < (r + 1) * shape.width; ++i) sum += at(y, i) * at(d_y, i);
    for (std::int64_t i = r * shape.width; i < (r + 1) * shape.width; ++i)
      at(d_x, i) = scale * at(y, i) * (at(d_y, i) - sum);
  }
  return d_x;
}

Doubles cross_entropy(const Rows& shape, std::int64_t first, const Doubles& logits,
                      const std::vector<std::int32_t>& targets) {
  Doubles statistics = zeros(3 * shape.rows);
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const auto begin = logits.begin() + r * shape.width;
    const double largest = *std::max_element(begin, begin + shape.width);
    double sum = 0;
    for (auto x = begin; x != begin + shape.width; ++x) sum += std::exp(*x - largest);
    const std::int64_t target = targets[static_cast<std::size_t>(r)] - first;
    at(statistics, 3 * r) = largest;
    at(statistics, 3 * r + 1) = sum;
    at(statistics, 3 * r + 2) = target >= 0 && target < shape.width ? *(begin + target) : 0;
  }
  return statistics;
}

Doubles cross_entropy_gradient(const Rows& shape, std::int64_t first, double scale, const Doubles& logits,
                               const std::vector<std::int32_t>& targets, const Doubles& statistics) {
  Doubles d_logits = zeros(shape.rows * shape.width);
  for (std::int64_t r = 0; r < shape.rows; ++r)
    for (std::int64_t i = 0; i < shape.width; ++i) {
      const double share =
          std::exp(at(logits, r * shape.width + i) - at(statistics, 3 * r)) / at(statistics, 3 * r + 1);
      const bool hit = first + i == targets[static_cast<std::size_t>(r)];
      at(d_logits, r * shape.width + i) = (share - (hit ? 1 : 0)) * scale;
    }
  return d_logits;
}

}  // namespace tracecast::reference
