#include "tools/calibrate/gemm_fit.hpp"

#include <algorithm>

#include "sim/cost/memory_bound.hpp"
#include "sim/validation/held_out.hpp"

namespace tracecast::calibrate {
namespace {

// The clock of Hopper and Blackwell starts to fall at about this size (CALIBRATION.md 1: flat from 1e11 to 1e12, -5 to
// -10 % above 1e13); the exponent is fitted.
constexpr double kPowerKnee = 1e11;
constexpr int kEvaluations = 1500;

/// The nine fitted parameters and the loss of clock, in the order of `model_of`; microseconds where the model has seconds.
const std::vector<Parameter>& parameters() {
  static const std::vector<Parameter> kParameters{
      {2.6, 0.5, 30},    // t0 us
      {0.8, 0.2, 0.98},  // efficiency
      {0.8, 0.4, 1},     // memory efficiency
      {100, 0, 400},     // k0
      {0.1, 0, 0.6},     // tile exponent
      {1.7, 0.1, 6},     // split cost us
      {0.01, 0, 0.2},    // re-read
      {3, 1, 8},         // norm
      {0.8, 0, 1},       // wave weight
      {0.01, 0, 0.1},    // power exponent
  };
  return kParameters;
}

GemmModel model_of(const std::vector<double>& x) {
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
  return model;
}

/// Seconds of quantising the m x k activations, read in 16 bit and written in 8; 0 for 16-bit multiplications.
double quantisation(const GemmShape& shape, const GpuPeak& gpu, Precision precision, const MemoryModel& quantise) {
  if (precision == Precision::bf16) return 0;
  return memory_bound_seconds(quantise, gpu.bandwidth, Bytes{3 * shape.m * shape.k});
}

/// Every third large sample, every fifth other and every twelfth with few rows: training runs on the former.
std::vector<GemmSample> thinned(const std::vector<GemmSample>& samples) {
  std::vector<GemmSample> kept;
  std::size_t large = 0;
  std::size_t medium = 0;
  std::size_t small = 0;
  for (const GemmSample& sample : samples) {
    const bool keep = is_large(sample.shape) ? large++ % 3 == 0
                      : sample.shape.m >= 64 ? medium++ % 5 == 0
                                             : small++ % 12 == 0;
    if (keep) kept.push_back(sample);
  }
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
    part.push_back({shape, table.number(row, latency) * 1e-6});
  }
  return samples;
}

GemmFit fit_gemm(const GemmSamples& samples, const GpuPeak& gpu, Precision precision, const MemoryModel& quantise,
                 const std::string& data) {
  const GemmElements elements = gemm_elements(precision);
  const auto predict = [&](const GemmModel& model, const GemmShape& shape) {
    return gemm_seconds(model, gpu, shape, elements) + quantisation(shape, gpu, precision, quantise);
  };
  constexpr double kLargeWeight = 3;
  const std::vector<GemmSample> fitted = thinned(samples.fitted);
  const auto loss = [&](const std::vector<double>& x) {
    const GemmModel model = model_of(x);
    LogError error;
    for (const GemmSample& s : fitted)
      error.add(predict(model, s.shape), s.seconds, is_large(s.shape) ? kLargeWeight : 1);
    return error.mean();
  };
  GemmFit fit{model_of(minimize(parameters(), loss, kEvaluations)), {}, {}};
  for (const GemmSample& sample : samples.held_out) {
    const double predicted = predict(fit.model, sample.shape);
    fit.held_out.add(predicted, sample.seconds);
    if (is_large(sample.shape)) fit.large.add(predicted, sample.seconds);
  }
  fit.model.fit = {data, static_cast<int>(samples.fitted.size()), fit.large.mean()};
  return fit;
}

}  // namespace tracecast::calibrate
