/// \file
/// Runs any operator of a step graph on a GPU: the counterpart of cpu_driver.hpp, with the same meaning of operators.
///
/// Inputs are random and come from a ring that is larger than the caches, outputs go to another. Everything is launched
/// on the stream that is given; nothing waits.
#pragma once

#include <cstdint>
#include <map>

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/device_memory.hpp"
#include "kernels/cuda/gemm.hpp"
#include "kernels/cuda/operand_bytes.hpp"
#include "kernels/cuda/operators.hpp"

namespace tracecast::cuda {

class Driver {
 public:
  /// `need`: of all operators that will be run. Throws DeviceError when the memory is not there.
  Driver(const Widths& widths, const ByteNeed& need);

  /// Requires refusal(op) to be empty. Throws DeviceError where a library has no kernel.
  void run(const Operator& op, cudaStream_t stream);

  /// Rows have these widths from now on (several scenarios share one driver).   Requires them to need no more memory.
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
  DeviceMemory ids_;             ///< [kWords], words of the smallest vocabulary
  DeviceMemory statistics_;      ///< fp32, positive: of rows, as normalisation leaves them
  DeviceMemory norm_scratch_;
  DeviceMemory sum_;                             ///< one double
  std::map<std::int64_t, DeviceMemory> orders_;  ///< [rows]
  Gemm gemm_;
  Attention attention_;
};

}  // namespace tracecast::cuda
