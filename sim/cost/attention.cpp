#include "sim/cost/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "sim/base/integers.hpp"
#include "sim/cost/power_limit.hpp"

namespace tracecast {
namespace {

constexpr double kQueryTile = 128;
constexpr double kElementBytes = 2;

double as_double(std::int64_t value) { return static_cast<double>(value); }

/// Keys of one query, before the causal mask.
double keys_in_reach(const AttentionShape& shape) {
  const double keys = as_double(shape.kv_len);
  if (shape.window == 0) return keys;
  // A causal window of w behaves like a causal sequence of 2w: w keys per query.
  return std::min(keys, as_double(shape.window) * (shape.causal ? 2 : 1));
}

/// Query, key, value and output once; backward reads them with the output's gradient and writes three gradients.
double traffic(const AttentionShape& shape, bool backward) {
  const double queries = as_double(shape.batch * shape.q_len * shape.heads);
  const double keys = as_double(shape.batch * shape.kv_len * shape.kv_heads);
  const double once = kElementBytes * (queries + keys) * as_double(shape.qk_dim + shape.v_dim);
  return backward ? 2 * once : once;
}

/// Tensor-core time of the tile of queries that sees most keys.
double longest_cta(const AttentionShape& shape, bool backward, double flops_of_sm) {
  const double keys =
      shape.window > 0 ? std::min(as_double(shape.window), as_double(shape.kv_len)) : as_double(shape.kv_len);
  return 2 * std::min(kQueryTile, as_double(shape.q_len)) * keys * as_double(shape.qk_dim + shape.v_dim) *
         (backward ? 2.5 : 1) / flops_of_sm;
}

}  // namespace

double attention_flops(const AttentionShape& shape, bool backward) {
  const double forward =
      2 * as_double(shape.batch * shape.heads) * attention_pairs(shape) * as_double(shape.qk_dim + shape.v_dim);
  return backward ? 2.5 * forward : forward;
}

std::vector<std::string> attention_kernels(const Profile& profile) {
  std::vector<std::string> kernels;
  for (const AttentionModel& model : profile.attention)
    if (std::find(kernels.begin(), kernels.end(), model.kernel) == kernels.end()) kernels.push_back(model.kernel);
  return kernels;
}

bool has_attention_in(const Profile& profile, const std::string& kernel, Precision precision) {
  const std::string& wanted = kernel.empty() && !profile.attention.empty() ? profile.attention.front().kernel : kernel;
  return std::any_of(profile.attention.begin(), profile.attention.end(), [&](const AttentionModel& model) {
    return model.kernel == wanted && model.precision == precision;
  });
}

const AttentionModel* nearest_attention_model(std::span<const AttentionModel> models, const std::string& kernel,
                                              const AttentionShape& shape, Precision precision) {
  const AttentionModel* nearest = nullptr;
  const auto distance = [&](const AttentionModel& model) {
    const double size = std::abs(std::log2(as_double(model.head_dim) / as_double(shape.qk_dim)));
    return size + (model.causal == shape.causal ? 0 : 100) + (model.precision == precision ? 0 : 10'000);
  };
  const auto usable = [&](const AttentionModel& model) {
    return model.kernel == kernel && (model.precision == precision || model.precision == Precision::bf16);
  };
  for (const AttentionModel& model : models)
    if (usable(model) && (nearest == nullptr || distance(model) < distance(*nearest))) nearest = &model;
  return nearest;
}

const AttentionModel* opposite_attention_model(std::span<const AttentionModel> models, const AttentionModel& nearest,
                                               std::int64_t head_dim) {
  const AttentionModel* opposite = nullptr;
  const auto beyond = [&](std::int64_t size) {  // how far on the other side
    return nearest.head_dim < head_dim ? size - head_dim : head_dim - size;
  };
  if (nearest.head_dim == head_dim) return nullptr;
  for (const AttentionModel& model : models) {
    if (model.kernel != nearest.kernel || model.causal != nearest.causal || model.precision != nearest.precision)
      continue;
    if (beyond(model.head_dim) < 0) continue;
    if (opposite == nullptr || beyond(model.head_dim) < beyond(opposite->head_dim)) opposite = &model;
  }
  return opposite;
}

AttentionShape worked_shape(const AttentionModel& model, AttentionShape shape, bool backward) {
  if (backward && is_narrow(model.precision)) shape.window = 0;
  return shape;
}

double attention_seconds(const AttentionModel& model, const GpuPeak& gpu, const AttentionShape& shape, bool backward) {
  const double flops = attention_flops(shape, backward);
  const double efficiency = (backward ? model.backward_efficiency : model.forward_efficiency) *
                            power_loss(model.power_knee, model.power_exponent, flops);
  const double s0 = backward ? model.backward_s0 : model.forward_s0;
  const double keys = keys_in_reach(shape);
  const double spread_over_gpu = flops / (gpu.flops * efficiency * keys / (keys + s0));
  const double longest = longest_cta(shape, backward, gpu.flops / gpu.sms * efficiency);
  return model.t0 + std::max({spread_over_gpu, longest, traffic(shape, backward) / gpu.bandwidth});
}

AttentionShape document_shape(const AttentionShape& shape, std::int64_t length, std::int64_t sequence) {
  AttentionShape document = shape;
  document.batch = 1;
  document.q_len = ceil_div(length * shape.q_len, sequence);
  document.kv_len = ceil_div(length * shape.kv_len, sequence);
  document.attended = share_in_window(document);
  return document;
}

double packed_attention_seconds(const AttentionModel& model, const GpuPeak& gpu, const AttentionShape& shape,
                                std::span<const std::int32_t> lengths, std::int64_t sequence, bool backward) {
  double flops = 0;
  double work = 0;  // FLOPs over the efficiency that their document's length allows
  double bytes = 0;
  AttentionShape longest;
  for (const std::int32_t length : lengths) {
    const AttentionShape document = document_shape(shape, length, sequence);
    const double own = attention_flops(document, backward);
    const double keys = keys_in_reach(document);
    flops += own;
    work += own * (keys + (backward ? model.backward_s0 : model.forward_s0)) / keys;
    bytes += traffic(document, backward);
    if (document.kv_len > longest.kv_len) longest = document;
  }
  const double efficiency = (backward ? model.backward_efficiency : model.forward_efficiency) *
                            power_loss(model.power_knee, model.power_exponent, flops);
  return model.t0 + std::max({work / (gpu.flops * efficiency),
                              longest_cta(longest, backward, gpu.flops / gpu.sms * efficiency), bytes / gpu.bandwidth});
}

}  // namespace tracecast
