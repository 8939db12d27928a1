/// \file
/// Attention with cuDNN's fused kernels: the graph of attention_graph.hpp through the backend API, prepared once for each
/// shape. If cuDNN has no kernel for the masked graph, the unmasked one is run; has_masked_kernel() reports this.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "kernels/cuda/attention_graph.hpp"
#include "kernels/cuda/device_memory.hpp"

namespace tracecast::cuda {

/// Device memory of one call, with the shapes of attention_graph(). The last four are for the backward.
struct AttentionOperands {
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  void* out = nullptr;         ///< written by the forward, read by the backward
  void* statistics = nullptr;  ///< likewise; fp32
  const void* d_out = nullptr;
  void* d_q = nullptr;
  void* d_k = nullptr;
  void* d_v = nullptr;
};

class Attention {
 public:
  Attention();
  ~Attention();
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  /// Throws DeviceError if cuDNN has no kernel for the masked or the unmasked graph.
  void run(const AttentionShape& shape, bool forward, const AttentionOperands& operands, cudaStream_t stream);

  /// Whether cuDNN has a kernel with this shape's mask (true for shapes that have none).
  bool has_masked_kernel(const AttentionShape& shape, bool forward);

 private:
  struct Plan;
  Plan& prepared(const AttentionShape& shape, bool forward);

  cudnnHandle_t handle_ = nullptr;
  std::map<cudaStream_t, DeviceMemory> workspaces_;  ///< kernels of two streams may run at the same time
  std::vector<std::unique_ptr<Plan>> plans_;
};

}  // namespace tracecast::cuda
