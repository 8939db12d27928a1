/// \file
/// Runs any operator of a step graph on a GPU. Operators mean the same as in cpu_driver.hpp.
///
/// Inputs are random values from a ring larger than the caches, outputs go to another ring. All work is launched on the given
/// stream without waiting.
#pragma once

#include <cstdint>
#include <map>

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/device_memory.hpp"
#include "kernels/cuda/gemm.hpp"
#include "kernels/cuda/operand_bytes.hpp"
#include "kernels/cuda/operators.hpp"
#include "kernels/cuda/waiting.hpp"

namespace tracecast::cuda {

/// Of a query of a stream or an event. Throws DeviceError if the work failed.
WorkState state_of(cudaError_t query);

class Driver {
 public:
  /// `need`: maximum over all operators to be run. Throws DeviceError if there is not enough memory.
  Driver(const Widths& widths, const ByteNeed& need);

  /// Requires refusal(op) to be empty. Throws DeviceError if a library has no kernel.
  void run(const Operator& op, cudaStream_t stream);

  /// Sets the row widths (several scenarios share one driver).   They must not need more memory.
  void set_widths(const Widths& widths) { widths_ = widths; }

  /// Whether attention of this operator is run with its mask.
  bool masked(const Operator& op);

  /// Operands of transfers, from the same rings.
  const char* input(std::int64_t bytes) { return inputs_.take<char>(bytes); }
  char* output(std::int64_t bytes) { return outputs_.take<char>(bytes); }

 private:
  void run_gemm(const Operator& op, cudaStream_t stream);
  void run_attention(const Operator& op, cudaStream_t stream);
  void run_norm(const Operator& op, std::int64_t elements, cudaStream_t stream);
  void run_activation(const Operator& op, std::int64_t elements, cudaStream_t stream);
  void run_softmax(const Operator& op, std::int64_t elements, cudaStream_t stream);
  void run_residual(const Operator& op, std::int64_t elements, cudaStream_t stream);
  void run_embedding(const Operator& op, std::int64_t elements, cudaStream_t stream);
  void run_cross_entropy(const Operator& op, std::int64_t elements, cudaStream_t stream);
  void run_optimizer(const Operator& op, std::int64_t elements, cudaStream_t stream);
  void run_cast(const Operator& op, std::int64_t elements, cudaStream_t stream);
  void run_other(const Operator& op, std::int64_t elements, cudaStream_t stream);

  const std::int32_t* row_order(std::int64_t rows, cudaStream_t stream);

  Widths widths_;
  DeviceRing inputs_;
  DeviceRing outputs_;
  DeviceRing narrow_inputs_;
  DeviceMemory table_;           ///< bf16 [vocabulary, hidden]
  DeviceMemory table_gradient_;  ///< fp32 [vocabulary, hidden]
  DeviceMemory ids_;             ///< [kWords], word ids below the smallest vocabulary
  DeviceMemory statistics_;      ///< fp32 per row, positive as after normalisation
  DeviceMemory norm_scratch_;
  DeviceMemory sum_;                             ///< one double
  std::map<std::int64_t, DeviceMemory> orders_;  ///< [rows]
  Gemm gemm_;
  Attention attention_;
};

}  // namespace tracecast::cuda
