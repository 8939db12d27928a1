/// Building blocks of the kernels: loops over a grid, vector accesses, reductions over a block.
#pragma once

#include <algorithm>
#include <cstdint>

#include <cuda_fp8.h>

#include "kernels/cuda/check.hpp"
#include "kernels/cuda/operators.hpp"

// A launch: an error (too many threads, no code for this GPU) is reported where it is made. Tests run the kernels on a CPU and define
// both macros (tests/kernels/cuda_on_cpu).
#ifdef __CUDACC__
#define TRACECAST_LAUNCH(kernel, blocks, threads, shared, stream, ...)                                               \
  do {                                                                                                               \
    kernel<<<blocks, threads, shared, stream>>>(__VA_ARGS__);                                                        \
    TRACECAST_CHECKED(cudaGetLastError(), cudaSuccess, #kernel + (": " + std::string(cudaGetErrorString(status_)))); \
  } while (false)
#define TRACECAST_DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

namespace tracecast::cuda {

inline constexpr int kThreads = 256;
inline constexpr int kWarp = 32;
inline constexpr int kMaxBlocks = 132 * 16;  // enough to fill current GPUs; loops are grid-stride

/// N values that are loaded and stored in one access.
template <int N>
struct alignas(N * sizeof(Bf16)) Pack {
  Bf16 values[N];
};

template <int N>
__device__ void load(const Bf16* from, float (&to)[N]) {
  const Pack<N> pack = *reinterpret_cast<const Pack<N>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = __bfloat162float(pack.values[i]);
}

template <int N>
__device__ void store(const float (&from)[N], Bf16* to) {
  Pack<N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.values[i] = __float2bfloat16(from[i]);
  *reinterpret_cast<Pack<N>*>(to) = pack;
}

inline int blocks_for(std::int64_t threads) {
  return static_cast<int>(std::clamp<std::int64_t>((threads + kThreads - 1) / kThreads, 1, kMaxBlocks));
}

inline __device__ std::int64_t first_index() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
inline __device__ std::int64_t stride() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

/// Calls `work(i)` for every i of [0, count), in steps of N, from a grid of threads.
template <class Work>
__global__ void each_kernel(std::int64_t count, int step, Work work) {
  for (std::int64_t i = first_index() * step; i < count; i += stride() * step) work(i);
}
template <class Work>
void each(std::int64_t count, int step, cudaStream_t stream, Work work) {
  if (count > 0)
    TRACECAST_LAUNCH(each_kernel, blocks_for((count + step - 1) / step), kThreads, 0, stream, count, step, work);
}

template <int N>
struct Wide {
  static constexpr int value = N;
};

/// Eight elements at a time if the length allows it, otherwise one: Work<N>{arguments...} processes N.
template <template <int> class Work, class... Arguments>
void each_bf16(std::int64_t count, std::int64_t period, cudaStream_t stream, Arguments... arguments) {
  if (count % 8 == 0 && period % 8 == 0) return each(count, 8, stream, Work<8>{arguments...});
  each(count, 1, stream, Work<1>{arguments...});
}

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
  static constexpr float kNone = 0;
};
struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  static constexpr float kNone = -3.4e38F;
};

/// Reduction over the threads of a block; every thread gets the result.
template <class Combine>
__device__ float over_block(float value, Combine combine) {
  __shared__ float of_warps[kWarp];
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffU, value, distance));
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  __syncthreads();  // the values of the previous reduction have been read
  if (threadIdx.x % kWarp == 0) of_warps[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = static_cast<int>(threadIdx.x) % kWarp < warps ? of_warps[threadIdx.x % kWarp] : Combine::kNone;
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffU, value, distance));
  return value;
}

/// Calls `work(i, values)` for every element of a row, N at a time, from the threads of a block.
template <int N, class Work>
__device__ void each_of_row(const Bf16* row, std::int64_t width, Work work) {
  for (std::int64_t i = threadIdx.x * N; i < width; i += blockDim.x * N) {
    float values[N];
    load(row + i, values);
    work(i, values);
  }
}

inline int threads_for_row(std::int64_t width, int step) {
  const std::int64_t wanted = (width / step + kWarp - 1) / kWarp * kWarp;
  return static_cast<int>(std::clamp<std::int64_t>(wanted, kWarp, 1024));
}
inline int blocks_for_rows(std::int64_t rows) { return static_cast<int>(std::min<std::int64_t>(rows, 1 << 20)); }

/// Launches a kernel that works on rows, eight elements at a time if the width allows it.
template <class Launch>
void each_row(std::int64_t rows, std::int64_t width, Launch launch) {
  if (rows <= 0) return;
  if (width % 8 == 0) return launch(Wide<8>{}, blocks_for_rows(rows), threads_for_row(width, 8));
  launch(Wide<1>{}, blocks_for_rows(rows), threads_for_row(width, 1));
}

/// The four floats at `p + i`, of which `n` exist.
inline __device__ float4 load4(const float* p, std::int64_t i, std::int64_t n) {
  if (n >= 4) return *reinterpret_cast<const float4*>(p + i);
  return {p[i], n > 1 ? p[i + 1] : 0, n > 2 ? p[i + 2] : 0, 0};
}
inline __device__ void store4(float4 v, float* p, std::int64_t i, std::int64_t n) {
  if (n >= 4) {
    *reinterpret_cast<float4*>(p + i) = v;
    return;
  }
  p[i] = v.x;
  if (n > 1) p[i + 1] = v.y;
  if (n > 2) p[i + 2] = v.z;
}
inline __device__ void store4(float4 v, Bf16* p, std::int64_t i, std::int64_t n) {
  const float values[4] = {v.x, v.y, v.z, v.w};
  if (n >= 4) return store(values, p + i);
  for (std::int64_t j = 0; j < n; ++j) p[i + j] = __float2bfloat16(values[j]);
}

inline __device__ std::uint8_t to_e4m3(float x) {
  return static_cast<std::uint8_t>(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3));
}

}  // namespace tracecast::cuda
