/// Fits eff(s) = e s / (s + s0) of sim/cost/attention.hpp to measured attention kernels.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/attention.hpp"
#include "tools/calibrate/fit.hpp"
#include "tools/calibrate/table.hpp"

namespace tracecast::calibrate {

struct AttentionSample {
  AttentionShape shape;
  bool backward = false;
  double seconds = 0;
};

/// Training kernels of cuDNN in bf16 on one GPU ("NVIDIA H200"), without sliding windows.
std::vector<AttentionSample> read_cudnn_samples(const Table& table, const std::string& gpu);

/// Rows of the published FlashAttention tables of one implementation ("FA2", "FA3", "FA4"), not deterministic ones.
/// Where the number of heads is not stated it is 2048 / head size, as in FlashAttention's own benchmark.
std::vector<AttentionSample> read_published_samples(const Table& table, const std::string& gpu,
                                                    const std::string& implementation);

/// Serving kernels (prefill) of one framework ("vllm"): forward only, s >= 256.
std::vector<AttentionSample> read_serving_samples(const Table& table, const std::string& framework, bool causal);

/// The samples of one head size and mask.
std::vector<AttentionSample> select(const std::vector<AttentionSample>& samples, std::int64_t head_dim, bool causal);

/// e and s0 of one direction; t0 is fixed. When it is negative the samples are a server's: it is fitted, and with it what the
/// server does to each token (rotary embedding, writing of the cache), in passes over queries, keys and values at the memory's
/// rate. The residual is that of leaving out each
/// sequence length in turn (each fifth sample when there are more than 100).
struct AttentionCurve {
  double t0 = 0;
  double efficiency = 0;
  double s0 = 0;
  int samples = 0;
  double residual = 0;
};
AttentionCurve fit_attention(const std::vector<AttentionSample>& samples, bool backward, const GpuPeak& gpu, double t0);

}  // namespace tracecast::calibrate
