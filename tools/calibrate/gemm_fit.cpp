#include "tools/calibrate/gemm_fit.hpp"

#include <algorithm>
#include <future>

#include "sim/cost/memory_bound.hpp"
#include "sim/validation/held_out.hpp"

namespace tracecast::calibrate {
namespace {

// The clock of Hopper and Blackwell starts to fall at about this size (CALIBRATION.md 1: flat from 1e11 to 1e12, -5 to
// -10 % above 1e13); the exponent is fitted.
constexpr double kPowerKnee = 1e11;
constexpr int kEvaluations = 2400;

/// Where a search begins: several valleys are known.
struct Start {
  double latency_us;
  double l2_share;  ///< of the cache
};
constexpr Start kStarts[] = {{0.08, 1}, {0.25, 1}, {0.08, 0.6}, {0.25, 0.6}};

/// The fitted parameters in the order of `model_of`: microseconds where the model has seconds, shares of L2 where it has bytes.
std::vector<Parameter> parameters(const Start& start) {
  return {
      {2.6, 0.5, 30},                 // t0 us
      {0.8, 0.2, 0.98},               // efficiency
      {0.8, 0.4, 1},                  // memory efficiency
      {100, 0, 400},                  // k0
      {0.1, 0, 0.6},                  // tile exponent
      {1.7, 0.1, 6},                  // split cost us
      {0.01, 0, 0.2},                 // re-read
      {3, 1, 8},                      // norm
      {0.8, 0, 1},                    // wave weight
      {0.01, 0, 0.1},                 // power exponent
      {start.latency_us, 0.01, 0.6},  // tile latency us
      {start.l2_share, 0.2, 1.5},     // share of L2
      {2, 1, 8},                      // speed-up by L2
  };
}

GemmModel model_of(const std::vector<double>& x, double l2_bytes) {
  GemmModel model;
  model.t0 = x[0] * 1e-6;
  model.efficiency = x[1];
  model.memory_efficiency = x[2];
  model.k0 = x[3];
  model.tile_exponent = x[4];
  model.split_cost = x[5] * 1e-6;
  model.reread = x[6];
  model.norm = x[7];
  model.wave_weight = x[8];
  model.power_knee = kPowerKnee;
  model.power_exponent = x[9];
  model.tile_latency = x[10] * 1e-6;
  model.l2_bytes = x[11] * l2_bytes;
  model.l2_speedup = x[12];
  return model;
}

/// Seconds of quantising the m x k activations, read in 16 bit and written in 8; 0 for 16-bit multiplications.
double quantisation(const GemmShape& shape, const GpuPeak& gpu, Precision precision, const MemoryModel& quantise) {
  if (precision == Precision::bf16) return 0;
  return memory_bound_seconds(quantise, gpu.bandwidth, Bytes{3 * shape.m * shape.k});
}

/// Every seventh sample: 74 rows of m to a weight, so that each m is met in turn.
std::vector<GemmSample> thinned(const std::vector<GemmSample>& samples) {
  constexpr std::size_t kEvery = 7;
  std::vector<GemmSample> kept;
  for (std::size_t i = 0; i < samples.size(); i += kEvery) kept.push_back(samples[i]);
  return kept;
}

}  // namespace

bool is_large(const GemmShape& shape) { return std::min({shape.m, shape.n, shape.k}) >= 1024; }

GemmSamples read_gemm_samples(const Table& table, const std::string& dtype) {
  const std::size_t source = table.column("src");
  const std::size_t type = table.column("dtype");
  const std::size_t m = table.column("m");
  const std::size_t n = table.column("n");
  const std::size_t k = table.column("k");
  const std::size_t latency = table.column("latency_us");
  GemmSamples samples;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.text(row, type) != dtype || table.text(row, source).starts_with("vllm")) continue;
    const GemmShape shape{table.integer(row, m), table.integer(row, n), table.integer(row, k)};
    auto& part = held_out_weight(shape.n, shape.k) ? samples.held_out : samples.fitted;
    part.push_back({shape, table.number(row, latency) * 1e-6, aiconfigurator_loop(table.text(row, source))});
  }
  return samples;
}

GemmFit fit_gemm(const GemmSamples& samples, const GpuPeak& gpu, double l2_bytes, Precision precision,
                 const MemoryModel& quantise, const std::string& data) {
  const GemmElements elements = gemm_elements(precision);
  const auto predict = [&](const GemmModel& model, const GemmSample& sample) {
    return gemm_seconds(model, gpu, sample.shape, elements, sample.loop) +
           quantisation(sample.shape, gpu, precision, quantise);
  };
  // Training runs on the large ones; the small ones of narrow formats are quantising kernels for the most part.
  const double large_weight = precision == Precision::bf16 ? 2 : 5;
  const std::vector<GemmSample> fitted = thinned(samples.fitted);
  const auto loss = [&](const std::vector<double>& x) {
    const GemmModel model = model_of(x, l2_bytes);
    LogError error;
    for (const GemmSample& sample : fitted)
      error.add(predict(model, sample), sample.seconds, is_large(sample.shape) ? large_weight : 1);
    return error.mean();
  };
  std::vector<std::future<std::vector<double>>> searches;
  for (const Start& start : kStarts)
    searches.push_back(
        std::async(std::launch::async, [&loss, start] { return minimize(parameters(start), loss, kEvaluations); }));
  std::vector<double> best = searches.front().get();
  for (std::size_t i = 1; i < searches.size(); ++i)
    if (std::vector<double> found = searches[i].get(); loss(found) < loss(best)) best = std::move(found);
  GemmFit fit{model_of(best, l2_bytes), {}, {}};
  for (const GemmSample& sample : samples.held_out) {
    const double predicted = predict(fit.model, sample);
    fit.held_out.add(predicted, sample.seconds);
    if (is_large(sample.shape)) fit.large.add(predicted, sample.seconds);
  }
  fit.model.fit = {data, static_cast<int>(samples.fitted.size()), fit.large.mean()};
  return fit;
}

}  // namespace tracecast::calibrate
