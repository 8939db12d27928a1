/// \file
/// Fits eff(s) = e s / (s + s0) of sim/cost/attention.hpp to measured attention kernels, which are not shipped.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/attention.hpp"
#include "sim/io/csv_table.hpp"
#include "tools/accuracy/fit/fit.hpp"
#include "tools/accuracy/kernel_tables.hpp"

namespace tracecast::accuracy {

/// FLOPs at which the clock starts to fall, as for GEMMs (gemm_fit.cpp).
inline constexpr double kAttentionPowerKnee = 1e12;

struct AttentionSample {
  AttentionShape shape;
  bool backward = false;
  double seconds = 0;
};

/// Training kernels of cuDNN on one GPU ("NVIDIA H200") in "bfloat16", "fp8" or "mxfp8", without sliding windows. Backward in 8
/// bits a window changes nothing (worked_shape): those samples count as without one.
std::vector<AttentionSample> read_cudnn_samples(const CsvTable& table, const std::string& gpu,
                                                const std::string& data_type = "bfloat16");

/// Rows of the published FlashAttention tables of one implementation ("FA2", "FA3", "FA4"), without the deterministic
/// backward kernels.
/// Where the number of heads is not stated it is 2048 / head size, as in FlashAttention's own benchmark.
std::vector<AttentionSample> read_published_samples(const CsvTable& table, const std::string& gpu,
                                                    const std::string& implementation);

/// Serving kernels (prefill) of one framework ("vllm"): forward only, s >= 256.
std::vector<AttentionSample> read_serving_samples(const CsvTable& table, const std::string& framework, bool causal);

/// Published kernels of one profile and implementation ("aiter").
std::vector<AttentionSample> read_kernel_samples(const std::vector<MeasuredKernel>& published,
                                                 const std::string& profile, const std::string& implementation);

/// The samples of one head size and mask.
std::vector<AttentionSample> select(const std::vector<AttentionSample>& samples, std::int64_t head_dim, bool causal);

/// Known parameters of a curve.
struct AttentionGiven {
  /// s. Below 0: the samples are from a server. Then it is fitted, together with the server's work on each token
  /// (rotary embedding, writing of the cache), in passes over queries, keys and values at the rate of the memory.
  double t0 = 0;
  double power_exponent = 0;  ///< of the clock above kAttentionPowerKnee
  double s0 = -1;             ///< from another head size of the same kernel; below 0: it is fitted
};

/// e and s0 of one direction. The residual is that of leaving out each sequence length in turn (each fifth sample
/// when there are more than 100).
struct AttentionCurve {
  double t0 = 0;
  double efficiency = 0;
  double s0 = 0;
  int samples = 0;
  double residual = 0;
};
AttentionCurve fit_attention(const std::vector<AttentionSample>& samples, bool backward, const GpuPeak& gpu,
                             const AttentionGiven& given);

/// The exponent with the smallest error over all curves (each direction, head size and mask), by leaving out lengths.
double fit_power_exponent(const std::vector<AttentionSample>& samples, const GpuPeak& gpu, double t0);

}  // namespace tracecast::accuracy
