// The CUDA runtime of kernels that run on a CPU, and libraries that are not there: what uses them is verified on a GPU only.

#include <cstdlib>
#include <cstring>

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/check.hpp"
#include "kernels/cuda/collectives.hpp"
#include "kernels/cuda/device_info.hpp"
#include "kernels/cuda/gemm.hpp"

extern "C" {
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*memory == nullptr) return cudaErrorMemoryAllocation;
  std::memset(*memory, 0xFF, bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  std::memmove(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the CPU's CUDA runtime"; }
}

namespace tracecast::cuda {
namespace {
[[noreturn]] void missing(const char* library) { throw DeviceError(std::string(library) + " needs a GPU"); }
}  // namespace

struct Gemm::Prepared {};
Gemm::Gemm() = default;
Gemm::~Gemm() = default;
void Gemm::run(const GemmProblem&, const void*, const void*, void*, cudaStream_t) { missing("cuBLASLt"); }

struct Attention::Plan {};
Attention::Attention() = default;
Attention::~Attention() = default;
void Attention::run(const AttentionShape&, bool, const AttentionOperands&, cudaStream_t) { missing("cuDNN"); }
bool Attention::has_masked_kernel(const AttentionShape&, bool) { missing("cuDNN"); }

NcclGroup::~NcclGroup() = default;
void NcclGroup::run_on(const CollectiveCall&, const void*, void*, cudaStream_t) const { missing("NCCL"); }
NcclGroup nccl_world(const Rendezvous&) { missing("NCCL"); }

DeviceInfo use_device(int) {
  DeviceInfo info;
  info.name = "a CPU";
  return info;
}
LibraryVersions library_versions() { return {}; }
std::string to_string(const LibraryVersions&) { return "no libraries"; }
}  // namespace tracecast::cuda
