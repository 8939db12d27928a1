#include "tools/accuracy/fit/attention_kernels.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "tools/accuracy/fit/fit.hpp"

namespace tracecast::accuracy {
namespace {

// The GPUs on which the kernels were measured, as rows of the table of data sheets; their models are shares of these peaks.
constexpr const char* kA100 = "A100-SXM-80GB";
constexpr const char* kH100 = "H100-SXM-80GB";
constexpr const char* kH200 = "H200-SXM-141GB";
constexpr const char* kB200 = "B200-SXM-180GB";
constexpr const char* kGB200 = "GB200";
constexpr const char* kRtxPro = "RTX-PRO-6000-Server";
constexpr const char* kMI300X = "MI300X";
constexpr const char* kMI355X = "MI355X";

constexpr const char* kFa2OnBlackwell = "FlashAttention 2 at its rate on Hopper (docs/references.md#fa2-blackwell)";

using Samples = std::vector<AttentionSample>;

/// Known parameters of both directions.
struct Known {
  double power_exponent = 0;
  double forward_s0 = -1;  ///< below 0: fitted
  double backward_s0 = -1;
};

/// Both directions fitted to training kernels.
AttentionModel fit_both(const std::string& kernel, const Samples& samples, std::int64_t head_dim, bool causal,
                        const GpuPeak& gpu, const std::string& data, const Known& known = {}) {
  const Samples selected = select(samples, head_dim, causal);
  const AttentionCurve forward =
      fit_attention(selected, false, gpu, {kAttentionT0, known.power_exponent, known.forward_s0});
  const AttentionCurve backward =
      fit_attention(selected, true, gpu, {kAttentionT0, known.power_exponent, known.backward_s0});
  return {.kernel = kernel,
          .head_dim = head_dim,
          .causal = causal,
          .t0 = kAttentionT0,
          .forward_efficiency = forward.efficiency,
          .forward_s0 = forward.s0,
          .backward_efficiency = backward.efficiency,
          .backward_s0 = backward.s0,
          .fit = {data, forward.samples + backward.samples, std::max(forward.residual, backward.residual)},
          .power_knee = known.power_exponent > 0 ? kAttentionPowerKnee : 0,
          .power_exponent = known.power_exponent};
}

/// cuDNN's kernels in 8 bits, of the head sizes that were measured with both masks.
std::vector<AttentionModel> in_8_bits(const CsvTable& cudnn, const std::string& gpu_name, Precision precision,
                                      const std::vector<std::int64_t>& head_dims, const GpuPeak& gpu,
                                      const std::string& data, const Known& known = {}) {
  const Samples samples = read_cudnn_samples(cudnn, gpu_name, to_string(precision));
  std::vector<AttentionModel> models;
  for (const std::int64_t head_dim : head_dims)
    for (const bool causal : {true, false}) {
      models.push_back(fit_both("cudnn", samples, head_dim, causal, gpu, data, known));
      models.back().precision = precision;
    }
  return models;
}

/// FlashAttention 2 on Hopper, without mask. Head size 128 has three lengths only, and repeated measurements of one
/// kernel differ by 4 %, so that s0 is taken from the five lengths of head size 64.
AttentionModel fa2_on_hopper(const AttentionTables& tables, std::int64_t head_dim) {
  const GpuPeak h100 = tables.peak(kH100, Precision::bf16);
  const Samples samples = read_published_samples(*tables.published, "H100-class(Hopper)", "FA2");
  const std::string data = "published-tables flash_attention_tflops, Hopper, FA2";
  const AttentionModel narrow = fit_both("fa2", samples, 64, false, h100, data);
  if (head_dim == 64) return narrow;
  return fit_both("fa2", samples, head_dim, false, h100, data + "; s0 of head size 64",
                  {.forward_s0 = narrow.forward_s0, .backward_s0 = narrow.backward_s0});
}

/// Another head size of the same kernel, by the ratio of two forward curves measured elsewhere.
AttentionModel scaled(AttentionModel model, std::int64_t head_dim, const AttentionCurve& wanted,
                      const AttentionCurve& reference, const std::string& data) {
  model.head_dim = head_dim;
  model.forward_efficiency *= wanted.efficiency / reference.efficiency;
  model.backward_efficiency *= wanted.efficiency / reference.efficiency;
  model.fit = {data, wanted.samples, std::max(wanted.residual, reference.residual)};
  return model;
}

/// Head size 256, whose backward pass was measured for FlashAttention 4 on H200 only: 314 of the 615 TFLOP/s of head size 128
/// (docs/references.md#wide-heads).
AttentionModel with_wide_backward(AttentionModel model, const AttentionModel& narrow) {
  constexpr double kOfHeadSize128 = 314.0 / 615, kResidual = 0.3;
  model.backward_efficiency = narrow.backward_efficiency * kOfHeadSize128;
  model.backward_s0 = narrow.backward_s0;
  model.fit.data += "; backward by FlashAttention 4's ratio on H200";
  model.fit.residual = std::max(model.fit.residual, kResidual);
  return model;
}

/// The same kernel with the other mask: same asymptote, s0 changed by the loss on the diagonal.
AttentionModel with_mask(AttentionModel model, bool causal, const AttentionModel& from, const AttentionModel& to) {
  model.causal = causal;
  model.forward_s0 = std::max(0.0, model.forward_s0 + to.forward_s0 - from.forward_s0);
  model.backward_s0 = std::max(0.0, model.backward_s0 + to.backward_s0 - from.backward_s0);
  model.fit.data += fmt::format("; mask by {}'s difference", from.kernel == "cudnn" ? "cuDNN" : from.kernel);
  return model;
}

/// Forward curve of a server's prefill, with its fixed cost and work on each token.
AttentionCurve serving_curve(const CsvTable& table, const std::string& framework, std::int64_t head_dim,
                             const GpuPeak& gpu) {
  return fit_attention(select(read_serving_samples(table, framework, true), head_dim, true), false, gpu, {-1});
}

/// FlashAttention-2's backward from a forward curve, by their ratio on Hopper.
AttentionModel with_fa2_backward(std::int64_t head_dim, const AttentionCurve& forward, const AttentionTables& tables,
                                 const std::string& data) {
  const AttentionModel hopper = fa2_on_hopper(tables, 128);
  return {.kernel = "fa2",
          .head_dim = head_dim,
          .causal = true,
          .t0 = kAttentionT0,
          .forward_efficiency = forward.efficiency,
          .forward_s0 = forward.s0,
          .backward_efficiency = forward.efficiency * hopper.backward_efficiency / hopper.forward_efficiency,
          .backward_s0 = std::max(0.0, forward.s0 + hopper.backward_s0 - hopper.forward_s0),
          .fit = {data + "; backward by FlashAttention-2's ratio on Hopper", forward.samples, forward.residual}};
}

/// A slower kernel of the same shape, known from whole runs only.
AttentionModel slower(AttentionModel model, const std::string& kernel, double factor, const std::string& data) {
  constexpr double kResidual = 0.15;  // between the sources of the factor
  model.kernel = kernel;
  model.forward_efficiency /= factor;
  model.backward_efficiency /= factor;
  model.fit = {data, 0, kResidual};
  return model;
}

/// `models`, followed by models of `kernel` for those of kernel `of` with head sizes up to 128.
std::vector<AttentionModel> with_slower(std::vector<AttentionModel> models, const std::string& of,
                                        const std::string& kernel, double factor, const std::string& data) {
  for (std::size_t i = 0, known = models.size(); i < known; ++i)
    if (models[i].kernel == of && models[i].head_dim <= 128 && !is_narrow(models[i].precision))
      models.push_back(slower(models[i], kernel, factor, data));
  return models;
}

/// docs/references.md#attention-by-year, from runs alone: MPT's attention with ALiBi, and Hopper's cuDNN before its
/// version 9.
std::vector<AttentionModel> with_triton(std::vector<AttentionModel> models) {
  return with_slower(std::move(models), "fa2", "triton", 1.33,
                     "FlashAttention with ALiBi in Triton: time of FlashAttention 2 x 1.33 "
                     "(docs/references.md#attention-by-year, Composer's runs)");
}
/// FlashAttention 2 is about twice as fast on A100, forward and backward (Dao 2023, arXiv 2307.08691, abstract).
std::vector<AttentionModel> with_first_flash(std::vector<AttentionModel> models) {
  return with_slower(std::move(models), "fa2", "fa1", 2.0,
                     "FlashAttention 1: time of FlashAttention 2 x 2 (arXiv 2307.08691, abstract, on A100)");
}
std::vector<AttentionModel> with_older_cudnn(std::vector<AttentionModel> models) {
  return with_slower(std::move(models), "cudnn", "cudnn8", 1.35,
                     "cuDNN's before mid 2024: time x 1.35 (docs/references.md#attention-by-year, "
                     "H100 runs of 2023 and 2024)");
}

std::vector<AttentionModel> ampere(const AttentionTables& tables) {
  const std::string data = "aiconfigurator attn_causal_fwd_a100_sxm (sglang, FA2 class)";
  const AttentionModel causal = with_fa2_backward(
      128, serving_curve(*tables.serving_a100, "sglang", 128, tables.peak(kA100, Precision::bf16)), tables, data);
  AttentionModel narrow = causal;
  narrow.head_dim = 64;
  const AttentionModel measured = fa2_on_hopper(tables, 64);
  const double ratio = measured.forward_efficiency / fa2_on_hopper(tables, 128).forward_efficiency;
  narrow.forward_efficiency *= ratio;
  narrow.backward_efficiency *= ratio;
  narrow.fit = {causal.fit.data + ", head size 64 too", measured.fit.samples, measured.fit.residual};
  return {causal, narrow};
}

std::vector<AttentionModel> rtx_pro(const AttentionTables& tables) {
  const std::string data = "aiconfigurator attn_causal_fwd_rtx_pro_6000_server (sglang)";
  const GpuPeak gpu = tables.peak(kRtxPro, Precision::bf16);
  std::vector<AttentionModel> models;
  for (const std::int64_t head_dim : {128, 64, 256})
    models.push_back(
        with_fa2_backward(head_dim, serving_curve(*tables.serving_rtx_pro, "sglang", head_dim, gpu), tables, data));
  return models;
}

std::vector<AttentionModel> hopper(const AttentionTables& tables) {
  const std::string cudnn_data = "cudnn-frontend sdpa_training_fwd_bwd, H200 bf16";
  const std::string scaled_data =
      cudnn_data + "; head size by the ratio in aiconfigurator attn_causal_fwd_h100_sxm (vllm, FA3)";
  const Samples cudnn = read_cudnn_samples(*tables.cudnn, "NVIDIA H200");
  const GpuPeak h100 = tables.peak(kH100, Precision::bf16), h200 = tables.peak(kH200, Precision::bf16);
  const AttentionModel causal = fit_both("cudnn", cudnn, 128, true, h200, cudnn_data);
  const AttentionModel full = fit_both("cudnn", cudnn, 128, false, h200, cudnn_data);
  std::vector<AttentionModel> models{causal, full};
  models.push_back(fit_both("cudnn", cudnn, 192, true, h200, cudnn_data + " (192/128; deterministic backward)"));
  models.push_back(with_mask(models.back(), false, causal, full));
  for (const AttentionModel& model :
       in_8_bits(*tables.cudnn, "NVIDIA H200", Precision::fp8, {128}, tables.peak(kH200, Precision::fp8),
                 "cudnn-frontend sdpa_training_fwd_bwd, H200 fp8"))
    models.push_back(model);
  const AttentionCurve reference = serving_curve(*tables.serving_h100, "vllm", 128, h100);
  for (const std::int64_t head_dim : {64, 256}) {
    const AttentionCurve wanted = serving_curve(*tables.serving_h100, "vllm", head_dim, h100);
    for (const AttentionModel& model : {causal, full}) {
      const AttentionModel other = scaled(model, head_dim, wanted, reference, scaled_data);
      models.push_back(head_dim > 128 ? with_wide_backward(other, model) : other);
    }
  }
  const auto put = [&](const AttentionModel& model) {
    models.push_back(with_mask(model, true, full, causal));
    models.push_back(model);
  };
  const Samples fa3 = read_published_samples(*tables.published, "H100-class(Hopper)", "FA3");
  put(fit_both("fa3", fa3, 128, false, h100, "published-tables flash_attention_tflops, Hopper, FA3"));
  for (const std::int64_t head_dim : {128, 64}) put(fa2_on_hopper(tables, head_dim));
  return models;
}

/// Head size 64 was measured with a window: backward, where it changes nothing, as it is; forward by the ratio of FA4 in 16 bit.
std::vector<AttentionModel> blackwell_in_8_bits(const AttentionTables& tables, Precision precision, double exponent,
                                                const AttentionCurve& narrow, const AttentionCurve& wide) {
  const CsvTable& cudnn = *tables.cudnn;
  const GpuPeak gpu = tables.peak(kGB200, precision);
  const std::string data = fmt::format("cudnn-frontend sdpa_training_fwd_bwd, GB200 {}", to_string(precision));
  std::vector<AttentionModel> models =
      in_8_bits(cudnn, "NVIDIA GB200", precision, {128, 192}, gpu, data, {.power_exponent = exponent});
  const Samples samples = select(read_cudnn_samples(cudnn, "NVIDIA GB200", to_string(precision)), 64, true);
  const AttentionCurve backward = fit_attention(samples, true, gpu, {kAttentionT0, exponent});
  AttentionModel model =
      scaled(models.front(), 64, narrow, wide, data + "; forward by the ratio of FA4 (published-tables)");
  model.backward_efficiency = backward.efficiency;
  model.backward_s0 = backward.s0;
  model.fit.residual = std::max(model.fit.residual, backward.residual);
  models.push_back(model);
  return models;
}

/// FlashAttention 2 multiplies with instructions of Ampere, which Blackwell executes no faster than Hopper: forward 352 to 362
/// TFLOP/s on B200 (docs/references.md#fa2-blackwell), 359 on H100. As shares of B200's peak; other peaks: keep_fa2_rate().
std::vector<AttentionModel> fa2_on_blackwell(const AttentionTables& tables, const AttentionModel& causal,
                                             const AttentionModel& full) {
  constexpr double kResidual = 0.2;
  const double shares = tables.peak(kH100, Precision::bf16).flops / kFa2BlackwellPeak;
  std::vector<AttentionModel> models;
  for (const std::int64_t head_dim : {128, 64}) {
    AttentionModel model = fa2_on_hopper(tables, head_dim);
    model.forward_efficiency *= shares;
    model.backward_efficiency *= shares;
    model.fit = {kFa2OnBlackwell, 0, kResidual};
    models.push_back(with_mask(model, true, full, causal));
    models.push_back(model);
  }
  return models;
}

std::vector<AttentionModel> blackwell(const AttentionTables& tables) {
  const std::string data = "cudnn-frontend sdpa_training_fwd_bwd, GB200 bf16";
  const Samples cudnn = read_cudnn_samples(*tables.cudnn, "NVIDIA GB200");
  const Samples fa4 = read_published_samples(*tables.published, "B200-class(Blackwell)", "FA4");
  const GpuPeak b200 = tables.peak(kB200, Precision::bf16), gb200 = tables.peak(kGB200, Precision::bf16);
  const double exponent = fit_power_exponent(cudnn, gb200, kAttentionT0);
  std::vector<AttentionModel> models;
  for (const std::int64_t head_dim : {128, 192})
    for (const bool causal : {true, false})
      models.push_back(fit_both("cudnn", cudnn, head_dim, causal, gb200, data, {.power_exponent = exponent}));
  const AttentionModel causal = models[0], full = models[1];
  AttentionModel wide = causal;
  wide.head_dim = 256;
  const AttentionCurve forward = fit_attention(select(cudnn, 256, true), false, gb200, {kAttentionT0, exponent});
  wide.forward_efficiency = forward.efficiency;
  wide.forward_s0 = forward.s0;
  wide.fit = {data, forward.samples, forward.residual};
  wide = with_wide_backward(wide, causal);
  models.push_back(wide);
  models.push_back(with_mask(wide, false, causal, full));
  for (const AttentionModel& model : {causal, full}) {
    const AttentionCurve narrow = fit_attention(select(fa4, 64, model.causal), false, b200, {kAttentionT0});
    const AttentionCurve wide_heads = fit_attention(select(fa4, 128, model.causal), false, b200, {kAttentionT0});
    models.push_back(
        scaled(model, 64, narrow, wide_heads, data + "; head size by the ratio of FA4 (published-tables)"));
  }
  const AttentionCurve narrow = fit_attention(select(fa4, 64, true), false, b200, {kAttentionT0});
  const AttentionCurve wide_heads = fit_attention(select(fa4, 128, true), false, b200, {kAttentionT0});
  for (const Precision precision : {Precision::fp8, Precision::mxfp8})
    for (const AttentionModel& model : blackwell_in_8_bits(tables, precision, exponent, narrow, wide_heads))
      models.push_back(model);
  for (const AttentionModel& model : fa2_on_blackwell(tables, causal, full)) models.push_back(model);
  return models;
}

/// `model` with a backward pass, never measured, whose ratio to the forward pass is that of another model.
AttentionModel with_backward_of(AttentionModel model, const AttentionModel& other, const std::string& whose) {
  model.backward_efficiency = model.forward_efficiency * other.backward_efficiency / other.forward_efficiency;
  model.backward_s0 = std::max(0.0, model.forward_s0 + other.backward_s0 - other.forward_s0);
  model.fit.data += "; backward by the ratio of " + whose;
  model.fit.residual = std::max(model.fit.residual, other.fit.residual) + kTransferResidual;
  return model;
}

/// Of one direction. One length alone does not tell e from s0.
std::size_t lengths(const Samples& samples, bool backward) {
  std::set<std::int64_t> found;
  for (const AttentionSample& sample : samples)
    if (sample.backward == backward) found.insert(sample.shape.q_len);
  return found.size();
}

/// A kernel of the shipped table with head sizes 128 and 64, where its forward pass has several lengths. A backward pass without
/// samples takes the ratio of head size 128, one with a single length its difference of s0.
std::vector<AttentionModel> published_kernel(const std::vector<MeasuredKernel>& published, const std::string& gpu_name,
                                             const std::string& kernel, const GpuPeak& gpu) {
  const std::string data = fmt::format("scenarios/runs/kernels.csv, {}, {}", gpu_name, kernel);
  const Samples samples = read_kernel_samples(published, gpu_name, kernel);
  std::vector<AttentionModel> models;
  for (const std::int64_t head_dim : {128, 64})
    for (const bool causal : {true, false}) {
      const Samples selected = select(samples, head_dim, causal);
      if (lengths(selected, false) < 2) continue;
      models.push_back(fit_both(kernel, samples, head_dim, causal, gpu, data));
      if (lengths(selected, true) > 1 || models.front().backward_efficiency == 0) continue;
      const AttentionModel by_ratio = with_backward_of(models.back(), models.front(), "head size 128");
      models.back() = lengths(selected, true) == 0
                          ? by_ratio
                          : fit_both(kernel, samples, head_dim, causal, gpu, data + "; s0 backward of head size 128",
                                     {.backward_s0 = by_ratio.backward_s0});
    }
  return models;
}

/// A head size that has the causal mask only takes the difference of `causal` and `full`.
std::vector<AttentionModel> with_both_masks(const std::vector<AttentionModel>& models, const AttentionModel& causal,
                                            const AttentionModel& full) {
  std::vector<AttentionModel> both;
  for (const AttentionModel& model : models) {
    both.push_back(model);
    const bool has_full = std::any_of(models.begin(), models.end(), [&](const AttentionModel& other) {
      return other.head_dim == model.head_dim && !other.causal;
    });
    if (!has_full) both.push_back(with_mask(model, false, causal, full));
  }
  return both;
}

std::vector<AttentionModel> cdna3(const AttentionTables& tables) {
  const std::vector<MeasuredKernel>& published = *tables.shipped;
  const GpuPeak gpu = tables.peak(kMI300X, Precision::bf16);
  const std::vector<AttentionModel> aiter = published_kernel(published, "mi300x", "aiter", gpu);
  std::vector<AttentionModel> aotriton = published_kernel(published, "mi300x", "aotriton", gpu);
  const AttentionModel other =
      published_kernel(published, "mi355x", "aotriton", tables.peak(kMI355X, Precision::bf16)).front();
  for (AttentionModel& model : aotriton) model = with_backward_of(model, other, "mi355x");
  std::vector<AttentionModel> models = with_both_masks(aiter, aiter[0], aiter[1]);
  for (const AttentionModel& model : with_both_masks(aotriton, aiter[0], aiter[1])) models.push_back(model);
  return models;
}

std::vector<AttentionModel> cdna4(const AttentionTables& tables) {
  const std::vector<MeasuredKernel>& published = *tables.shipped;
  const GpuPeak gpu = tables.peak(kMI355X, Precision::bf16);
  std::vector<AttentionModel> models = published_kernel(published, "mi355x", "aiter", gpu);
  for (const AttentionModel& model : published_kernel(published, "mi355x", "aotriton", gpu)) models.push_back(model);
  return models;
}

}  // namespace

std::vector<AttentionModel> attention_models(const std::string& architecture, const AttentionTables& tables) {
  if (architecture == "Ampere") return with_first_flash(with_triton(ampere(tables)));
  if (architecture == "Hopper") return with_triton(with_older_cudnn(hopper(tables)));
  if (tables.serving_rtx_pro != nullptr) return rtx_pro(tables);
  if (architecture == "Blackwell") return blackwell(tables);
  if (architecture == "CDNA3") return cdna3(tables);
  if (architecture == "CDNA4") return cdna4(tables);
  return {};
}

void keep_fa2_rate(std::vector<AttentionModel>& models, double before, double peak) {
  for (AttentionModel& model : models) {
    if (model.fit.data.find(kFa2OnBlackwell) == std::string::npos) continue;
    model.forward_efficiency *= before / peak;
    model.backward_efficiency *= before / peak;
  }
}

std::string attention_measured_on(const std::string& data) {
  const auto names = [&data](const char* word) { return data.find(word) != std::string::npos; };
  if (names("sdpa_training_fwd_bwd, GB200")) return "gb200";
  if (names("sdpa_training_fwd_bwd, H200")) return "h200";
  if (names("kernels.csv, mi300x")) return "mi300x";
  if (names("kernels.csv, mi355x")) return "mi355x";
  return names("flash_attention_tflops, Hopper") ? "h100" : "";
}

}  // namespace tracecast::accuracy
