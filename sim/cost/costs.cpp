#include "sim/cost/costs.hpp"

#include <algorithm>
#include <cmath>

#include "sim/base/result.hpp"
#include "sim/cost/attention.hpp"
#include "sim/cost/factorization.hpp"
#include "sim/cost/gemm.hpp"
#include "sim/cost/memory_bound.hpp"
#include "sim/cost/power_limit.hpp"
#include "sim/cost/rated_precision.hpp"
#include "sim/cost/scan.hpp"
#include "sim/cost/sparse_attention.hpp"

namespace tracecast {
namespace {

// Mean absolute deviation to standard deviation of a normal distribution, sqrt(pi / 2).
constexpr double kStandardDeviations = 1.2533;
// Spread gained per power of two between a shape and its nearest measured shape: chosen, not fitted.
constexpr double kSpreadPerDoubling = 0.05;
// Achieved share of peak of GPUs of which nothing is known: the medians of docs/references.md#gemm-fit,
// docs/references.md#attention-fit and docs/references.md#memory-bound-fit, rounded down.
const GemmModel kUnknownGemm{.t0 = 3e-6,
                             .efficiency = 0.7,
                             .memory_efficiency = 0.8,
                             .k0 = 100,
                             .tile_exponent = 0.1,
                             .fit = {"specification", 0, 0.25}};
const AttentionModel kUnknownAttention{.kernel = "",
                                       .head_dim = 128,
                                       .causal = true,
                                       .t0 = 4e-6,
                                       .forward_efficiency = 0.5,
                                       .forward_s0 = 700,
                                       .backward_efficiency = 0.43,
                                       .backward_s0 = 900,
                                       .fit = {"specification", 0, 0.3}};
const MemoryModel kUnknownMemory{.t0 = 3e-6, .efficiency = 0.7, .fit = {"specification", 0, 0.3}};

/// The value of the precision itself, else of the first of those it borrows from; nullptr when there is none.
template <class T>
const T* borrow(const std::map<Precision, T>& values, Precision precision) {
  for (const Precision candidate : stand_ins(precision)) {
    const auto found = values.find(candidate);
    if (found != values.end()) return &found->second;
  }
  return nullptr;
}

GpuPeak peak(const Profile& profile, Precision precision, double clock) {
  return {clock * profile.peak_flops.at(rated_as(profile, precision)), profile.memory_bandwidth, profile.sms};
}

/// The multiplication whose clock all have in training: that which the in-training factors are defined on
/// (tools/accuracy/fit, 8192 cubed).
constexpr double kSustainedFlops = 2.0 * 8192 * 8192 * 8192;

/// In training the GPU is at its power limit all the time: long kernels do not lose more clock than short ones, as they do
/// where one shape is measured at a time. Runs say so: with the loss by length, MosaicML's micro-batches of 8 to 16 on
/// H100 come out 10 to 20 % slower than those of 1 to 3, and torchtitan's 70B (1.5e13 FLOPs at once) than its 8B.
GpuPeak at_sustained_clock(GpuPeak gpu, const auto& model, double flops) {
  if (model.power_knee <= 0) return gpu;
  gpu.flops *= std::pow(kSustainedFlops / std::max(flops, model.power_knee), -model.power_exponent);
  return gpu;
}

/// True for several experts at once. A group of one is a plain multiplication: Transformer Engine's GroupedLinear calls cuBLAS once
/// for each expert.
bool is_group(const Operator& op) {
  return op.kind == OperatorKind::grouped_gemm && std::get<GemmShape>(op.shape).batch > 1;
}

/// Whether isolated times become those inside a step. Without any factor they are asked for alone, or were measured inside one.
bool has_factors(InTraining factors) {
  factors.slowest_gpu = 1;
  factors.fit = {};
  return factors != InTraining{};
}

/// Tensor cores load operands in 16-byte pieces along their contiguous dimension.
bool unaligned(const GemmShape& shape, double element_bytes) {
  const auto per_load = static_cast<std::int64_t>(16 / element_bytes);
  return shape.n % per_load != 0 || shape.k % per_load != 0;
}

}  // namespace

const char* to_string(Provenance provenance) {
  switch (provenance) {
    case Provenance::measured:
      return "measured";
    case Provenance::interpolated:
      return "interpolated";
    case Provenance::analytic:
      return "analytic";
  }
  TRACECAST_ASSERT(false, "every provenance has a name");
}

Costs::Costs(Profile profile, std::string attention_kernel, GemmSeconds gemm)
    : profile_(std::move(profile)),
      attention_kernel_(std::move(attention_kernel)),
      gemm_(std::move(gemm)),
      in_training_(has_factors(profile_.in_training)) {
  const std::vector<std::string> kernels = attention_kernels(profile_);
  if (attention_kernel_.empty() && !kernels.empty()) attention_kernel_ = kernels.front();
  const bool known =
      attention_kernel_.empty() || std::find(kernels.begin(), kernels.end(), attention_kernel_) != kernels.end();
  TRACECAST_ASSERT(known, "the profile has the attention kernel that is asked for");
  measured_ = MeasuredTable(profile_.measured, [this](const Operator& op) { return modelled(op, 1).seconds; });
}

OperatorCost Costs::of(const Operator& op) const {
  if (const auto* const shape = std::get_if<ElementwiseShape>(&op.shape); shape != nullptr && shape->kernels > 1) {
    Operator part = op;
    part.shape = ElementwiseShape{shape->elements / shape->kernels, shape->traffic / shape->kernels};
    OperatorCost cost = of(part);
    cost.duration = cost.duration * shape->kernels;
    return cost;
  }
  OperatorCost cost = at_rated_clock(op);
  cost.beside_collectives = share_beside_collectives(op);
  if (profile_.clock == 1) return cost;
  const double slower = modelled(op, profile_.clock).seconds / modelled(op, 1).seconds;
  cost.duration = from_seconds(seconds(cost.duration) * slower);
  cost.spread = std::hypot(cost.spread, kPowerLawSpread * (slower - 1));
  return cost;
}

OperatorCost Costs::at_rated_clock(const Operator& op) const {
  const double factor =
      factor_in_training(op) * (op.kind == OperatorKind::optimizer ? 1 : profile_.in_training.slowest_gpu);
  const double factor_spread = kStandardDeviations * profile_.in_training.fit.residual;
  if (const MeasuredOperator* measured = measured_.exact(op))
    return {.duration = from_seconds(measured->seconds * factor),
            .spread = std::hypot(measured->spread, factor_spread),
            .provenance = Provenance::measured};
  Modelled model = modelled(op, 1);
  double spread = kStandardDeviations * model.fit->residual;
  Provenance provenance = model.fit->samples > 0 ? Provenance::interpolated : Provenance::analytic;
  if (const auto correction = measured_.around(op)) {
    model.seconds *= std::exp(correction->log_ratio);
    spread = std::min(spread, std::hypot(correction->spread, kSpreadPerDoubling * correction->distance));
    provenance = Provenance::interpolated;
  }
  return {.duration = from_seconds(model.seconds * factor),
          .spread = std::hypot(spread, factor_spread),
          .provenance = provenance};
}

Costs::Modelled Costs::modelled(const Operator& op, double clock) const {
  if (std::holds_alternative<GemmShape>(op.shape)) return modelled_gemm(op, clock);
  if (op.kind == OperatorKind::attention) return modelled_attention(op, clock);
  if (op.kind == OperatorKind::scan)
    return {scan_seconds(peak(profile_, Precision::bf16, clock), op), &unmeasured_fit()};
  if (op.kind == OperatorKind::indexer || op.kind == OperatorKind::sparse_attention)
    return {sparse_attention_seconds(peak(profile_, Precision::bf16, clock), op), &unmeasured_fit()};
  if (std::holds_alternative<FactorizationShape>(op.shape))
    return {factorization_seconds(peak(profile_, Precision::fp32, clock), op), &unmeasured_fit()};
  return modelled_memory_bound(op);
}

Costs::Modelled Costs::modelled_gemm(const Operator& op, double clock) const {
  const GemmShape& shape = std::get<GemmShape>(op.shape);
  const GemmModel* model = borrow(profile_.gemm, op.precision);
  // Grouped multiplications were measured in 16 bit; other precisions run at the rate of their dense ones.
  const bool grouped = is_group(op) && !few_bits(op.precision);
  if (grouped && profile_.grouped_gemm.fit.residual > 0) model = &profile_.grouped_gemm;
  if (model == nullptr) model = &kUnknownGemm;
  GpuPeak gpu = peak(profile_, op.precision, clock);
  if (in_training_) gpu = at_sustained_clock(gpu, *model, flops(op).count);
  double seconds = gemm_(*model, gpu, shape, gemm_elements(op.precision));
  // Measured on scores only; linear layers and vocabularies are padded to multiples of 8 where it matters.
  if (op.kind == OperatorKind::scores && unaligned(shape, gemm_elements(op.precision).operand))
    seconds *= model->unaligned_factor;
  if (op.pass == Pass::dgrad) seconds *= model->dgrad_factor;
  if (op.pass == Pass::wgrad) seconds *= model->wgrad_factor;
  return {seconds, &model->fit};
}

const AttentionModel& Costs::attention_model(const Operator& op) const {
  const AttentionModel* model =
      nearest_attention_model(profile_.attention, attention_kernel_, std::get<AttentionShape>(op.shape), op.precision);
  return model == nullptr ? kUnknownAttention : *model;
}

GpuPeak Costs::attention_peak(const Operator& op, const AttentionModel& model, double flops, double clock) const {
  const GpuPeak gpu = peak(profile_, op.precision == Precision::fp32 ? Precision::fp32 : model.precision, clock);
  return in_training_ ? at_sustained_clock(gpu, model, flops) : gpu;
}

double Costs::between_head_sizes(
    const Operator& op, const std::function<double(const AttentionModel&, const AttentionShape&)>& seconds) const {
  const auto& shape = std::get<AttentionShape>(op.shape);
  const AttentionModel& nearest = attention_model(op);
  const auto time = [&](const AttentionModel& model, const AttentionShape& worked) {
    return seconds(model, worked_shape(model, worked, op.pass != Pass::forward));
  };
  const AttentionModel* opposite = opposite_attention_model(profile_.attention, nearest, shape.qk_dim);
  if (opposite == nullptr) return time(nearest, shape);
  const auto of_its_size = [&](const AttentionModel& model) {
    AttentionShape own = shape;
    own.qk_dim = model.head_dim;
    own.v_dim = std::max<std::int64_t>(1, shape.v_dim * model.head_dim / shape.qk_dim);
    return time(model, own);
  };
  const auto doublings = [&](std::int64_t size) {
    return std::log2(static_cast<double>(size) / static_cast<double>(nearest.head_dim));
  };
  const double start = of_its_size(nearest);
  return start * std::pow(of_its_size(*opposite) / start, doublings(shape.qk_dim) / doublings(opposite->head_dim));
}

Costs::Modelled Costs::modelled_attention(const Operator& op, double clock) const {
  const bool backward = op.pass != Pass::forward;
  const double seconds = between_head_sizes(op, [&](const AttentionModel& model, const AttentionShape& shape) {
    const GpuPeak gpu = attention_peak(op, model, attention_flops(shape, backward), clock);
    return attention_seconds(model, gpu, shape, backward);
  });
  return {seconds, &attention_model(op).fit};
}

Duration Costs::over_documents(const Operator& op, std::span<const std::int32_t> lengths, std::int64_t sequence) const {
  const bool backward = op.pass != Pass::forward;
  const double seconds = between_head_sizes(op, [&](const AttentionModel& model, const AttentionShape& shape) {
    double flops = 0;
    for (const std::int32_t length : lengths)
      flops += attention_flops(document_shape(shape, length, sequence), backward);
    const GpuPeak gpu = attention_peak(op, model, flops, profile_.clock);
    return packed_attention_seconds(model, gpu, shape, lengths, sequence, backward);
  });
  return from_seconds(seconds * factor_in_training(op) * profile_.in_training.slowest_gpu);
}

Costs::Modelled Costs::modelled_memory_bound(const Operator& op) const {
  const MemoryModel* model = find_memory_model(profile_, op.kind, op.pass);
  if (model == nullptr) model = &kUnknownMemory;
  return {memory_bound_seconds(*model, profile_.memory_bandwidth, std::get<ElementwiseShape>(op.shape).traffic),
          &model->fit};
}

double Costs::share_beside_collectives(const Operator& op) const {
  constexpr double kTile = 256.0 * 128;
  const auto* const shape = std::get_if<GemmShape>(&op.shape);
  if (shape == nullptr || profile_.gemm_extra_waves <= 0) return 0;
  const double tiles =
      static_cast<double>(shape->batch) * static_cast<double>(shape->m) * static_cast<double>(shape->n) / kTile;
  const double waves = std::max(1.0, tiles / profile_.sms);
  return std::min(1.0, profile_.gemm_extra_waves / waves);
}

double Costs::factor_in_training(const Operator& op) const {
  const InTraining& factors = profile_.in_training;
  switch (op.kind) {
    case OperatorKind::gemm:
    case OperatorKind::grouped_gemm: {
      const bool grouped = is_group(op);
      const double rate = grouped ? factors.grouped_gemm : gemm_factor(profile_, op.precision);
      return op.pass == Pass::wgrad ? rate * factors.weight_gradient : rate;
    }
    case OperatorKind::attention:
    case OperatorKind::indexer:
    case OperatorKind::sparse_attention:
      return factors.attention;
    case OperatorKind::scores:
      return factors.scores;
    case OperatorKind::softmax:
      return factors.softmax;
    case OperatorKind::optimizer:
      return 1;
    default:
      return factors.memory;
  }
}

}  // namespace tracecast
