/// \file
/// Fits t0 + traffic / (efficiency x bandwidth) to measured memory-bound kernels, which are not shipped.
#pragma once

#include <string>
#include <vector>

#include "sim/cost/memory_bound.hpp"
#include "sim/io/csv_table.hpp"
#include "tools/accuracy/fit/fit.hpp"

namespace tracecast::accuracy {

struct MemorySample {
  Bytes traffic;
  double seconds = 0;
  std::int64_t group = 0;  ///< samples of one group are held out together
};

/// Element-wise operators of one kind and pass that `profile` has measured.
std::vector<MemorySample> timed_samples(const Profile& profile, OperatorKind kind, Pass pass);

/// One operator of Vidur's transformer layers ("add_ms", "attn_rope_ms"), with the traffic of
/// docs/references.md#elementwise-bytes for its shape; rows below 20 us are left out, the timer's resolution being
/// 1 us.
std::vector<MemorySample> read_vidur_samples(const CsvTable& table, const std::string& column);

/// RMSNorm and LayerNorm of cuDNN on one GPU ("NVIDIA H200"); traffic 2 (backward 3) times the bf16 tensor. Kernels of
/// Transformer Engine and Apex are of that class; those that torch.compile generates are half as fast backward.
std::vector<MemorySample> read_norm_samples(const CsvTable& table, const std::string& gpu, bool backward);

/// Quantisation to fp8 with a known scale on one GPU ("H100-SXM"): 2 bytes read and 1 written per element.
/// SGLang's rows are left out: they time an unfused chain of PyTorch operators.
std::vector<MemorySample> read_quantise_samples(const CsvTable& table, const std::string& gpu);

/// The fit's residual is that of five-fold cross-validation by group.
MemoryModel fit_memory(const std::vector<MemorySample>& samples, double bandwidth, const std::string& data);

}  // namespace tracecast::accuracy
