/// \file
/// Runs CUDA kernels on a CPU, to check what they compute: kernels/cuda/*.cu are compiled as C++ behind this header.
///
/// Blocks run one after the other. Each thread of a block is a fiber. From barrier to barrier the warps run in a random order, each
/// as far ahead of the others as it may, so that a missing barrier shows; threads of a warp advance together from shuffle to shuffle.
/// Dynamic shared memory begins as NaN. A launch that a GPU would refuse aborts.
/// CUDA_ON_CPU_SEED chooses the orders. CUDA_ON_CPU_SKIP = 0 or 1 leaves out every other barrier of a thread, for a test of the test.
/// Leaves out: memory ordering, alignment faults, shuffles among part of a warp.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>

#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime_api.h>

// The toolkit defines these keywords away for other compilers, except for shared memory: one block runs at a time.
#undef __shared__
#define __shared__ static
#define TRACECAST_LAUNCH(kernel, blocks, threads, shared, stream, ...) \
  (static_cast<void>(stream), ::cuda_on_cpu::run(blocks, threads, shared, [&] { kernel(__VA_ARGS__); }))
#define TRACECAST_DYNAMIC_SHARED(type, name) type* const name = static_cast<type*>(::cuda_on_cpu::dynamic_shared())

namespace cuda_on_cpu {

struct Index {
  unsigned x = 0;
  unsigned y = 0;
  unsigned z = 0;
};

/// Runs `body` for every thread of every block.
void run(std::int64_t blocks, int threads, std::size_t shared_bytes, const std::function<void()>& body);
void* dynamic_shared();
void barrier();
/// The value that the thread whose lane differs by `distance` passed to the same call.
std::uint64_t exchanged(std::uint64_t value, int distance);
/// Threads of a block waited at a barrier when others had ended.
bool diverged();

}  // namespace cuda_on_cpu

extern cuda_on_cpu::Index threadIdx;
extern cuda_on_cpu::Index blockIdx;
extern cuda_on_cpu::Index blockDim;
extern cuda_on_cpu::Index gridDim;

inline void __syncthreads() { cuda_on_cpu::barrier(); }
template <class T>
T __shfl_xor_sync(unsigned, T value, int distance) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  word = cuda_on_cpu::exchanged(word, distance);
  std::memcpy(&value, &word, sizeof value);
  return value;
}
template <class T>
T atomicAdd(T* to, T value) {
  const T before = *to;
  *to += value;
  return before;
}
inline float __expf(float x) { return std::exp(x); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline long long clock64() {
  static long long now = 0;
  return now += 1000;
}
