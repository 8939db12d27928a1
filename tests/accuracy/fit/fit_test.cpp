#include "tools/accuracy/fit/fit.hpp"

#include <cmath>

#include <catch2/catch.hpp>

#include "tools/accuracy/fit/attention_fit.hpp"
#include "tools/accuracy/fit/gemm_fit.hpp"
#include "tools/accuracy/fit/memory_fit.hpp"
#include "tools/accuracy/held_out.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;

TEST_CASE("fit: the minimum of a valley is found inside the box, the same every time", "[accuracy][fit]") {
  // Rosenbrock's valley: minimum 0 at (1, 1).
  const auto valley = [](const std::vector<double>& x) {
    return std::pow(1 - x[0], 2) + 100 * std::pow(x[1] - x[0] * x[0], 2);
  };
  const std::vector<Parameter> box{{-1, -2, 2}, {1, -2, 2}};
  const std::vector<double> found = minimize(box, valley, 6000);
  CHECK(found[0] == Approx(1).margin(1e-2));
  CHECK(found[1] == Approx(1).margin(2e-2));
  CHECK(minimize(box, valley, 6000) == found);
  // With the minimum outside, the edge.
  CHECK(minimize(
            {{0, -1, 0.5}}, [](const std::vector<double>& x) { return std::abs(x[0] - 3); }, 300)[0] == Approx(0.5));
}

TEST_CASE("fit: log error is symmetric in too fast and too slow", "[oracle][accuracy][fit]") {
  LogError error;
  error.add(2, 1);
  error.add(1, 2);
  CHECK(error.mean() == Approx(std::log(2)));
  CHECK(error.bias() == Approx(0).margin(1e-15));
  error.add(4, 1, 2);  // counts twice
  CHECK(error.mean() == Approx((2 * std::log(2) + 2 * std::log(4)) / 4));
  CHECK(error.samples() == 3);
}

TEST_CASE("fit: about one key in five is held out", "[accuracy][fit]") {
  int held = 0;
  for (std::int64_t key = 0; key < 10'000; ++key) held += held_out(key) ? 1 : 0;
  CHECK(held > 1900);
  CHECK(held < 2100);
}

TEST_CASE("fit: parameters that made the measurements are found again", "[property][accuracy][fit]") {
  std::vector<MemorySample> samples;
  for (std::int64_t i = 1; i <= 40; ++i) {
    const Bytes traffic{i * i * 1'000'000};
    samples.push_back({traffic, 5e-6 + static_cast<double>(traffic.count) / (0.6 * 2e12), i * 128});
  }
  const MemoryModel model = fit_memory(samples, 2e12, "made");
  CHECK(model.t0 == Approx(5e-6).epsilon(0.02));
  CHECK(model.efficiency == Approx(0.6).epsilon(0.005));
  CHECK(model.fit.residual < 0.01);
  CHECK(model.fit.samples == 40);

  const GpuPeak gpu{989.4e12, 3.35e12, 132};
  AttentionModel truth{.t0 = 4e-6};
  truth.forward_efficiency = truth.backward_efficiency = 0.7;
  truth.forward_s0 = truth.backward_s0 = 900;
  std::vector<AttentionSample> kernels;
  for (const std::int64_t s : {1024, 2048, 4096, 8192, 16384}) {
    const AttentionShape shape{2, s, s, 32, 32, 128, 128, true, 0};
    kernels.push_back({shape, false, attention_seconds(truth, gpu, shape, false)});
  }
  // A server: 12 us per call, and two passes over queries, keys and values.
  std::vector<AttentionSample> served;
  truth.t0 = 12e-6;
  for (const std::int64_t s : {256, 512, 1024, 2048, 4096, 8192}) {
    for (const std::int64_t kv_heads : {2, 8, 32}) {
      const AttentionShape shape{2, s, s, 32, kv_heads, 128, 128, true, 0};
      const double pass = 2.0 * 2 * static_cast<double>(s * (32 + 2 * kv_heads)) * 128 / gpu.bandwidth;
      served.push_back({shape, false, attention_seconds(truth, gpu, shape, false) + 2 * pass});
    }
  }
  const AttentionCurve server = fit_attention(served, false, gpu, {-1});
  CHECK(server.efficiency == Approx(0.7).epsilon(0.02));
  CHECK(server.s0 == Approx(900).epsilon(0.1));
  CHECK(server.residual < 0.02);

  const AttentionCurve curve = fit_attention(kernels, false, gpu, {4e-6});
  CHECK(curve.efficiency == Approx(0.7).epsilon(0.005));
  CHECK(curve.s0 == Approx(900).epsilon(0.02));
  CHECK(curve.residual < 0.005);
  // s0 that is given stays, and the efficiency makes up for it in the middle.
  const AttentionCurve given = fit_attention(kernels, false, gpu, {.t0 = 4e-6, .s0 = 300});
  CHECK(given.s0 == 300);
  CHECK(given.efficiency < 0.7);
  CHECK(given.efficiency > 0.5);
}

TEST_CASE("fit: a library's choices are found where there are samples, and nowhere else", "[property][accuracy][fit]") {
  GemmModel truth;
  truth.benchmark.choices.assign(kChoiceNodes, 0);
  for (std::size_t i = 0; i < kChoiceNodes; ++i) truth.benchmark.choices[i] = static_cast<int>(i * 37 % 401) - 200;
  std::vector<ChoiceSample> samples;
  const auto add = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    const GemmShape shape{m, n, k};
    samples.push_back({shape, 1e-5, 1e-5 * choice_factor(truth, shape)});
  };
  for (int m = 0; m <= 30; ++m)
    for (int n = 10; n <= 32; ++n)
      for (int k = 10; k <= 26; ++k)  // k up to 2^13: the last plane of nodes has no sample
        add(std::llround(std::exp2(m / 2.0)), std::llround(std::exp2(n / 2.0)), std::llround(std::exp2(k / 2.0)));
  const std::vector<int> found = fit_choices(samples);
  REQUIRE(found.size() == kChoiceNodes);
  for (std::size_t i = 0; i < kChoiceNodes; ++i) {
    CAPTURE(i);
    if (i % 5 == 4)
      CHECK(found[i] == 0);
    else
      CHECK(found[i] == Approx(truth.benchmark.choices[i]).margin(60));
  }
  double error = 0;
  double before = 0;
  GemmModel model;
  model.benchmark.choices = found;
  for (const ChoiceSample& s : samples) {
    error += std::abs(std::log(s.predicted * choice_factor(model, s.shape) / s.seconds));
    before += std::abs(std::log(s.predicted / s.seconds));
  }
  CHECK(error < before / 10);
}

TEST_CASE("fit: the clock that long kernels lose is found from their lengths", "[property][accuracy][fit]") {
  const GpuPeak gpu{2500e12, 8e12, 148};
  AttentionModel truth{.t0 = 4e-6};
  truth.forward_efficiency = truth.backward_efficiency = 0.7;
  truth.forward_s0 = truth.backward_s0 = 900;
  truth.power_knee = kAttentionPowerKnee;
  truth.power_exponent = 0.04;
  std::vector<AttentionSample> kernels;
  for (const std::int64_t s : {2048, 4096, 8192, 16384, 32768, 65536}) {
    const AttentionShape shape{2, s, s, 64, 64, 128, 128, false, 0};
    for (const bool backward : {false, true})
      kernels.push_back({shape, backward, attention_seconds(truth, gpu, shape, backward)});
  }
  CHECK(fit_power_exponent(kernels, gpu, 4e-6) == Approx(0.04).margin(1e-9));
  for (AttentionSample& kernel : kernels) {
    AttentionModel even = truth;
    even.power_exponent = 0;
    kernel.seconds = attention_seconds(even, gpu, kernel.shape, kernel.backward);
  }
  CHECK(fit_power_exponent(kernels, gpu, 4e-6) < 0.006);
}
