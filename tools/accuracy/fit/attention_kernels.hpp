/// \file
/// The attention kernels of a GPU and the model of each, from the measurements of its architecture.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/cost/profile.hpp"
#include "tools/accuracy/fit/attention_fit.hpp"
#include "tools/accuracy/kernel_tables.hpp"

namespace tracecast::accuracy {

/// The tables that attention is fitted to.
struct AttentionTables {
  const CsvTable* cudnn = nullptr;         ///< cudnn-frontend/sdpa_training_fwd_bwd.csv
  const CsvTable* published = nullptr;     ///< published-tables/flash_attention_tflops.csv
  const CsvTable* serving_a100 = nullptr;  ///< aiconfigurator/attn_causal_fwd_a100_sxm.csv.gz, and so on
  const CsvTable* serving_h100 = nullptr;
  const CsvTable* serving_rtx_pro = nullptr;  ///< for RTX PRO 6000, whose kernels differ from those of data-centre GPUs
  const std::vector<MeasuredKernel>* shipped = nullptr;     ///< scenarios/runs/kernels.csv, for CDNA
  std::function<GpuPeak(const char* row, Precision)> peak;  ///< of a row of the table of data sheets
};

/// Fixed time of an attention kernel. A guess until traces are recorded
/// (docs/references.md#attention-fit).
inline constexpr double kAttentionT0 = 4e-6;

/// Models by kernel, head size and mask, the default kernel first:
///   Ampere     fa2    128 causal from SGLang's prefill; backward and 64 by FlashAttention-2's ratios on Hopper
///   Hopper     cudnn  128 and 192 from cuDNN's training benchmark (H200); 64 and 256 by the ratio to 128 of vLLM's FA3
///              cudnn in fp8  128 (H200)
///              fa3, fa2  128 (and 64) without mask from FlashAttention's tables; causal s0 as cuDNN's
///              cudnn8 (before mid 2024): cudnn's time x 1.35;  triton (with ALiBi; Ampere too): fa2's x 1.33,
///              on Ampere with head size 64 as measured
///   Blackwell  cudnn  128 and 192 (GB200); 64 by FA4's ratio, 256 by vLLM's
///              cudnn in fp8 and mxfp8  128 and 192 (GB200), 64 backward; 64 forward by FA4's ratio
///              RTX PRO 6000  fa2  as Ampere's, 64, 128 and 256 from SGLang's prefill
///   CDNA3, CDNA4  aiter     128 and 64 of MI300X and MI355X; backward of 64 with the ratio, or s0, of 128
///                 aotriton  (PyTorch's scaled_dot_product_attention) likewise; of MI300X only the causal forward pass was
///                           measured: backward by MI355X's ratio, the other mask by aiter's difference
/// Empty for other architectures.
std::vector<AttentionModel> attention_models(const std::string& architecture, const AttentionTables& tables);

/// FlashAttention 2 on data-centre Blackwell runs at one rate, whatever the peak: from shares of the peak `before` to those of `peak`.
void keep_fa2_rate(std::vector<AttentionModel>& models, double before, double peak);
/// Of B200 in 16 bit: the one that attention_models() gives its shares of.
inline constexpr double kFa2BlackwellPeak = 2250e12;

/// The GPU whose kernels `data` of a model names, as a profile is called; "": that of the profile.
std::string attention_measured_on(const std::string& data);

}  // namespace tracecast::accuracy
