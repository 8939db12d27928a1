#include "sim/cost/gemm.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/base/integers.hpp"
#include "sim/base/result.hpp"
#include "sim/cost/power_limit.hpp"

namespace tracecast {
namespace {

struct Tile {
  int m;
  int n;
  int halvings;  ///< log2(32768 / (m n)): how far the tile is below the largest one
};
constexpr std::array<Tile, 10> kTiles{{{256, 128, 0},
                                       {128, 256, 0},
                                       {128, 128, 1},
                                       {64, 256, 1},
                                       {256, 64, 1},
                                       {128, 64, 2},
                                       {64, 128, 2},
                                       {64, 64, 3},
                                       {64, 32, 4},
                                       {32, 64, 4}}};
constexpr std::int64_t kStep = 32;  // of k, at a time
constexpr double kFullWaves = 6;    // chosen: with more waves a split of k fills no idle SM
// As the fit of ragged_factor counts (docs/formats/profile.md).
constexpr std::int64_t kRaggedRows = 128;
constexpr std::array<int, 11> kSplits{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64};

/// (a^q + b^q)^(1/q), without overflow.
double power_sum(double a, double b, double q) {
  const double high = std::max(a, b);
  const double low = std::min(a, b);
  return high * std::pow(1 + std::pow(low / high, q), 1 / q);
}

/// One choice of tile and split.
struct Choice {
  double compute;
  double memory;
  double extra;
  double bound() const { return std::max(compute, memory) + extra; }
  double seconds(double q) const { return power_sum(compute, memory, q) + extra; }
};

/// What does not depend on the choice.
struct Work {
  const GemmModel& model;
  const GpuPeak& gpu;
  const GemmShape& shape;
  OperandBytes bytes;
  double compulsory;  ///< bytes
  double sm_rate;     ///< FLOP/s of one SM

  double byte_rate() const { return gpu.bandwidth * model.memory_efficiency; }
  double elements() const { return static_cast<double>(shape.batch * shape.m * shape.n); }
  double reread(std::int64_t rows, std::int64_t columns) const {
    return model.reread * (static_cast<double>(columns - 1) * bytes.left + static_cast<double>(rows - 1) * bytes.right);
  }
  double wave_count(double units) const {
    const double waves = units / gpu.sms;
    return model.wave_weight * std::ceil(waves) + (1 - model.wave_weight) * std::max(waves, 1.0);
  }
  double depth(int split) const { return static_cast<double>(kStep * ceil_div(shape.k, kStep * split)) + model.k0; }
};

Work work_of(const GemmConditions& conditions, const GemmModel& model, const GpuPeak& gpu, const GemmShape& shape,
             GemmElements elements) {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const auto batch = static_cast<double>(shape.batch);
  const double rate = gpu.flops / gpu.sms * model.efficiency *
                      power_loss(model.power_knee, model.power_exponent, 2 * batch * m * n * k);
  return {model, gpu, shape, operand_bytes(model, shape, elements), conditions.memory_bytes, rate * conditions.rate};
}

/// The tile that the rows select.
Choice listed(const Work& work) {
  const GemmModel& model = work.model;
  const GemmShape& shape = work.shape;
  const auto tile = std::find_if(model.tiles.begin(), model.tiles.end(),
                                 [&](const GemmTile& t) { return t.rows == 0 || shape.m <= t.rows; });
  TRACECAST_ASSERT(tile != model.tiles.end(), "the last tile of a list serves any number of rows");
  const std::int64_t rows = tile->together * ceil_div(ceil_div(shape.m, tile->m), tile->together);
  const std::int64_t columns = ceil_div(shape.n, tile->n);
  const double per_k = std::max(2.0 * tile->m * tile->n / work.sm_rate, tile->latency / 64);
  const bool ragged = shape.m > kRaggedRows && shape.m % 16 != 0;
  return {work.wave_count(static_cast<double>(shape.batch * rows * columns)) * per_k * work.depth(1) *
              (ragged ? model.ragged_factor : 1),
          (work.compulsory + work.reread(rows, columns)) / work.byte_rate(), 0};
}

/// Seconds of the fastest tile and split.
double fastest(const Work& work) {
  const GemmModel& model = work.model;
  const GemmShape& shape = work.shape;
  const double halving_loss = std::exp2(-model.tile_exponent);
  std::array<double, 5> tile_rate{work.sm_rate};
  for (std::size_t i = 1; i < tile_rate.size(); ++i) tile_rate[i] = tile_rate[i - 1] * halving_loss;

  // Lower bounds of all choices first: the norm, which is the costly part, is then taken of few.
  std::array<Choice, kTiles.size() * kSplits.size()> choices;
  std::size_t count = 0;
  std::size_t first = 0;
  for (const Tile& tile : kTiles) {
    const std::int64_t rows = ceil_div(shape.m, tile.m);
    const std::int64_t columns = ceil_div(shape.n, tile.n);
    const double units = static_cast<double>(shape.batch * rows * columns);
    const double once = work.compulsory + work.reread(rows, columns);
    const double per_k =
        std::max(2.0 * tile.m * tile.n / tile_rate[static_cast<std::size_t>(tile.halvings)], model.tile_latency / 64);
    for (const int split : kSplits) {
      if (split > 1 && (!model.splits || shape.k < 64 * split)) break;
      if (split > 1 && units * split / work.gpu.sms > kFullWaves) break;  // nothing is idle that one more could use
      const double partial_sums = split > 1 ? 4 * work.elements() * split : 0;
      choices[count] = {work.wave_count(units * split) * per_k * work.depth(split),
                        (once + partial_sums) / work.byte_rate(), split > 1 ? model.split_cost : 0};
      if (choices[count].bound() < choices[first].bound()) first = count;
      ++count;
    }
  }
  double best = choices[first].seconds(model.norm);
  for (std::size_t i = 0; i < count; ++i)
    if (i != first && choices[i].bound() < best) best = std::min(best, choices[i].seconds(model.norm));
  return best;
}

}  // namespace

GemmElements gemm_elements(Precision precision) {
  return {quantised_size(precision), precision == Precision::fp32 ? 4.0 : 2.0};
}

OperandBytes operand_bytes(const GemmModel& model, const GemmShape& shape, GemmElements elements) {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const auto batch = static_cast<double>(shape.batch);
  // An accumulating kernel reads and writes its fp32 result.
  const double result = (shape.accumulate_fp32 ? 8 : elements.result) * model.result_weight;
  return {batch * m * k * elements.operand, batch * k * n * elements.operand, batch * m * n * result};
}

double gemm_seconds(const GemmModel& model, const GpuPeak& gpu, const GemmShape& shape, GemmElements elements) {
  return gemm_seconds_under({operand_bytes(model, shape, elements).sum(), 1}, model, gpu, shape, elements);
}

double gemm_seconds_under(const GemmConditions& conditions, const GemmModel& model, const GpuPeak& gpu,
                          const GemmShape& shape, GemmElements elements) {
  const Work work = work_of(conditions, model, gpu, shape, elements);
  return model.t0 + (model.tiles.empty() ? fastest(work) : listed(work).seconds(model.norm));
}

}  // namespace tracecast
