#include "tools/accuracy/fit/in_training.hpp"

#include "sim/cost/gemm.hpp"
#include "sim/cost/memory_bound.hpp"
#include "tools/accuracy/fit/specification.hpp"

namespace tracecast::accuracy {
namespace {

constexpr const char* kRuns = "docs/references.md#in-training-factors (657 published runs)";
constexpr const char* kHostRuns =
    "docs/references.md#in-training-host (657 published runs); graphs: docs/references.md#launch-fit";

/// Share of the peak that large GEMMs reach in isolation.
double large_gemm_share(const GemmModel& model, const GpuPeak& gpu, Precision precision) {
  const GemmShape shape{8192, 8192, 8192};
  const double flops = 2.0 * 8192 * 8192 * 8192;
  return flops / (gpu.flops * gemm_seconds(model, gpu, shape, gemm_elements(precision)));
}

}  // namespace

void set_in_training(Profile& profile, const Achieved& achieved) {
  InTraining& factors = profile.in_training;
  const auto share = [&](Precision precision) {
    return large_gemm_share(profile.gemm.at(precision), peak_of(profile, precision), precision);
  };
  factors.gemm = achieved.gemm_factor;
  factors.gemm_fp8 = factors.gemm;
  if (achieved.gemm_fp8 > 0 && profile.gemm.contains(Precision::fp8))
    factors.gemm_fp8 = share(Precision::fp8) / achieved.gemm_fp8;
  // The rows that the share was found on name no kind of scales; block scales are fitted apart and start from the same
  // share.
  factors.gemm_fp8_block = factors.gemm_fp8;
  if (achieved.gemm_fp8 > 0 && profile.gemm.contains(Precision::fp8_block))
    factors.gemm_fp8_block = share(Precision::fp8_block) / achieved.gemm_fp8;
  factors.gemm_fp4 = factors.gemm_fp8;
  if (achieved.gemm_fp4 > 0 && profile.gemm.contains(Precision::nvfp4))
    factors.gemm_fp4 = share(Precision::nvfp4) / achieved.gemm_fp4;
  constexpr double kWeightGradient = 1.10;  // wgrad / dgrad, docs/references.md#in-training-factors
  const double isolated = profile.gemm.empty() ? 1 : profile.gemm.begin()->second.wgrad_factor;
  factors.weight_gradient = kWeightGradient / isolated;
  factors.attention = achieved.attention > 0 ? profile.attention.front().forward_efficiency / achieved.attention : 1.25;
  factors.scores = 1.06;
  // Unfused softmax moves the bytes of docs/references.md#elementwise-bytes at 1.1 x the memory bandwidth: they count
  // too many passes (docs/references.md#in-training-factors).
  factors.softmax =
      find_memory_model(profile, OperatorKind::softmax, Pass::forward)->efficiency / 1.1 * achieved.softmax_runs;
  factors.fit = {kRuns, 657, 0.05};
}

void take_factors(const InTraining& other, double relative, InTraining& factors) {
  for (double InTraining::*kind : {&InTraining::gemm, &InTraining::gemm_fp8, &InTraining::gemm_fp8_block,
                                   &InTraining::gemm_fp4, &InTraining::attention})
    factors.*kind = relative * other.*kind;
}

HostModel host_model(const Gpu& gpu) {
  const std::string architecture = gpu.architecture;
  HostModel host;
  host.relative = gpu.host;
  // Megatron-Core: 13 us per launch, 26 launches per layer forward (docs/references.md#in-training-host); a layer has
  // about 11 operators here.
  host.call = gpu.host * 13e-6;
  host.launch = host.call * 26 / 11;
  // A node of a CUDA graph, A100 with EPYC and GH200 (docs/references.md#launch-fit).
  host.graph_launch = architecture == "Ampere" || architecture == "Volta" ? 0.79e-6 : 0.59e-6;
  host.step_overhead = 4e-3;
  host.step_overhead_per_rank = 0.8e-6;
  host.fit = {kHostRuns, 657, 0.3};
  return host;
}

}  // namespace tracecast::accuracy
