#include "kernels/cuda/gemm.hpp"

#include <algorithm>
#include <utility>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/operators.hpp"

#define TRACECAST_CUBLAS(call) TRACECAST_CHECKED(call, CUBLAS_STATUS_SUCCESS, cublasLtGetStatusString(status_))

namespace tracecast::cuda {
namespace {

cudaDataType_t type_of(ElementType type) {
  switch (type) {
    case ElementType::fp32:
      return CUDA_R_32F;
    case ElementType::fp16:
      return CUDA_R_16F;
    case ElementType::bf16:
      return CUDA_R_16BF;
    case ElementType::e4m3:
      return CUDA_R_8F_E4M3;
    case ElementType::e5m2:
      return CUDA_R_8F_E5M2;
  }
  return CUDA_R_32F;
}

cublasLtMatmulMatrixScale_t mode_of(Scaling scaling) {
  switch (scaling) {
    case Scaling::vector128:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    case Scaling::block128:
      return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    default:
      return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  }
}

template <class T>
void set(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  TRACECAST_CUBLAS(cublasLtMatmulDescSetAttribute(descriptor, attribute, &value, sizeof value));
}

cublasLtMatrixLayout_t layout_of(const GemmOperand& operand, std::int64_t batch) {
  cublasLtMatrixLayout_t layout = nullptr;
  TRACECAST_CUBLAS(cublasLtMatrixLayoutCreate(&layout, type_of(operand.type), static_cast<std::uint64_t>(operand.rows),
                                              static_cast<std::uint64_t>(operand.columns), operand.pitch));
  if (batch == 1) return layout;
  const auto count = static_cast<std::int32_t>(batch);
  const std::int64_t apart = operand.elements();
  TRACECAST_CUBLAS(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count));
  TRACECAST_CUBLAS(
      cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &apart, sizeof apart));
  return layout;
}

}  // namespace

struct Gemm::Prepared {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t first = nullptr;
  cublasLtMatrixLayout_t second = nullptr;
  cublasLtMatrixLayout_t result = nullptr;
  cublasLtMatmulAlgo_t algorithm{};

  Prepared() = default;
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared() {
    for (cublasLtMatrixLayout_t layout : {first, second, result})
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
  }

  void describe(const GemmProblem& problem, const float* ones) {
    TRACECAST_CUBLAS(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    set(operation, CUBLASLT_MATMUL_DESC_TRANSA, problem.first.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(operation, CUBLASLT_MATMUL_DESC_TRANSB, problem.second.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (problem.fast_accumulation) set(operation, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
    if (problem.first.scaling != Scaling::none) {
      set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, mode_of(problem.first.scaling));
      set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, mode_of(problem.second.scaling));
      set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, ones);
      set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, ones);
    }
    first = layout_of(problem.first, problem.batch);
    second = layout_of(problem.second, problem.batch);
    result = layout_of(problem.result, problem.batch);
  }

  void choose(cublasLtHandle_t handle) {
    cublasLtMatmulPreference_t preference = nullptr;
    TRACECAST_CUBLAS(cublasLtMatmulPreferenceCreate(&preference));
    const std::size_t most = kWorkspace;
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most);
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle, operation, first, second, result, result, preference, 1, &best, &found);
    cublasLtMatmulPreferenceDestroy(preference);
    TRACECAST_CUBLAS(status);
    if (found == 0) throw DeviceError("cuBLASLt has no kernel for this multiplication");
    algorithm = best.algo;
  }
};

Gemm::Gemm() { TRACECAST_CUBLAS(cublasLtCreate(&handle_)); }

Gemm::~Gemm() {
  known_.clear();
  cudaFree(ones_);
  for (const auto& [stream, workspace] : workspaces_) cudaFree(workspace);
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

Gemm::Prepared& Gemm::prepared(const GemmProblem& problem) {
  const auto found =
      std::find_if(known_.begin(), known_.end(), [&](const auto& entry) { return entry.first == problem; });
  if (found != known_.end()) return *found->second;
  const std::int64_t scales = std::max(problem.first.scales(), problem.second.scales()) * problem.batch;
  if (scales > one_count_) {
    // Descriptions hold the pointer, so they are rebuilt with the larger array.
    known_.clear();
    TRACECAST_CUDA(cudaFree(ones_));
    TRACECAST_CUDA(cudaMalloc(reinterpret_cast<void**>(&ones_), static_cast<std::size_t>(scales) * sizeof(float)));
    fill(scales, 1.0F, ones_, nullptr);
    TRACECAST_CUDA(cudaStreamSynchronize(nullptr));
    one_count_ = scales;
  }
  auto made = std::make_unique<Prepared>();
  made->describe(problem, ones_);
  made->choose(handle_);
  known_.emplace_back(problem, std::move(made));
  return *known_.back().second;
}

void* Gemm::workspace_of(cudaStream_t stream) {
  void*& workspace = workspaces_[stream];
  if (workspace == nullptr) TRACECAST_CUDA(cudaMalloc(&workspace, kWorkspace));
  return workspace;
}

void Gemm::run(const GemmProblem& problem, const void* first, const void* second, void* result, cudaStream_t stream) {
  Prepared& p = prepared(problem);
  const float one = 1;
  const float beta = problem.accumulate ? 1.0F : 0.0F;
  TRACECAST_CUBLAS(cublasLtMatmul(handle_, p.operation, &one, first, p.first, second, p.second, &beta, result, p.result,
                                  result, p.result, &p.algorithm, workspace_of(stream), kWorkspace, stream));
}

}  // namespace tracecast::cuda
