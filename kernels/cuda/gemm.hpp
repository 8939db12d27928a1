/// \file
/// Multiplications with cuBLASLt: described once for each shape, then run repeatedly.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "kernels/cuda/gemm_problem.hpp"

namespace tracecast::cuda {

class Gemm {
 public:
  Gemm();
  ~Gemm();
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// Operands as in GemmProblem, batches one after the other. Runs the first kernel of cuBLASLt's heuristics for up to
  /// kWorkspace bytes of workspace, as frameworks do.
  /// Throws DeviceError if there is none.
  void run(const GemmProblem& problem, const void* first, const void* second, void* result, cudaStream_t stream);

  static constexpr std::size_t kWorkspace = std::size_t{32} << 20;

 private:
  struct Prepared;
  Prepared& prepared(const GemmProblem& problem);
  void* workspace_of(cudaStream_t stream);

  cublasLtHandle_t handle_ = nullptr;
  std::map<cudaStream_t, void*> workspaces_;  ///< kernels of two streams may run at the same time
  float* ones_ = nullptr;                     ///< scale factors
  std::int64_t one_count_ = 0;
  std::vector<std::pair<GemmProblem, std::unique_ptr<Prepared>>> known_;
};

}  // namespace tracecast::cuda
