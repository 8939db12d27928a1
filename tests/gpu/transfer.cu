/// Stands in for the kernel of a NCCL collective on one GPU: thread blocks of 640 threads with so many registers that nothing else
/// fits on their SMs, each of which copies memory at a given rate. For torch_contention.py, which loads it as a shared library.

#include <cstdint>

#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 640;
constexpr int kUnroll = 16;                                             // 64 registers of data, like NCCL's copies
constexpr std::int64_t kChunk = std::int64_t{kThreads} * kUnroll * 16;  // bytes

__device__ std::uint64_t nanoseconds() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

/// Block b copies its part of `bytes` again and again, at most `rate` bytes per second (0: nothing is copied, the SM is only held;
/// negative: without a limit), until *stop is not 0 or `duration_ns` have passed. moved[b]: bytes so far.
__global__ void __launch_bounds__(kThreads, 1)
    transfer(uint4* to, const uint4* from, std::int64_t bytes, double rate, std::uint64_t duration_ns,
             const volatile int* stop, volatile std::uint64_t* moved) {
  __shared__ int over;
  const std::int64_t begin = blockIdx.x * (bytes / 16) + threadIdx.x;
  const std::uint64_t started = nanoseconds();
  std::int64_t at = 0;
  std::uint64_t done = 0;
  for (;;) {
    if (threadIdx.x == 0) {
      const auto due =
          rate > 0 ? started + static_cast<std::uint64_t>(static_cast<double>(done) / rate * 1e9) : started;
      do {
        over = *stop != 0 || (duration_ns > 0 && nanoseconds() - started >= duration_ns) ? 1 : 0;
      } while (over == 0 && nanoseconds() < due);
    }
    __syncthreads();
    if (over != 0) break;
    if (rate != 0) {
      uint4 data[kUnroll];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) data[i] = from[begin + at / 16 + i * kThreads];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) to[begin + at / 16 + i * kThreads] = data[i];
      at = at + 2 * kChunk <= bytes ? at + kChunk : 0;
      done += kChunk;
    }
    __syncthreads();
    if (threadIdx.x == 0) moved[blockIdx.x] = done;
  }
}

}  // namespace

/// Blocks start in clusters of four where the GPU has clusters, as NCCL's do.
/// `to`, `from`: bytes_per_block x blocks.   `moved`: [block], on the device.   Returns CUDA's error code.
extern "C" int start_transfer(cudaStream_t stream, int blocks, void* to, const void* from, std::int64_t bytes_per_block,
                              double rate_per_block, std::uint64_t duration_ns, const int* stop, std::uint64_t* moved) {
  constexpr int kSharedBytes = 80 << 10;  // NCCL 2.28's kernels on Hopper take about as much
  if (const cudaError_t error =
          cudaFuncSetAttribute(transfer, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
      error != cudaSuccess)
    return error;
  int device = 0;
  int major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {blocks % 4 == 0 ? 4U : 1U, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(blocks);
  config.blockDim = kThreads;
  config.dynamicSmemBytes = kSharedBytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = major >= 9 ? 1 : 0;
  return cudaLaunchKernelEx(&config, transfer, static_cast<uint4*>(to), static_cast<const uint4*>(from),
                            bytes_per_block, rate_per_block, duration_ns, stop,
                            static_cast<volatile std::uint64_t*>(moved));
}
