// Every operator on the GPU against kernels/reference.hpp, on fresh random data (verify_buffers.hpp).

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "kernels/cuda/collectives.hpp"
#include "kernels/cuda/device_info.hpp"
#include "kernels/cuda/driver.hpp"
#include "kernels/reference.hpp"
#include "sim/io/files.hpp"
#include "tools/cuda_worker/cuda_worker.hpp"
#include "tools/cuda_worker/verify_buffers.hpp"

namespace tracecast::worker {
namespace {

constexpr double kBf16Tolerance = 1.0 / 64;  // results have 8 significant bits, sums have some thousand terms
constexpr double kFp32Tolerance = 1e-4;

/// Largest |value - expected| / largest |expected|; infinite if a value is NaN.
double error_of(const Doubles& values, const Doubles& expected) {
  double largest = 1e-30;
  double worst = 0;
  for (const double e : expected) largest = std::max(largest, std::abs(e));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(values[i])) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(values[i] - expected[i]));
  }
  return worst / largest;
}

class Verification {
 public:
  explicit Verification(std::uint64_t seed) : data_(seed) {}

  /// `only`: one of the groups, "" for all. Errors: unknown group.
  Result<void> run(const std::string& only) {
    const std::pair<const char*, std::function<void()>> groups[] = {
        {"gemm", [&] { gemms(); }},
        {"fp8-gemm", [&] { narrow_gemms(); }},
        {"attention", [&] { attentions(); }},
        {"norm", [&] { norms(); }},
        {"element-wise", [&] { elementwise(); }},
        {"softmax", [&] { softmaxes(); }},
        {"cross-entropy", [&] { cross_entropies(); }},
        {"embedding", [&] { embeddings(); }},
        {"optimizer", [&] { optimizers(); }},
        {"collectives", [&] { collectives(); }},
    };
    bool found = false;
    std::string names;
    for (const auto& [name, work] : groups) {
      names += fmt::format(" {}", name);
      if (!only.empty() && only != name) continue;
      found = true;
      each(name, work);
    }
    if (found) return {};
    return fail_key("--only", only, fmt::format("unknown group of operators (allowed:{})", names));
  }
  bool good() const { return good_; }
  const std::string& table() const { return table_; }

 private:
  void each(const char* what, const std::function<void()>& work) {
    try {
      work();
    } catch (const cuda::DeviceError& error) {
      good_ = false;
      table_ += fmt::format("| {} | | | **{}** |\n", what, error.what());
    }
  }

  void check(const std::string& what, const Doubles& values, const Doubles& expected, double tolerance) {
    const double error = error_of(values, expected);
    const bool fits = error <= tolerance;
    good_ = good_ && fits;
    table_ += fmt::format("| {} | {:.1e} | {:.1e} | {} |\n", what, error, tolerance, fits ? "good" : "**wrong**");
  }

  void gemms() {
    for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad})
      for (const std::int64_t batch : {1, 3}) {
        const GemmShape shape{136, 264, 520, batch, pass == Pass::wgrad};
        const OperatorKind kind = batch > 1 ? OperatorKind::grouped_gemm : OperatorKind::gemm;
        const Operator op{kind, pass, Precision::bf16, "check", shape};
        const Doubles a = data_.values(batch * shape.m * shape.k);
        const Doubles b = data_.values(batch * shape.k * shape.n);
        const Doubles before = shape.accumulate_fp32 ? data_.values(batch * shape.m * shape.n) : Doubles{};
        const std::string what = fmt::format("{} {}, batch {}", to_string(kind), to_string(pass), batch);
        const Doubles expected = reference::gemm(layout_of(op), shape, a, b, before);
        if (shape.accumulate_fp32)
          gemm_into<float>(what, op, a, b, before, expected, kFp32Tolerance);
        else
          gemm_into<Bf16>(what, op, a, b, before, expected, kBf16Tolerance);
      }
  }

  template <class T>
  void gemm_into(const std::string& what, const Operator& op, const Doubles& a, const Doubles& b, const Doubles& before,
                 const Doubles& expected, double tolerance) {
    const Result<cuda::GemmProblem> problem = cuda::gemm_problem(op);
    const DeviceMemory on_a = bf16_on_device(a);
    const DeviceMemory on_b = bf16_on_device(b);
    const Output<T> c(static_cast<std::int64_t>(expected.size()));
    if (!before.empty()) c.set(before);
    gemm_.run(*problem, on_b.as<void>(), on_a.as<void>(), c.data(), nullptr);
    check(what, c.values(), expected, tolerance);
  }

  /// Operands are quantised on the device; the reference uses the dequantised values.
  void narrow_gemms() {
    const GemmShape shape{128, 256, 512, 1, false};
    for (const Precision precision : {Precision::fp8, Precision::fp8_block}) {
      const Operator op{OperatorKind::gemm, Pass::forward, precision, "check", shape};
      const Result<cuda::GemmProblem> problem = cuda::gemm_problem(op);
      Doubles a = data_.values(shape.m * shape.k);
      Doubles b = data_.values(shape.k * shape.n);
      const DeviceMemory on_a = quantised(shape.m, shape.k, a);
      const DeviceMemory on_b = quantised(shape.n, shape.k, b);
      const Output<Bf16> c(shape.m * shape.n);
      gemm_.run(*problem, on_b.as<void>(), on_a.as<void>(), c.data(), nullptr);
      check(fmt::format("gemm {}", to_string(precision)), c.values(),
            reference::gemm(GemmLayout::normal_transposed, shape, a, b), kBf16Tolerance);
    }
  }

  /// Also checks the quantisation and its transposed copy. `values` are rounded to 8 bits.
  DeviceMemory quantised(std::int64_t rows, std::int64_t width, Doubles& values) {
    const DeviceMemory x = bf16_on_device(values);
    DeviceMemory y(rows * width);
    const DeviceMemory turned(rows * width);
    cuda::quantise(rows, width, 1.0F, x.as<Bf16>(), y.as<std::uint8_t>(), turned.as<std::uint8_t>(), nullptr);
    const auto bytes = [&](const DeviceMemory& memory) {
      std::vector<std::uint8_t> copied(static_cast<std::size_t>(rows * width));
      TRACECAST_CUDA(cudaMemcpy(copied.data(), memory.as<void>(), copied.size(), cudaMemcpyDeviceToHost));
      return copied;
    };
    const std::vector<std::uint8_t> straight = bytes(y);
    const std::vector<std::uint8_t> transposed = bytes(turned);
    Doubles held;
    Doubles held_turned(values.size());
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < width; ++i) {
        held.push_back(e4m3(straight[static_cast<std::size_t>(r * width + i)]));
        held_turned[static_cast<std::size_t>(r * width + i)] = e4m3(transposed[static_cast<std::size_t>(i * rows + r)]);
      }
    check("cast to fp8", held, values, 1.0 / 16);
    check("cast to fp8, transposed", held_turned, held, 0);
    values = held;
    return y;
  }
  /// 1 sign, 4 exponent (bias 7), 3 mantissa bits; 0x7F is NaN.   Source: OCP OFP8 1.0.
  static double e4m3(std::uint8_t bits) {
    const int exponent = bits >> 3 & 15;
    const int mantissa = bits & 7;
    if (exponent == 15 && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
    const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    return bits & 0x80 ? -size : size;
  }

  void attentions() {
    const AttentionShape shapes[] = {{2, 256, 256, 4, 4, 64, 64, true, 0},
                                     {1, 256, 256, 8, 2, 128, 128, true, 0},
                                     {1, 256, 256, 2, 2, 128, 128, false, 0},
                                     {1, 128, 256, 2, 2, 128, 128, true, 0},
                                     {1, 384, 384, 2, 2, 64, 64, true, 128}};
    for (const AttentionShape& shape : shapes) each("attention", [&] { one_attention(shape); });
  }

  void one_attention(AttentionShape shape) {
    const AttentionSizes n = sizes_of(shape);
    const Doubles q = data_.values(n.query);
    const Doubles k = data_.values(n.key);
    const Doubles v = data_.values(n.value);
    const Doubles d_out = data_.values(n.out);
    const std::string name =
        fmt::format("attention {} x {}, {}/{} heads of {}{}{}", shape.q_len, shape.kv_len, shape.heads, shape.kv_heads,
                    shape.qk_dim, shape.causal ? ", causal" : "", shape.window > 0 ? ", window" : "");
    // If cuDNN has no kernel with the mask, the unmasked one runs, so the reference is unmasked too.
    const bool masked = attention_.has_masked_kernel(shape, true) && attention_.has_masked_kernel(shape, false);
    AttentionShape run = shape;
    if (!masked) run.causal = false;
    if (!masked) run.window = 0;
    const std::string note = masked ? "" : " (no kernel with this mask: without)";
    const reference::AttentionResult expected = reference::attention(run, q, k, v);
    const DeviceMemory on_q = bf16_on_device(q);
    const DeviceMemory on_k = bf16_on_device(k);
    const DeviceMemory on_v = bf16_on_device(v);
    const Output<Bf16> out(n.out);
    const Output<float> statistics(n.statistics);
    cuda::AttentionOperands operands{on_q.as<void>(), on_k.as<void>(), on_v.as<void>(), out.data(), statistics.data()};
    attention_.run(run, true, operands, nullptr);
    check(name + note + ", out", out.values(), expected.out, kBf16Tolerance);
    check(name + note + ", log-sum-exp", statistics.values(), expected.log_sum_exp, 1e-3);
    const reference::AttentionGradient gradient = reference::attention_gradient(run, q, k, v, d_out);
    const DeviceMemory on_d = bf16_on_device(d_out);
    const Output<Bf16> d_q(n.query);
    const Output<Bf16> d_k(n.key);
    const Output<Bf16> d_v(n.value);
    operands.d_out = on_d.as<void>();
    operands.d_q = d_q.data();
    operands.d_k = d_k.data();
    operands.d_v = d_v.data();
    attention_.run(run, false, operands, nullptr);
    check(name + note + ", d_q", d_q.values(), gradient.d_q, 2 * kBf16Tolerance);
    check(name + note + ", d_k", d_k.values(), gradient.d_k, 2 * kBf16Tolerance);
    check(name + note + ", d_v", d_v.values(), gradient.d_v, 2 * kBf16Tolerance);
  }

  void norms() {
    for (const Rows& shape : {Rows{37, 2048}, Rows{300, 99}})
      for (const bool layer : {false, true}) {
        const reference::NormSettings settings{layer};
        const Doubles x = data_.values(shape.rows * shape.width);
        const Doubles weight = data_.values(shape.width);
        const Doubles bias = data_.values(shape.width);
        const Doubles d_y = data_.values(shape.rows * shape.width);
        const auto expected = reference::norm(shape, settings, x, weight, bias);
        const DeviceMemory on_x = bf16_on_device(x);
        const DeviceMemory on_w = bf16_on_device(weight);
        const DeviceMemory on_b = bf16_on_device(bias);
        const DeviceMemory on_d = bf16_on_device(d_y);
        const Output<Bf16> y(shape.rows * shape.width);
        const Output<float> statistics(2 * shape.rows);
        if (layer)
          cuda::layer_norm_forward(shape.rows, shape.width, on_x.as<Bf16>(), on_w.as<Bf16>(), on_b.as<Bf16>(), y.data(),
                                   statistics.data(), nullptr);
        else
          cuda::rms_norm_forward(shape.rows, shape.width, on_x.as<Bf16>(), on_w.as<Bf16>(), y.data(), statistics.data(),
                                 nullptr);
        const std::string name =
            fmt::format("{} of {} x {}", layer ? "layer norm" : "rms norm", shape.rows, shape.width);
        check(name, y.values(), expected.y, kBf16Tolerance);
        check(name + ", statistics", statistics.values(), expected.statistics, kFp32Tolerance);
        const auto gradient = reference::norm_gradient(shape, settings, x, weight, expected.statistics, d_y);
        const Output<Bf16> d_x(shape.rows * shape.width);
        const Output<float> d_weight(shape.width);
        const Output<float> d_bias(shape.width);
        const DeviceMemory scratch(cuda::kNormBlocks * 2 * shape.width * 4);
        cuda::norm_backward(shape.rows, shape.width, on_x.as<Bf16>(), on_w.as<Bf16>(), statistics.data(),
                            on_d.as<Bf16>(), d_x.data(), d_weight.data(), layer ? d_bias.data() : nullptr,
                            scratch.as<float>(), nullptr);
        check(name + ", d_x", d_x.values(), gradient.d_x, kBf16Tolerance);
        check(name + ", d_weight", d_weight.values(), gradient.d_weight, kFp32Tolerance);
        if (layer) check(name + ", d_bias", d_bias.values(), gradient.d_bias, kFp32Tolerance);
      }
  }

  void elementwise() {
    for (const Rows& shape : {Rows{33, 128}, Rows{17, 90}}) {
      const std::int64_t count = shape.rows * shape.width;
      const std::string size = fmt::format(" of {} x {}", shape.rows, shape.width);
      const Doubles x = data_.values(2 * count);
      const Doubles one(x.begin(), x.begin() + count);
      const Doubles other(x.begin() + count, x.end());
      const Doubles d_y = data_.values(count);
      const DeviceMemory on_x = bf16_on_device(x);
      const DeviceMemory on_other = bf16_on_device(other);
      const DeviceMemory on_d = bf16_on_device(d_y);
      const auto unary = [&](const std::string& name, std::int64_t results, const Doubles& expected, auto launch) {
        const Output<Bf16> y(results);
        launch(y.data());
        check(name + size, y.values(), expected, kBf16Tolerance);
      };
      unary("swiglu", count, reference::swiglu(shape, x),
            [&](Bf16* y) { cuda::swiglu_forward(shape.rows, shape.width, on_x.as<Bf16>(), y, nullptr); });
      unary("swiglu, backward", 2 * count, reference::swiglu_gradient(shape, x, d_y), [&](Bf16* y) {
        cuda::swiglu_backward(shape.rows, shape.width, on_x.as<Bf16>(), on_d.as<Bf16>(), y, nullptr);
      });
      unary("gelu", count, reference::gelu(one),
            [&](Bf16* y) { cuda::gelu_forward(count, on_x.as<Bf16>(), y, nullptr); });
      unary("gelu, backward", count, reference::gelu_gradient(one, d_y),
            [&](Bf16* y) { cuda::gelu_backward(count, on_x.as<Bf16>(), on_d.as<Bf16>(), y, nullptr); });
      for (const bool backward : {false, true})
        unary(backward ? "rope, backward" : "rope", count, reference::rope(shape, 2, 11, backward, one),
              [&](Bf16* y) { cuda::rope(shape.rows, shape.width, 2, 11, backward, on_x.as<Bf16>(), y, nullptr); });
      residuals(size, one, other, d_y);
    }
  }

  void residuals(const std::string& size, const Doubles& a, const Doubles& b, const Doubles& d_y) {
    const auto count = static_cast<std::int64_t>(a.size());
    std::vector<std::uint8_t> mask;
    Doubles sum;
    Doubles dropped;
    Doubles gradient;
    for (std::size_t i = 0; i < a.size(); ++i) {
      mask.push_back(i % 3 == 0 ? 0 : 1);
      sum.push_back(a[i] + b[i]);
      dropped.push_back(b[i] + (mask[i] != 0 ? a[i] / 0.75 : 0));
      gradient.push_back(mask[i] != 0 ? d_y[i] / 0.75 : 0);
    }
    const DeviceMemory on_a = bf16_on_device(a);
    const DeviceMemory on_b = bf16_on_device(b);
    const DeviceMemory on_d = bf16_on_device(d_y);
    const DeviceMemory on_mask = on_device(mask);
    const Output<Bf16> y(count);
    cuda::add(count, on_a.as<Bf16>(), on_b.as<Bf16>(), y.data(), nullptr);
    check("residual" + size, y.values(), sum, kBf16Tolerance);
    const Output<Bf16> z(count);
    cuda::dropout_add(count, 0.25F, on_a.as<Bf16>(), on_b.as<Bf16>(), on_mask.as<std::uint8_t>(), z.data(), nullptr);
    check("dropout and residual" + size, z.values(), dropped, kBf16Tolerance);
    const Output<Bf16> d_x(count);
    cuda::dropout_backward(count, 0.25F, on_d.as<Bf16>(), on_mask.as<std::uint8_t>(), d_x.data(), nullptr);
    check("dropout, backward" + size, d_x.values(), gradient, kBf16Tolerance);
  }

  void softmaxes() {
    for (const Rows& shape : {Rows{40, 512}, Rows{7, 77}}) {
      const Doubles x = data_.values(shape.rows * shape.width);
      const Doubles d_y = data_.values(shape.rows * shape.width);
      const Doubles expected = reference::softmax(shape, 3, x);
      const DeviceMemory on_x = bf16_on_device(x);
      const DeviceMemory on_d = bf16_on_device(d_y);
      const Output<Bf16> y(shape.rows * shape.width);
      const Output<Bf16> d_x(shape.rows * shape.width);
      cuda::softmax_forward(shape.rows, shape.width, 3, on_x.as<Bf16>(), y.data(), nullptr);
      const Doubles shares = y.values();
      check(fmt::format("softmax of {} x {}", shape.rows, shape.width), shares, expected, kBf16Tolerance);
      cuda::softmax_backward(shape.rows, shape.width, 3, y.data(), on_d.as<Bf16>(), d_x.data(), nullptr);
      check(fmt::format("softmax of {} x {}, backward", shape.rows, shape.width), d_x.values(),
            reference::softmax_gradient(shape, 3, shares, d_y), kBf16Tolerance);
    }
  }

  void cross_entropies() {
    for (const Rows& shape : {Rows{40, 4096}, Rows{9, 333}}) {
      const std::int64_t first = 100;
      Doubles logits = data_.values(shape.rows * shape.width);
      for (double& x : logits) x *= 8;
      const std::vector<std::int32_t> targets = data_.ids(shape.rows, 2 * shape.width);
      const Doubles expected = reference::cross_entropy(shape, first, logits, targets);
      const DeviceMemory on_x = bf16_on_device(logits);
      const DeviceMemory on_t = on_device(targets);
      const Output<float> statistics(3 * shape.rows);
      const Output<Bf16> d_x(shape.rows * shape.width);
      cuda::cross_entropy_forward(shape.rows, shape.width, first, on_x.as<Bf16>(), on_t.as<std::int32_t>(),
                                  statistics.data(), nullptr);
      check(fmt::format("cross entropy of {} x {}", shape.rows, shape.width), statistics.values(), expected, 1e-3);
      cuda::cross_entropy_backward(shape.rows, shape.width, first, 2, on_x.as<Bf16>(), on_t.as<std::int32_t>(),
                                   statistics.data(), d_x.data(), nullptr);
      check(fmt::format("cross entropy of {} x {}, backward", shape.rows, shape.width), d_x.values(),
            reference::cross_entropy_gradient(shape, first, 2, logits, targets, expected), kBf16Tolerance);
    }
  }

  void embeddings() {
    const Rows shape{50, 136};
    const std::int64_t words = 20;  // fewer than rows, so some are looked up twice
    const Doubles table = data_.values(words * shape.width);
    const Doubles d_y = data_.values(shape.rows * shape.width);
    const Doubles before = data_.values(words * shape.width);
    const std::vector<std::int32_t> ids = data_.ids(shape.rows, words);
    Doubles expected;
    Doubles gradient = before;
    for (std::int64_t r = 0; r < shape.rows; ++r)
      for (std::int64_t i = 0; i < shape.width; ++i) {
        const auto in_table = static_cast<std::size_t>(ids[static_cast<std::size_t>(r)] * shape.width + i);
        expected.push_back(table[in_table]);
        gradient[in_table] += d_y[static_cast<std::size_t>(r * shape.width + i)];
      }
    const DeviceMemory on_table = bf16_on_device(table);
    const DeviceMemory on_ids = on_device(ids);
    const DeviceMemory on_d = bf16_on_device(d_y);
    const Output<Bf16> y(shape.rows * shape.width);
    const Output<float> d_table(words * shape.width);
    d_table.set(before);
    cuda::embedding_forward(shape.rows, shape.width, on_table.as<Bf16>(), on_ids.as<std::int32_t>(), y.data(), nullptr);
    cuda::embedding_backward(shape.rows, shape.width, on_d.as<Bf16>(), on_ids.as<std::int32_t>(), d_table.data(),
                             nullptr);
    check("embedding, rows by number", y.values(), expected, 0);
    check("embedding, backward", d_table.values(), gradient, kFp32Tolerance);
  }

  void optimizers() {
    const std::int64_t count = 1003;  // not a multiple of four
    const Doubles g = data_.values(count);
    const Doubles w = data_.values(count);
    const Doubles m = data_.values(count);
    const Doubles v = data_.positive(count);
    // A large learning rate, so that its effect exceeds the rounding.
    const AdamSettings settings{.learning_rate = 0.5F, .step = 3};
    const double correction1 = 1 - 0.9 * 0.9 * 0.9;
    const double correction2 = 1 - 0.95 * 0.95 * 0.95;
    Doubles new_w;
    Doubles new_m;
    Doubles new_v;
    Doubles by_momentum;
    double squares = 0;
    for (std::size_t i = 0; i < g.size(); ++i) {
      new_m.push_back(0.9 * m[i] + 0.1 * g[i]);
      new_v.push_back(0.95 * v[i] + 0.05 * g[i] * g[i]);
      const double step = new_m[i] / correction1 / (std::sqrt(new_v[i] / correction2) + 1e-8) + 0.1 * w[i];
      new_w.push_back(w[i] - 0.5 * step);
      by_momentum.push_back(w[i] - 0.5 * (0.8 * m[i] + g[i]));
      squares += g[i] * g[i];
    }
    const DeviceMemory on_g = fp32_on_device(g);
    const Output<float> weight(count);
    const Output<float> first(count);
    const Output<float> second(count);
    const Output<Bf16> narrow(count);
    weight.set(w);
    first.set(m);
    second.set(v);
    cuda::adam(count, settings, on_g.as<float>(), weight.data(), first.data(), second.data(), narrow.data(), nullptr);
    check("adam, weights", weight.values(), new_w, kFp32Tolerance);
    check("adam, bf16 copy", narrow.values(), new_w, kBf16Tolerance);
    check("adam, first moment", first.values(), new_m, kFp32Tolerance);
    check("adam, second moment", second.values(), new_v, kFp32Tolerance);
    weight.set(w);
    first.set(m);
    cuda::sgd(count, 0.5F, 0.8F, on_g.as<float>(), weight.data(), first.data(), nullptr, nullptr);
    check("sgd with momentum", weight.values(), by_momentum, kFp32Tolerance);
    const DeviceMemory sum(sizeof(double));
    cuda::squared_norm(count, on_g.as<float>(), sum.as<double>(), nullptr);
    double on_host = 0;
    TRACECAST_CUDA(cudaMemcpy(&on_host, sum.as<void>(), sizeof on_host, cudaMemcpyDeviceToHost));
    check("gradient norm", {on_host}, {squares}, kFp32Tolerance);
    weight.set(w);
    cuda::scale(count, 0.25F, weight.data(), nullptr);
    Doubles quarter = w;
    for (double& x : quarter) x *= 0.25;
    check("unscale", weight.values(), quarter, 0);
    cuda::scale(count, 0, weight.data(), nullptr);
    check("zero gradients", weight.values(), Doubles(w.size(), 0.0), 0);
  }

  /// With one rank every collective is a copy.
  void collectives() {
    const cuda::NcclGroup world = cuda::nccl_world(cuda::Rendezvous({}, "."));
    const std::int64_t count = 4096;
    const Doubles x = data_.values(count);
    const DeviceMemory on_x = bf16_on_device(x);
    for (int kind = 0; kind < kCollectiveKinds; ++kind) {
      const auto collective = static_cast<Collective>(kind);
      const Output<Bf16> y(count);
      world.run_on({collective, Bytes{2 * count}, Algorithm::automatic, Protocol::automatic}, on_x.as<void>(), y.data(),
                   nullptr);
      check(fmt::format("{} of one rank", to_string(collective)), y.values(), x, 0);
    }
  }

  RandomData data_;
  cuda::Gemm gemm_;
  cuda::Attention attention_;
  std::string table_;
  bool good_ = true;
};

}  // namespace

Result<bool> verify_cuda(std::uint64_t seed, const std::string& only, const std::string& report) {
  const cuda::DeviceInfo device = cuda::use_device(0);
  Verification verification(seed);
  if (const Result<void> run = verification.run(only); !run) return tl::unexpected(run.error());
  const std::string text = fmt::format(
      "Operators on {} ({}) against references in double precision, random data of seed {}:\n\n"
      "| operator | largest error | allowed | |\n| --- | --- | --- | --- |\n{}",
      device.name, to_string(cuda::library_versions()), seed, verification.table());
  fmt::print("{}", only.empty() ? text : verification.table());
  if (!report.empty())
    if (const Result<void> written = write_file(report, text); !written) return tl::unexpected(written.error());
  return verification.good();
}

}  // namespace tracecast::worker
