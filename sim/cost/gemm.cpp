#include "sim/cost/gemm.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "sim/base/integers.hpp"
#include "sim/base/result.hpp"

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
constexpr double kFullWaves = 6;
constexpr std::int64_t kRaggedRows = 128;
constexpr std::array<int, 11> kSplits{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64};

/// (a^q + b^q)^(1/q), without overflow.
double power_sum(double a, double b, double q) {
  const double high = std::max(a, b);
  const double low = std::min(a, b);
  return high * std::pow(1 + std::pow(low / high, q), 1 / q);
}

/// Efficiency left above the power knee.
double power_loss(const GemmModel& model, double flops) {
  if (model.power_knee <= 0 || flops <= model.power_knee) return 1;
  return std::pow(flops / model.power_knee, -model.power_exponent);
}

/// Share of `bytes`, all touched between two uses of the same ones, that L2 still holds: a soft step, since neither its
/// policy nor its slices are even.
double share_in_l2(const GemmModel& model, double bytes) {
  const double cubed = std::pow(bytes / model.l2_bytes, 3);
  return 1 / (1 + cubed * cubed);
}

/// Bytes of A, B and C.
struct OperandBytes {
  double left;
  double right;
  double result;
  double sum() const { return left + right + result; }
};

/// Bytes that take as long from memory as these in the loop of a benchmark do.
double memory_bytes(const GemmModel& model, const OperandBytes& bytes, GemmLoop loop) {
  if (loop.right == 0 || model.l2_bytes <= 0) return bytes.sum();
  const double all = loop.left * bytes.left + loop.right * bytes.right + bytes.result;
  const double left = loop.left == 1 ? bytes.sum() : all;  // a single A is used by every kernel
  const auto in_memory = [&](double part, double working_set) {
    const double hit = share_in_l2(model, working_set);
    return part * (1 - hit + hit / model.l2_speedup);
  };
  return in_memory(bytes.left, left) + in_memory(bytes.right + bytes.result, all);
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

Work work_of(const GemmModel& model, const GpuPeak& gpu, const GemmShape& shape, GemmElements elements, GemmLoop loop) {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const auto batch = static_cast<double>(shape.batch);
  // An accumulating kernel reads and writes its fp32 result.
  const double result = (shape.accumulate_fp32 ? 8 : elements.result) * model.result_weight;
  const OperandBytes bytes{batch * m * k * elements.operand, batch * k * n * elements.operand, batch * m * n * result};
  double rate = gpu.flops / gpu.sms * model.efficiency * power_loss(model, 2 * batch * m * n * k);
  if (loop.node != 0) rate *= loop.node > 0 ? model.node_rate : 1 / model.node_rate;
  return {model, gpu, shape, bytes, memory_bytes(model, bytes, loop), rate};
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

constexpr std::array<double, 6> kRowNodes{0, 4, 7, 9, 12, 15};
constexpr std::array<double, 6> kColumnNodes{5, 8, 10, 12, 14, 16};
constexpr std::array<double, 5> kDepthNodes{5, 8, 11, 13, 16};
static_assert(kRowNodes.size() * kColumnNodes.size() * kDepthNodes.size() == kChoiceNodes);

/// Between which nodes a size lies, and how far from the first one.
struct Place {
  std::size_t first;
  double share;
};
Place place_of(std::span<const double> nodes, std::int64_t size) {
  const double x = std::clamp(std::log2(static_cast<double>(size)), nodes.front(), nodes.back());
  std::size_t first = 0;
  while (first + 2 < nodes.size() && x > nodes[first + 1]) ++first;
  return {first, (x - nodes[first]) / (nodes[first + 1] - nodes[first])};
}

}  // namespace

GemmElements gemm_elements(Precision precision) {
  return {quantised_size(precision), precision == Precision::fp32 ? 4.0 : 2.0};
}

double gemm_seconds(const GemmModel& model, const GpuPeak& gpu, const GemmShape& shape, GemmElements elements,
                    GemmLoop loop) {
  const Work work = work_of(model, gpu, shape, elements, loop);
  return model.t0 + (model.tiles.empty() ? fastest(work) : listed(work).seconds(model.norm));
}

double quantisation_seconds(const GemmModel& model, const GpuPeak& gpu, const GemmShape& shape, GemmElements elements) {
  if (model.quantise_efficiency <= 0) return 0;
  constexpr double kWide = 2;  // bytes
  const auto activations = static_cast<double>(shape.batch * shape.m * shape.k);
  return model.quantise_t0 + activations * (kWide + elements.operand) / (model.quantise_efficiency * gpu.bandwidth);
}

std::array<ChoiceNode, 8> choice_nodes(const GemmShape& shape) {
  const Place m = place_of(kRowNodes, shape.m);
  const Place n = place_of(kColumnNodes, shape.n);
  const Place k = place_of(kDepthNodes, shape.k);
  std::array<ChoiceNode, 8> nodes;
  for (std::size_t corner = 0; corner < nodes.size(); ++corner) {
    const std::size_t up[] = {corner / 4, corner / 2 % 2, corner % 2};
    nodes[corner] = {((m.first + up[0]) * kColumnNodes.size() + n.first + up[1]) * kDepthNodes.size() + k.first + up[2],
                     (up[0] == 1 ? m.share : 1 - m.share) * (up[1] == 1 ? n.share : 1 - n.share) *
                         (up[2] == 1 ? k.share : 1 - k.share)};
  }
  return nodes;
}

double choice_factor(const GemmModel& model, const GemmShape& shape) {
  if (model.choices.empty()) return 1;
  TRACECAST_ASSERT(model.choices.size() == kChoiceNodes, "every node of the grid has a value");
  double thousandths = 0;
  for (const ChoiceNode& node : choice_nodes(shape)) thousandths += node.share * model.choices[node.index];
  return std::exp(thousandths / 1000);
}

}  // namespace tracecast
