#include "kernels/cuda/device.cuh"
#include "kernels/cuda/measure.hpp"

namespace tracecast::cuda {
namespace {

__device__ std::uint64_t mixed(std::uint64_t x) {  // splitmix64's finaliser
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}
__device__ float unit(std::uint64_t seed, std::int64_t i) {  // (0, 1]
  const std::uint64_t bits = mixed(seed + static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15ULL);
  return static_cast<float>((bits >> 40) + 1) * 0x1p-24F;
}

__global__ void hold_kernel(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

}  // namespace

void hold(long long cycles, cudaStream_t stream) { TRACECAST_LAUNCH(hold_kernel, 1, 1, 0, stream, cycles); }

void fill_random(std::int64_t count, std::uint64_t seed, Bf16* values, cudaStream_t stream) {
  each(count, 1, stream, [=] __device__(std::int64_t i) {
    const float value = 2 * unit(seed, i) - 1;
    values[i] = __float2bfloat16(value == 0 ? 0.5F : value * 0.996F);  // rounds to less than 1
  });
}

void fill_random_fp8(std::int64_t count, std::uint64_t seed, std::uint8_t* values, cudaStream_t stream) {
  each(count, 1, stream, [=] __device__(std::int64_t i) { values[i] = to_e4m3(2 * unit(seed, i) - 1); });
}

void fill_random_positive(std::int64_t count, std::uint64_t seed, float* values, cudaStream_t stream) {
  each(count, 1, stream, [=] __device__(std::int64_t i) { values[i] = unit(seed, i); });
}

void fill(std::int64_t count, float value, float* values, cudaStream_t stream) {
  each(count, 1, stream, [=] __device__(std::int64_t i) { values[i] = value; });
}

void fill_random_ids(std::int64_t count, std::int64_t below, std::uint64_t seed, std::int32_t* ids,
                     cudaStream_t stream) {
  each(count, 1, stream, [=] __device__(std::int64_t i) {
    const std::uint64_t bits = mixed(seed + static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15ULL);
    ids[i] = static_cast<std::int32_t>(bits % static_cast<std::uint64_t>(below));
  });
}

}  // namespace tracecast::cuda
