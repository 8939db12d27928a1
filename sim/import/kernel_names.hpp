/// \file
/// What the name of a kernel tells: what kind of operator it is part of, and of NCCL's kernels which collective they run.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/base/collective.hpp"
#include "sim/model/operators.hpp"

namespace tracecast {

/// By words that the names of cuBLAS, CUTLASS, cuDNN, FlashAttention, Triton, Apex and PyTorch kernels contain. What says
/// nothing counts as element-wise work (OperatorKind::residual).
OperatorKind kernel_kind(std::string_view name);

/// Of an optimizer's kernel: whether it takes the norm of the gradients ("…LpNormFunctor…") or updates parameters ("…FusedAdam…").
std::optional<bool> is_gradient_norm(std::string_view name);

/// Name of a CUDA graph that was recorded as a whole: which kernels it ran is not known.
inline constexpr const char* kWholeGraph = "CUDA graph";

/// Whether a kernel's name says that it is of the backward ("flash_bwd_…") or of the forward ("…_sdpa_sm90_flash_fprop"); most do not.
std::optional<bool> is_backward_kernel(std::string_view name);

/// Without return type, unnamed namespaces, template arguments and parameters: "at::native::vectorized_elementwise_kernel".
std::string short_kernel_name(std::string_view name);

/// bf16, fp16, fp8 or fp32, where the name says so.
std::optional<Precision> kernel_precision(std::string_view name);

/// A kernel that finishes the multiplication before it: adds up its parts ("splitKreduce_kernel" of cuBLASLt) or applies its epilogue
/// ("cublasLt::epilogue::…").
bool is_split_k_part(std::string_view name);

/// "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(…)", demangled or not. `name` is empty for a kernel that is not NCCL's (or RCCL's).
struct NcclKernel {
  std::string name;  ///< "AllReduce"; "Generic" for the kernel that runs any collective
  std::string algorithm;
  std::string protocol;
  std::optional<Collective> collective() const;
};
NcclKernel nccl_kernel(std::string_view name);

/// A kernel that moves data between GPUs: NCCL's, or one of DeepEP, NVSHMEM, Transformer Engine (Userbuffers) or PyTorch (symmetric
/// memory), of which only the collective is known. `name` is empty for any other kernel.
NcclKernel transfer_kernel(std::string_view name);

/// The collective of a name in any spelling: "allreduce", "AllReduce", "_allgather_base", "reduce_scatter_tensor".
std::optional<Collective> collective_of(std::string_view name);

/// Bytes of an element of NCCL's or PyTorch's name of a type ("ncclBfloat16", "Float", "BFloat16", "half"); 0: not known.
std::int64_t type_size(std::string_view name);

}  // namespace tracecast
