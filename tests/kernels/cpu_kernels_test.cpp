// Every CPU operator against a reference in double precision, on fresh random data. Outputs are poisoned with NaN first,
// so that an element that is not written is seen; guards behind every output show what is written beside it.

#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include <catch2/catch.hpp>

#include "kernels/bf16.hpp"
#include "kernels/cpu.hpp"
#include "sim/base/random.hpp"

using namespace tracecast;
using namespace tracecast::cpu;

namespace {

using Vector = std::vector<float>;
using Doubles = std::vector<double>;

constexpr std::int64_t kGuard = 16;
constexpr float kGuardValue = 12345.0F;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

class Data {
 public:
  explicit Data(std::uint64_t seed) : random_(seed, 0, 0) {}
  /// Values in [-1, 1) that are never zero.
  Vector values(std::int64_t count) {
    Vector v(at(count));
    for (float& x : v) {
      x = static_cast<float>(2 * random_.uniform() - 1);
      if (x == 0) x = 0.5F;
    }
    return v;
  }
  std::vector<std::int32_t> ids(std::int64_t count, std::int64_t below) {
    std::vector<std::int32_t> v(at(count));
    for (std::int32_t& x : v) x = static_cast<std::int32_t>(random_.below(static_cast<std::uint64_t>(below)));
    return v;
  }

 private:
  RandomStream random_;
};

/// An output full of NaN with a guard behind it.
struct Output {
  explicit Output(std::int64_t count) : values(at(count + kGuard), std::numeric_limits<float>::quiet_NaN()) {
    std::fill(values.end() - kGuard, values.end(), kGuardValue);
  }
  float* data() { return values.data(); }
  std::int64_t count() const { return static_cast<std::int64_t>(values.size()) - kGuard; }
  Vector values;
};

/// Largest |value - expected| / max |expected|; infinite for a NaN or a hurt guard.
double error_of(const Output& output, const Doubles& expected) {
  REQUIRE(output.count() == static_cast<std::int64_t>(expected.size()));
  for (std::size_t i = expected.size(); i < output.values.size(); ++i)
    if (output.values[i] != kGuardValue) return std::numeric_limits<double>::infinity();
  double largest = 1e-30;
  double worst = 0;
  for (double e : expected) largest = std::max(largest, std::abs(e));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(output.values[i])) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(static_cast<double>(output.values[i]) - expected[i]));
  }
  return worst / largest;
}

constexpr double kTolerance = 2e-5;  // fp32 sums of some thousand products

double element(const Vector& v, std::int64_t index) { return static_cast<double>(v[at(index)]); }

/// d loss / d x by central differences of a double-precision loss.
Doubles numeric_gradient(const Doubles& x, const std::function<double(const Doubles&)>& loss) {
  Doubles gradient;
  Doubles moved = x;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double h = 1e-5;
    moved[i] = x[i] + h;
    const double up = loss(moved);
    moved[i] = x[i] - h;
    gradient.push_back((up - loss(moved)) / (2 * h));
    moved[i] = x[i];
  }
  return gradient;
}

Doubles doubles(const Vector& v) { return {v.begin(), v.end()}; }

double dot(const Doubles& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * static_cast<double>(b[i]);
  return sum;
}

}  // namespace

TEST_CASE("cpu kernels: gemm in the three layouts", "[kernels]") {
  const auto seed = GENERATE(1U, 2U);
  const auto layout = GENERATE(GemmLayout::normal_transposed, GemmLayout::normal_normal, GemmLayout::transposed_normal);
  const bool accumulate = GENERATE(false, true);
  Data data(seed);
  const GemmShape shape{37, 53, 129, 2, accumulate};
  const Vector a = data.values(shape.batch * shape.m * shape.k);
  const Vector b = data.values(shape.batch * shape.k * shape.n);
  const Vector before = data.values(shape.batch * shape.m * shape.n);
  Output c(shape.batch * shape.m * shape.n);
  if (accumulate) std::copy(before.begin(), before.end(), c.values.begin());
  gemm(layout, shape, a.data(), b.data(), c.data());
  Doubles expected;
  for (std::int64_t i = 0; i < shape.batch; ++i)
    for (std::int64_t m = 0; m < shape.m; ++m)
      for (std::int64_t n = 0; n < shape.n; ++n) {
        const std::int64_t index = (i * shape.m + m) * shape.n + n;
        double sum = accumulate ? element(before, index) : 0;
        for (std::int64_t k = 0; k < shape.k; ++k) {
          const std::int64_t ia = layout == GemmLayout::transposed_normal ? k * shape.m + m : m * shape.k + k;
          const std::int64_t ib = layout == GemmLayout::normal_transposed ? n * shape.k + k : k * shape.n + n;
          sum += element(a, i * shape.m * shape.k + ia) * element(b, i * shape.k * shape.n + ib);
        }
        expected.push_back(sum);
      }
  CHECK(error_of(c, expected) < kTolerance);
}

namespace {

/// Attention as its definition says, in double.
struct AttentionReference {
  AttentionShape s;
  bool sees(std::int64_t i, std::int64_t j) const {
    const std::int64_t last = s.causal ? i + s.kv_len - s.q_len : s.kv_len - 1;
    return j <= last && (s.window == 0 || j > last - s.window);
  }
  Doubles operator()(const Doubles& q, const Doubles& k, const Doubles& v, Doubles* log_sum_exp = nullptr) const {
    Doubles out(at(s.batch * s.q_len * s.heads * s.v_dim), 0.0);
    if (log_sum_exp != nullptr) log_sum_exp->assign(at(s.batch * s.heads * s.q_len), 0.0);
    for (std::int64_t b = 0; b < s.batch; ++b)
      for (std::int64_t h = 0; h < s.heads; ++h)
        for (std::int64_t i = 0; i < s.q_len; ++i) {
          const std::int64_t g = h / (s.heads / s.kv_heads);
          Doubles p(at(s.kv_len), 0.0);
          double sum = 0;
          for (std::int64_t j = 0; j < s.kv_len; ++j) {
            if (!sees(i, j)) continue;
            double score = 0;
            for (std::int64_t d = 0; d < s.qk_dim; ++d)
              score += q[at(((b * s.q_len + i) * s.heads + h) * s.qk_dim + d)] *
                       k[at(((b * s.kv_len + j) * s.kv_heads + g) * s.qk_dim + d)];
            p[at(j)] = std::exp(score / std::sqrt(static_cast<double>(s.qk_dim)));
            sum += p[at(j)];
          }
          if (log_sum_exp != nullptr) (*log_sum_exp)[at((b * s.heads + h) * s.q_len + i)] = std::log(sum);
          for (std::int64_t j = 0; j < s.kv_len; ++j)
            for (std::int64_t d = 0; d < s.v_dim; ++d)
              out[at(((b * s.q_len + i) * s.heads + h) * s.v_dim + d)] +=
                  p[at(j)] / sum * v[at(((b * s.kv_len + j) * s.kv_heads + g) * s.v_dim + d)];
        }
    return out;
  }
};

const std::vector<AttentionShape>& attention_cases() {
  static const std::vector<AttentionShape> kCases{
      {2, 70, 70, 4, 2, 8, 8, true, 0},    // grouped queries, a tile and a piece
      {1, 66, 80, 2, 2, 8, 6, true, 0},    // more keys than queries, other value width
      {1, 9, 13, 2, 1, 4, 4, false, 0},    // all keys
      {1, 90, 90, 1, 1, 4, 4, true, 20}};  // a sliding window
  return kCases;
}

}  // namespace

TEST_CASE("cpu kernels: attention forward", "[kernels]") {
  const AttentionShape shape = attention_cases()[at(GENERATE(0, 1, 2, 3))];
  Data data(3);
  const Vector q = data.values(shape.batch * shape.q_len * shape.heads * shape.qk_dim);
  const Vector k = data.values(shape.batch * shape.kv_len * shape.kv_heads * shape.qk_dim);
  const Vector v = data.values(shape.batch * shape.kv_len * shape.kv_heads * shape.v_dim);
  Doubles log_sum_exp;
  const Doubles expected = AttentionReference{shape}(doubles(q), doubles(k), doubles(v), &log_sum_exp);
  Output out(static_cast<std::int64_t>(expected.size()));
  Output statistics(static_cast<std::int64_t>(log_sum_exp.size()));
  attention_forward(shape, q.data(), k.data(), v.data(), out.data(), statistics.data());
  CHECK(error_of(out, expected) < kTolerance);
  CHECK(error_of(statistics, log_sum_exp) < kTolerance);
}

TEST_CASE("cpu kernels: attention backward is the gradient of the forward", "[kernels]") {
  AttentionShape shape = attention_cases()[at(GENERATE(0, 1, 2, 3))];
  shape.batch = 1;  // differences cost two forwards an element
  shape.q_len = std::min<std::int64_t>(shape.q_len, 12) + (shape.q_len > 64 ? 56 : 0);
  shape.kv_len = std::max(shape.kv_len, shape.q_len);
  shape.qk_dim = 2;
  shape.v_dim = 2;
  Data data(4);
  const Vector q = data.values(shape.q_len * shape.heads * shape.qk_dim);
  const Vector k = data.values(shape.kv_len * shape.kv_heads * shape.qk_dim);
  const Vector v = data.values(shape.kv_len * shape.kv_heads * shape.v_dim);
  const AttentionReference reference{shape};
  Doubles log_sum_exp;
  const Doubles out = reference(doubles(q), doubles(k), doubles(v), &log_sum_exp);
  const Vector d_out = data.values(static_cast<std::int64_t>(out.size()));
  const Vector out32(out.begin(), out.end());
  const Vector lse32(log_sum_exp.begin(), log_sum_exp.end());
  Output d_q(static_cast<std::int64_t>(q.size()));
  Output d_k(static_cast<std::int64_t>(k.size()));
  Output d_v(static_cast<std::int64_t>(v.size()));
  attention_backward(shape, q.data(), k.data(), v.data(), out32.data(), lse32.data(), d_out.data(), d_q.data(),
                     d_k.data(), d_v.data());
  const Doubles dq = doubles(q);
  const Doubles dk = doubles(k);
  const Doubles dv = doubles(v);
  CHECK(error_of(d_q, numeric_gradient(dq, [&](const Doubles& x) { return dot(reference(x, dk, dv), d_out); })) < 1e-4);
  CHECK(error_of(d_k, numeric_gradient(dk, [&](const Doubles& x) { return dot(reference(dq, x, dv), d_out); })) < 1e-4);
  CHECK(error_of(d_v, numeric_gradient(dv, [&](const Doubles& x) { return dot(reference(dq, dk, x), d_out); })) < 1e-4);
}

namespace {

Doubles norm_reference(const Doubles& x, const Doubles& w, const Doubles& b, std::int64_t width, bool layer) {
  Doubles y(x.size());
  for (std::size_t row = 0; row < x.size(); row += at(width)) {
    double mean = 0;
    double squares = 0;
    for (std::size_t i = 0; i < at(width); ++i) mean += x[row + i] / static_cast<double>(width);
    if (!layer) mean = 0;
    for (std::size_t i = 0; i < at(width); ++i) squares += (x[row + i] - mean) * (x[row + i] - mean);
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(width) + 1e-5);
    for (std::size_t i = 0; i < at(width); ++i) y[row + i] = (x[row + i] - mean) * inverse * w[i] + b[i];
  }
  return y;
}

}  // namespace

TEST_CASE("cpu kernels: both norms, forward and backward", "[kernels]") {
  const bool layer = GENERATE(false, true);
  const std::int64_t rows = 5;
  const std::int64_t width = 37;
  Data data(5);
  const Vector x = data.values(rows * width);
  const Vector w = data.values(width);
  const Vector b = layer ? data.values(width) : Vector(at(width), 0.0F);
  const Vector d_y = data.values(rows * width);
  Output y(rows * width);
  Output statistics(layer ? 2 * rows : rows);
  Output d_x(rows * width);
  Output d_w(width);
  Output d_b(width);
  if (layer) {
    layer_norm_forward(rows, width, x.data(), w.data(), b.data(), y.data(), statistics.data());
    layer_norm_backward(rows, width, x.data(), w.data(), statistics.data(), d_y.data(), d_x.data(), d_w.data(),
                        d_b.data());
  } else {
    rms_norm_forward(rows, width, x.data(), w.data(), y.data(), statistics.data());
    rms_norm_backward(rows, width, x.data(), w.data(), statistics.data(), d_y.data(), d_x.data(), d_w.data());
  }
  const auto reference = [&](const Doubles& xs, const Doubles& ws, const Doubles& bs) {
    return norm_reference(xs, ws, bs, width, layer);
  };
  const Doubles dx = doubles(x);
  const Doubles dw = doubles(w);
  const Doubles db = doubles(b);
  CHECK(error_of(y, reference(dx, dw, db)) < kTolerance);
  CHECK(error_of(d_x, numeric_gradient(dx, [&](const Doubles& v) { return dot(reference(v, dw, db), d_y); })) < 1e-4);
  CHECK(error_of(d_w, numeric_gradient(dw, [&](const Doubles& v) { return dot(reference(dx, v, db), d_y); })) < 1e-4);
  if (layer)
    CHECK(error_of(d_b, numeric_gradient(db, [&](const Doubles& v) { return dot(reference(dx, dw, v), d_y); })) < 1e-4);
}

TEST_CASE("cpu kernels: rope rotates pairs by the position, and back", "[kernels]") {
  const std::int64_t heads = 3;
  const std::int64_t positions = 5;
  const std::int64_t rows = 2 * heads * positions;
  const std::int64_t width = 8;
  Data data(6);
  const Vector x = data.values(rows * width);
  Doubles expected(x.size());
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < width / 2; ++i) {
      const double angle = static_cast<double>(r / heads % positions) *
                           std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(width));
      const double a = element(x, r * width + 2 * i);
      const double b = element(x, r * width + 2 * i + 1);
      expected[at(r * width + 2 * i)] = a * std::cos(angle) - b * std::sin(angle);
      expected[at(r * width + 2 * i + 1)] = a * std::sin(angle) + b * std::cos(angle);
    }
  Output y(rows * width);
  rope(rows, width, heads, positions, false, x.data(), y.data());
  CHECK(error_of(y, expected) < kTolerance);
  Output back(rows * width);
  rope(rows, width, heads, positions, true, y.data(), back.data());
  CHECK(error_of(back, doubles(x)) < kTolerance);
}

TEST_CASE("cpu kernels: activations, forward and backward", "[kernels]") {
  const bool gated = GENERATE(false, true);
  const std::int64_t rows = 7;
  const std::int64_t width = 19;
  Data data(7);
  Vector x = data.values(rows * width * (gated ? 2 : 1));
  for (float& v : x) v *= 4;
  const Vector d_y = data.values(rows * width);
  const auto reference = [&](const Doubles& v) {
    Doubles y(at(rows * width));
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < width; ++i) {
        if (gated) {
          const double a = v[at(r * 2 * width + i)];
          y[at(r * width + i)] = a / (1 + std::exp(-a)) * v[at(r * 2 * width + width + i)];
        } else {
          const double a = v[at(r * width + i)];
          y[at(r * width + i)] = a / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (a + 0.044715 * a * a * a)));
        }
      }
    return y;
  };
  Output y(rows * width);
  Output d_x(static_cast<std::int64_t>(x.size()));
  gated ? swiglu_forward(rows, width, x.data(), y.data()) : gelu_forward(rows * width, x.data(), y.data());
  gated ? swiglu_backward(rows, width, x.data(), d_y.data(), d_x.data())
        : gelu_backward(rows * width, x.data(), d_y.data(), d_x.data());
  CHECK(error_of(y, reference(doubles(x))) < kTolerance);
  CHECK(error_of(d_x, numeric_gradient(doubles(x), [&](const Doubles& v) { return dot(reference(v), d_y); })) < 1e-4);
}

TEST_CASE("cpu kernels: residual addition, with and without dropout", "[kernels]") {
  const std::int64_t n = 1001;
  Data data(8);
  const Vector a = data.values(n);
  const Vector b = data.values(n);
  Vector mask(at(n));
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 == 0 ? 0.0F : 1.0F;
  Doubles sum;
  Doubles dropped;
  Doubles gradient;
  for (std::size_t i = 0; i < at(n); ++i) {
    sum.push_back(doubles(a)[i] + doubles(b)[i]);
    const double kept = mask[i] > 0 ? 1 / 0.75 : 0;
    dropped.push_back(doubles(b)[i] + doubles(a)[i] * kept);
    gradient.push_back(doubles(a)[i] * kept);
  }
  Output y(n);
  add(n, a.data(), b.data(), y.data());
  CHECK(error_of(y, sum) < kTolerance);
  Output z(n);
  dropout_add(n, 0.25F, a.data(), b.data(), mask.data(), z.data());
  CHECK(error_of(z, dropped) < kTolerance);
  Output d(n);
  dropout_backward(n, 0.25F, a.data(), mask.data(), d.data());
  CHECK(error_of(d, gradient) < kTolerance);
}

TEST_CASE("cpu kernels: softmax, forward and backward", "[kernels]") {
  const bool causal = GENERATE(false, true);
  const std::int64_t batch = 2;
  const std::int64_t rows = 6;
  const std::int64_t width = 9;
  Data data(9);
  const Vector x = data.values(batch * rows * width);
  const Vector d_y = data.values(batch * rows * width);
  const double scale = 0.7;
  const auto reference = [&](const Doubles& v) {
    Doubles y(v.size(), 0.0);
    for (std::int64_t r = 0; r < batch * rows; ++r) {
      const std::int64_t seen = causal ? width - rows + r % rows + 1 : width;
      double sum = 0;
      for (std::int64_t i = 0; i < seen; ++i) sum += std::exp(scale * v[at(r * width + i)]);
      for (std::int64_t i = 0; i < seen; ++i) y[at(r * width + i)] = std::exp(scale * v[at(r * width + i)]) / sum;
    }
    return y;
  };
  Output y(batch * rows * width);
  Output d_x(batch * rows * width);
  softmax_forward(batch, rows, width, 0.7F, causal, x.data(), y.data());
  softmax_backward(batch, rows, width, 0.7F, y.data(), d_y.data(), d_x.data());
  CHECK(error_of(y, reference(doubles(x))) < kTolerance);
  CHECK(error_of(d_x, numeric_gradient(doubles(x), [&](const Doubles& v) { return dot(reference(v), d_y); })) < 1e-4);
}

TEST_CASE("cpu kernels: the loss over a divided vocabulary is the loss over the whole", "[kernels]") {
  const std::int64_t rows = 6;
  const std::int64_t vocabulary = 40;
  const std::int64_t parts = 4;
  const std::int64_t width = vocabulary / parts;
  Data data(10);
  const Vector logits = data.values(rows * vocabulary);
  const std::vector<std::int32_t> targets = data.ids(rows, vocabulary);
  // Each part's statistics, reduced as the collectives do it: maximum, rescaled sum, sum of the target's logit.
  std::vector<Vector> shards(at(parts));
  std::vector<Output> statistics(at(parts), Output(3 * rows));
  for (std::int64_t p = 0; p < parts; ++p) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < width; ++i) shards[at(p)].push_back(logits[at(r * vocabulary + p * width + i)]);
    cross_entropy_forward(rows, width, p * width, shards[at(p)].data(), targets.data(), statistics[at(p)].data());
  }
  Vector reduced(at(3 * rows), 0.0F);
  for (std::int64_t r = 0; r < rows; ++r) {
    double maximum = -1e30;
    double sum = 0;
    double target = 0;
    for (const Output& s : statistics) maximum = std::max(maximum, element(s.values, 3 * r));
    for (const Output& s : statistics) {
      sum += element(s.values, 3 * r + 1) * std::exp(element(s.values, 3 * r) - maximum);
      target += element(s.values, 3 * r + 2);
    }
    double whole = 0;
    for (std::int64_t i = 0; i < vocabulary; ++i) whole += std::exp(element(logits, r * vocabulary + i));
    const double loss = std::log(sum) + maximum - target;
    CHECK(loss == Approx(std::log(whole) - element(logits, r * vocabulary + targets[at(r)])).epsilon(1e-5));
    reduced[at(3 * r)] = static_cast<float>(maximum);
    reduced[at(3 * r + 1)] = static_cast<float>(sum);
    reduced[at(3 * r + 2)] = static_cast<float>(target);
  }
  for (std::int64_t p = 0; p < parts; ++p) {
    Output gradient(rows * width);
    cross_entropy_backward(rows, width, p * width, 0.5F, shards[at(p)].data(), targets.data(), reduced.data(),
                           gradient.data());
    Doubles expected;
    for (std::int64_t r = 0; r < rows; ++r) {
      double whole = 0;
      for (std::int64_t i = 0; i < vocabulary; ++i) whole += std::exp(element(logits, r * vocabulary + i));
      for (std::int64_t i = 0; i < width; ++i) {
        const double probability = std::exp(element(logits, r * vocabulary + p * width + i)) / whole;
        expected.push_back(0.5 * (probability - (targets[at(r)] == p * width + i ? 1 : 0)));
      }
    }
    CHECK(error_of(gradient, expected) < kTolerance);
  }
}

TEST_CASE("cpu kernels: embedding gathers rows and adds gradients up", "[kernels]") {
  const std::int64_t rows = 30;
  const std::int64_t width = 11;
  const std::int64_t vocabulary = 8;  // rows repeat
  Data data(11);
  const Vector table = data.values(vocabulary * width);
  const Vector d_y = data.values(rows * width);
  const std::vector<std::int32_t> ids = data.ids(rows, vocabulary);
  Doubles expected;
  Doubles gradient(at(vocabulary * width), 0.25);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = 0; i < width; ++i) {
      expected.push_back(element(table, ids[at(r)] * width + i));
      gradient[at(ids[at(r)] * width + i)] += element(d_y, r * width + i);
    }
  Output y(rows * width);
  embedding_forward(rows, width, table.data(), ids.data(), y.data());
  CHECK(error_of(y, expected) == 0);
  Output d_table(vocabulary * width);
  std::fill(d_table.values.begin(), d_table.values.end() - kGuard, 0.25F);
  embedding_backward(rows, width, d_y.data(), ids.data(), d_table.data());
  CHECK(error_of(d_table, gradient) < kTolerance);
}

TEST_CASE("cpu kernels: optimizers", "[kernels]") {
  const std::int64_t n = 1003;
  Data data(12);
  const Vector gradient = data.values(n);
  const Vector weight = data.values(n);
  const Vector first = data.values(n);
  Vector second = data.values(n);
  for (float& v : second) v = std::abs(v);
  SECTION("adam") {
    const AdamSettings s{.learning_rate = 0.01F, .step = 3};
    Doubles w;
    Doubles m;
    Doubles v;
    for (std::int64_t i = 0; i < n; ++i) {
      const double g = element(gradient, i);
      m.push_back(0.9 * element(first, i) + 0.1 * g);
      v.push_back(0.95 * element(second, i) + 0.05 * g * g);
      const double update = m.back() / (1 - std::pow(0.9, 3)) / (std::sqrt(v.back() / (1 - std::pow(0.95, 3))) + 1e-8);
      w.push_back(element(weight, i) - 0.01 * (update + 0.1 * element(weight, i)));
    }
    Output weights(n);
    Output moments1(n);
    Output moments2(n);
    std::copy(weight.begin(), weight.end(), weights.values.begin());
    std::copy(first.begin(), first.end(), moments1.values.begin());
    std::copy(second.begin(), second.end(), moments2.values.begin());
    std::vector<std::uint16_t> narrow(at(n), 0xFFFF);
    adam(n, s, gradient.data(), weights.data(), moments1.data(), moments2.data(), narrow.data());
    CHECK(error_of(weights, w) < kTolerance);
    CHECK(error_of(moments1, m) < kTolerance);
    CHECK(error_of(moments2, v) < kTolerance);
    for (std::int64_t i = 0; i < n; ++i) CHECK(narrow[at(i)] == bf16_of(weights.values[at(i)]));
  }
  SECTION("sgd with and without momentum") {
    Doubles plain;
    Doubles heavy;
    for (std::int64_t i = 0; i < n; ++i) {
      plain.push_back(element(weight, i) - 0.1 * element(gradient, i));
      heavy.push_back(element(weight, i) - 0.1 * (0.9 * element(first, i) + element(gradient, i)));
    }
    Output a(n);
    Output b(n);
    Vector velocity = first;
    std::copy(weight.begin(), weight.end(), a.values.begin());
    std::copy(weight.begin(), weight.end(), b.values.begin());
    sgd(n, 0.1F, 0.9F, gradient.data(), a.data(), nullptr);
    sgd(n, 0.1F, 0.9F, gradient.data(), b.data(), velocity.data());
    CHECK(error_of(a, plain) < kTolerance);
    CHECK(error_of(b, heavy) < kTolerance);
  }
  SECTION("norm, scaling, clearing") {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += element(gradient, i) * element(gradient, i);
    CHECK(squared_norm(n, gradient.data()) == Approx(sum).epsilon(1e-5));
    Output x(n);
    std::copy(gradient.begin(), gradient.end(), x.values.begin());
    Doubles doubled;
    for (std::int64_t i = 0; i < n; ++i) doubled.push_back(2 * element(gradient, i));
    scale(n, 2.0F, x.data());
    CHECK(error_of(x, doubled) < kTolerance);
    Output cleared(n);
    scale(n, 0.0F, cleared.data());
    CHECK(error_of(cleared, Doubles(at(n), 0.0)) == 0);
  }
}

TEST_CASE("cpu kernels: casts, permutation", "[kernels]") {
  Data data(13);
  const std::int64_t rows = 45;
  const std::int64_t width = 70;
  const Vector x = data.values(rows * width);
  std::vector<std::uint16_t> narrow(x.size(), 0xFFFF);
  to_bf16(rows * width, x.data(), narrow.data());
  for (std::size_t i = 0; i < x.size(); ++i)
    REQUIRE(std::abs(float_of_bf16(narrow[i]) - x[i]) <= std::abs(x[i]) * 0x1p-8F);
  // Halves go to the even neighbour: 1 + 2^-8 to 1, 1 + 3 x 2^-8 to 1 + 2^-6.
  CHECK(bf16_of(1.0F + 0x1p-8F) == bf16_of(1.0F));
  CHECK(float_of_bf16(bf16_of(1.0F + 3 * 0x1p-8F)) == 1.0F + 0x1p-6F);
  CHECK(std::isnan(float_of_bf16(bf16_of(std::numeric_limits<float>::quiet_NaN()))));
  const std::vector<std::int32_t> order = data.ids(rows, rows);
  Output permuted(rows * width);
  permute_rows(rows, width, x.data(), order.data(), permuted.data());
  Doubles moved;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < width; ++c) moved.push_back(element(x, order[at(r)] * width + c));
  CHECK(error_of(permuted, moved) == 0);
}
