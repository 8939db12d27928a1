#include "tools/accuracy/gemm_benchmark.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "sim/base/result.hpp"

namespace tracecast::accuracy {
namespace {

/// Share of `bytes`, all touched between two uses of the same ones, that L2 still holds: a soft step, since neither its
/// policy nor its slices are even.
double share_in_l2(const GemmBenchmark& benchmark, double bytes) {
  const double cubed = std::pow(bytes / benchmark.l2_bytes, 3);
  return 1 / (1 + cubed * cubed);
}

/// Bytes that take as long from memory as these in the loop of a benchmark do.
double memory_bytes(const GemmBenchmark& benchmark, const OperandBytes& bytes, GemmLoop loop) {
  if (loop.right == 0 || benchmark.l2_bytes <= 0) return bytes.sum();
  const double all = loop.left * bytes.left + loop.right * bytes.right + bytes.result;
  const double left = loop.left == 1 ? bytes.sum() : all;  // a single A is used by every kernel
  const auto in_memory = [&](double part, double working_set) {
    const double hit = share_in_l2(benchmark, working_set);
    return part * (1 - hit + hit / benchmark.l2_speedup);
  };
  return in_memory(bytes.left, left) + in_memory(bytes.right + bytes.result, all);
}

constexpr std::array<double, 6> kRowNodes{0, 4, 7, 9, 12, 15};
constexpr std::array<double, 6> kColumnNodes{5, 8, 10, 12, 14, 16};
constexpr std::array<double, 5> kDepthNodes{5, 8, 11, 13, 16};
static_assert(kRowNodes.size() * kColumnNodes.size() * kDepthNodes.size() == kChoiceNodes);

/// The cell of a grid axis that a size is in: its first node, and the share of the second one.
struct GridCell {
  std::size_t first;
  double share;
};
GridCell cell_of(std::span<const double> nodes, std::int64_t size) {
  const double x = std::clamp(std::log2(static_cast<double>(size)), nodes.front(), nodes.back());
  std::size_t first = 0;
  while (first + 2 < nodes.size() && x > nodes[first + 1]) ++first;
  return {first, (x - nodes[first]) / (nodes[first + 1] - nodes[first])};
}

}  // namespace

double looped_gemm_seconds(GemmLoop loop, const GemmModel& model, const GpuPeak& gpu, const GemmShape& shape,
                           GemmElements elements) {
  const double rate = loop.node == 0 ? 1 : loop.node > 0 ? model.benchmark.node_rate : 1 / model.benchmark.node_rate;
  const double bytes = memory_bytes(model.benchmark, operand_bytes(model, shape, elements), loop);
  return gemm_seconds_under({bytes, rate}, model, gpu, shape, elements);
}

Costs looped_costs(Profile profile, std::string attention_kernel, GemmLoop loop) {
  return Costs(std::move(profile), std::move(attention_kernel),
               [loop](const GemmModel& model, const GpuPeak& gpu, const GemmShape& shape, GemmElements elements) {
                 return looped_gemm_seconds(loop, model, gpu, shape, elements);
               });
}

double quantisation_seconds(const GemmModel& model, const GpuPeak& gpu, const GemmShape& shape, GemmElements elements) {
  if (model.benchmark.quantise_efficiency <= 0) return 0;
  constexpr double kWide = 2;  // bytes
  const auto activations = static_cast<double>(shape.batch * shape.m * shape.k);
  return model.benchmark.quantise_t0 +
         activations * (kWide + elements.operand) / (model.benchmark.quantise_efficiency * gpu.bandwidth);
}

std::array<ChoiceNode, 8> choice_nodes(const GemmShape& shape) {
  const GridCell m = cell_of(kRowNodes, shape.m);
  const GridCell n = cell_of(kColumnNodes, shape.n);
  const GridCell k = cell_of(kDepthNodes, shape.k);
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
  const std::vector<int>& choices = model.benchmark.choices;
  if (choices.empty()) return 1;
  TRACECAST_ASSERT(choices.size() == kChoiceNodes, "every node of the grid has a value");
  double thousandths = 0;
  for (const ChoiceNode& node : choice_nodes(shape)) thousandths += node.share * choices[node.index];
  return std::exp(thousandths / 1000);
}

}  // namespace tracecast::accuracy
