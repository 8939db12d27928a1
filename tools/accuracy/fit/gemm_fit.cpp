#include "tools/accuracy/fit/gemm_fit.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <future>

#include "tools/accuracy/held_out.hpp"
#include "tools/accuracy/rows/table_fields.hpp"

namespace tracecast::accuracy {
namespace {

// The clock of Hopper and Blackwell starts to fall at about this size (docs/references.md#gemm-fit: flat from 1e11 to
// 1e12, -5 to -10 % above 1e13); the exponent is fitted.
constexpr double kPowerKnee = 1e11;
constexpr int kEvaluations = 2400;

/// Starts of the search, which has several local minima.
struct Start {
  double latency_us;
  double l2_share;  ///< of the cache
};
constexpr Start kStarts[] = {{0.08, 1}, {0.25, 1}, {0.08, 0.6}, {0.25, 0.6}};

/// A searched parameter: its range, and how to set it in the model.
struct Searched {
  Parameter range;
  std::function<void(GemmModel&, double)> set;
};

/// A member that is searched in units of `unit`.
Searched member(double GemmModel::*parameter, const Parameter& range, double unit = 1) {
  return {range, [=](GemmModel& model, double x) { model.*parameter = x * unit; }};
}

Searched member(double GemmBenchmark::*parameter, const Parameter& range, double unit = 1) {
  return {range, [=](GemmModel& model, double x) { model.benchmark.*parameter = x * unit; }};
}

constexpr double kMicroseconds = 1e-6;

std::vector<Searched> searched(const GemmTask& task, const GemmLibrary& library, const Start& start) {
  const bool narrow = task.precision != Precision::bf16;
  std::vector<Searched> all;
  if (task.t0 <= 0) all.push_back(member(&GemmModel::t0, {2.6, 0.5, 30}, kMicroseconds));
  all.push_back(member(&GemmModel::efficiency, {0.8, 0.2, 0.98}));
  all.push_back(member(&GemmModel::memory_efficiency, {0.8, 0.4, 1}));
  all.push_back(member(&GemmModel::k0, {100, 0, narrow ? 600.0 : 400.0}));
  if (library.tiles.empty()) all.push_back(member(&GemmModel::tile_exponent, {0.1, 0, 0.6}));
  if (library.splits) all.push_back(member(&GemmModel::split_cost, {1.7, 0.1, 6}, kMicroseconds));
  all.push_back(member(&GemmModel::reread, {0.01, 0, 0.2}));
  all.push_back(member(&GemmModel::norm, {3, 1, 8}));
  all.push_back(member(&GemmModel::wave_weight, {0.8, 0, 1}));
  all.push_back(member(&GemmModel::power_exponent, {0.01, 0, narrow ? 0.2 : 0.1}));
  if (library.tiles.empty())
    all.push_back(member(&GemmModel::tile_latency, {start.latency_us, 0.01, 0.6}, kMicroseconds));
  all.push_back(member(&GemmBenchmark::l2_bytes, {start.l2_share, 0.2, 1.5}, task.l2_bytes));
  all.push_back(member(&GemmBenchmark::l2_speedup, {2, 1, 8}));
  if (task.nodes) all.push_back(member(&GemmBenchmark::node_rate, {1, 0.8, 1.25}));
  if (task.nodes || narrow) all.push_back(member(&GemmModel::result_weight, {1.2, 0.5, 3}));
  if (narrow) {
    all.push_back(member(&GemmBenchmark::quantise_t0, {3, 0, 20}, kMicroseconds));
    all.push_back(member(&GemmBenchmark::quantise_efficiency, {0.6, 0.1, 2}));
  }
  if (library.tiles.empty()) return all;
  all.push_back(member(&GemmModel::ragged_factor, {1.05, 1, 2}));
  for (std::size_t i = 0; i < library.tiles.size(); ++i)
    all.push_back({{start.latency_us, 0.001, 0.8},
                   [i](GemmModel& model, double x) { model.tiles[i].latency = x * kMicroseconds; }});
  return all;
}

GemmModel model_of(const std::vector<Searched>& searched, const std::vector<double>& x, const GemmTask& task,
                   const GemmLibrary& library) {
  GemmModel model;
  model.t0 = task.t0;
  model.power_knee = kPowerKnee;
  model.splits = library.splits;
  model.tiles = library.tiles;
  for (std::size_t i = 0; i < x.size(); ++i) searched[i].set(model, x[i]);
  return model;
}

/// Every seventh sample. Each weight has 74 rows of m, so that all m occur.
std::vector<GemmSample> thinned(const std::vector<GemmSample>& samples) {
  constexpr std::size_t kEvery = 7;
  std::vector<GemmSample> kept;
  for (std::size_t i = 0; i < samples.size(); i += kEvery) kept.push_back(samples[i]);
  return kept;
}

}  // namespace

bool is_large(const GemmShape& shape) { return std::min({shape.m, shape.n, shape.k}) >= 1024; }

GemmSamples read_gemm_samples(const CsvTable& table, const std::string& dtype) {
  GemmSamples samples;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const TableFields fields(table, row);
    const std::string& source = fields.text("src");
    if (fields.text("dtype") != dtype || source.starts_with("vllm")) continue;
    const GemmShape shape{fields.integer_or_zero("m"), fields.integer_or_zero("n"), fields.integer_or_zero("k")};
    auto& part = held_out_weight(shape.n, shape.k) ? samples.held_out : samples.fitted;
    part.push_back({shape, fields.number_or_zero("latency_us") * 1e-6, aiconfigurator_loop(source)});
  }
  return samples;
}

GemmLibrary measured_library(const std::string& profile, const std::string& architecture, Precision precision) {
  GemmLibrary library;
  library.splits = precision == Precision::bf16;
  if (precision == Precision::bf16 || precision == Precision::fp8_block) return library;
  // RTX PRO 6000, k = 4096: 31 us for any m and n up to 188 tiles of 128 x 128, one per SM, and 63 from there on.
  // H100 and B200, k = 65536 and 16384: steps of the time at 64, 128 and at 256 rows, and at 1024 rows of nvfp4.
  if (profile == "rtx-pro-6000")
    library.tiles = {{0, 128, 128}};
  else if (precision == Precision::nvfp4)
    library.tiles = {{1023, 128, 64}, {0, 128, 128, 2}};
  else if (architecture == "Hopper")
    library.tiles = {{64, 64, 64}, {128, 64, 64}, {0, 128, 128, 2}};
  else
    library.tiles = {{256, 128, 64}, {0, 128, 128, 2}};
  return library;
}

std::vector<int> fit_choices(const std::vector<ChoiceSample>& samples) {
  constexpr int kIterations = 60;
  constexpr double kSmallest = 0.03;  // residuals below it have the same weight
  constexpr double kHold = 20;        // as four samples at the node that are off by 20 %
  std::vector<double> values(kChoiceNodes, 0);
  for (int i = 0; i < kIterations; ++i) {
    std::vector<double> pull(kChoiceNodes, 0);
    std::vector<double> weight(kChoiceNodes, kHold);
    for (const ChoiceSample& sample : samples) {
      const auto nodes = choice_nodes(sample.shape);
      double rest = std::log(sample.seconds / sample.predicted);
      for (const ChoiceNode& node : nodes) rest -= node.share * values[node.index];
      const double w = 1 / std::max(std::abs(rest), kSmallest);
      for (const ChoiceNode& node : nodes) {
        pull[node.index] += w * node.share * rest;
        weight[node.index] += w * node.share;
      }
    }
    for (std::size_t n = 0; n < values.size(); ++n) values[n] += (pull[n] - kHold * values[n]) / weight[n];
  }
  std::vector<int> thousandths;
  for (const double value : values) thousandths.push_back(static_cast<int>(std::lround(1000 * value)));
  return thousandths;
}

GemmFit fit_gemm(const GemmSamples& samples, const GpuPeak& gpu, const GemmTask& task, const GemmLibrary& library,
                 const std::string& data) {
  const GemmElements elements = gemm_elements(task.precision);
  const auto predict = [&](const GemmModel& model, const GemmSample& sample) {
    return looped_gemm_seconds(sample.loop, model, gpu, sample.shape, elements) +
           quantisation_seconds(model, gpu, sample.shape, elements);
  };
  // Training runs on the large ones; the small ones of narrow formats are quantising kernels for the most part.
  const double large_weight = task.precision == Precision::bf16 ? 2 : 3;
  const std::vector<GemmSample> fitted = thinned(samples.fitted);
  struct Found {
    GemmModel model;
    double loss;
  };
  const auto search = [&](const Start& start) {
    const std::vector<Searched> all = searched(task, library, start);
    std::vector<Parameter> ranges;
    for (const Searched& parameter : all) ranges.push_back(parameter.range);
    const auto loss = [&](const std::vector<double>& x) {
      const GemmModel model = model_of(all, x, task, library);
      LogError error;
      for (const GemmSample& sample : fitted)
        error.add(predict(model, sample), sample.seconds, is_large(sample.shape) ? large_weight : 1);
      return error.mean();
    };
    const std::vector<double> x = minimize(ranges, loss, kEvaluations);
    return Found{model_of(all, x, task, library), loss(x)};
  };
  std::vector<std::future<Found>> searches;
  for (const Start& start : kStarts) searches.push_back(std::async(std::launch::async, search, start));
  Found best = searches.front().get();
  for (std::size_t i = 1; i < searches.size(); ++i)
    if (Found found = searches[i].get(); found.loss < best.loss) best = std::move(found);
  GemmFit fit{best.model, {}, {}, {}};
  std::vector<ChoiceSample> choices;
  for (const GemmSample& sample : samples.fitted)
    choices.push_back({sample.shape, predict(fit.model, sample), sample.seconds});
  fit.model.benchmark.choices = fit_choices(choices);
  for (const GemmSample& sample : samples.held_out) {
    const double predicted = predict(fit.model, sample);
    fit.held_out.add(predicted, sample.seconds);
    fit.chosen.add(predicted * choice_factor(fit.model, sample.shape), sample.seconds);
    if (is_large(sample.shape)) fit.large.add(predicted, sample.seconds);
  }
  fit.model.fit = {data, static_cast<int>(samples.fitted.size()), fit.large.mean()};
  return fit;
}

GemmModel with_fitted_share(GemmModel model, const std::vector<GemmSample>& samples, const GpuPeak& gpu,
                            Precision precision, const std::string& data) {
  const auto predicted = [&](double share, const GemmShape& shape) {
    GemmModel candidate = model;
    candidate.efficiency = share;
    return gemm_seconds(candidate, gpu, shape, gemm_elements(precision));
  };
  const auto fit = [&](const GemmSample* left_out) {
    const auto loss = [&](const std::vector<double>& share) {
      LogError error;
      for (const GemmSample& each : samples)
        if (&each != left_out) error.add(predicted(share.front(), each.shape), each.seconds);
      return error.mean();
    };
    return minimize({{0.6, 0.1, 1}}, loss, 200).front();
  };
  LogError error;
  for (const GemmSample& each : samples) error.add(predicted(fit(&each), each.shape), each.seconds);
  model.efficiency = fit(nullptr);
  model.fit = {data, error.samples(), error.mean()};
  return model;
}

}  // namespace tracecast::accuracy
