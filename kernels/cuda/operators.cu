#include "kernels/cuda/operators.hpp"

#include "kernels/cuda/measure.hpp"

#include <algorithm>

#include <cuda_fp8.h>

namespace tracecast::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kMostBlocks = 132 * 16;  // enough to fill any of today's GPUs; the loops stride over the grid
constexpr float kNormEpsilon = 1e-5F;

/// N values that are loaded and stored as one access.
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

int blocks_for(std::int64_t threads) {
  return static_cast<int>(std::clamp<std::int64_t>((threads + kThreads - 1) / kThreads, 1, kMostBlocks));
}

__device__ std::int64_t first_index() { return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ std::int64_t stride() { return static_cast<std::int64_t>(gridDim.x) * blockDim.x; }

/// Calls `work(i)` for every i of [0, count), in steps of N, from a grid of threads.
template <class Work>
__global__ void each_kernel(std::int64_t count, int step, Work work) {
  for (std::int64_t i = first_index() * step; i < count; i += stride() * step) work(i);
}
template <class Work>
void each(std::int64_t count, int step, cudaStream_t stream, Work work) {
  if (count > 0) each_kernel<<<blocks_for((count + step - 1) / step), kThreads, 0, stream>>>(count, step, work);
}

template <int N>
struct Wide {
  static constexpr int value = N;
};

/// Eight elements at a time where the length allows it, else one: Work<N>{arguments...} does N of them.
template <template <int> class Work, class... Arguments>
void each_bf16(std::int64_t count, std::int64_t period, cudaStream_t stream, Arguments... arguments) {
  if (count % 8 == 0 && period % 8 == 0) return each(count, 8, stream, Work<8>{arguments...});
  each(count, 1, stream, Work<1>{arguments...});
}

__device__ std::uint64_t mixed(std::uint64_t x) {  // splitmix64's finaliser
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}
__device__ float unit(std::uint64_t seed, std::int64_t i) {  // (0, 1]
  const std::uint64_t bits = mixed(seed + static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15ULL);
  return static_cast<float>((bits >> 40) + 1) * 0x1p-24F;
}

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
  static constexpr float kNone = 0;
};
struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  static constexpr float kNone = -3.4e38F;
};

/// Reduction over the threads of a block; all of them get the result.
template <class Combine>
__device__ float over_block(float value, Combine combine) {
  __shared__ float of_warps[kWarp];
  for (int distance = kWarp / 2; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffU, value, distance));
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  __syncthreads();  // the last reduction's values have been read
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

int threads_for_row(std::int64_t width, int step) {
  const std::int64_t wanted = (width / step + kWarp - 1) / kWarp * kWarp;
  return static_cast<int>(std::clamp<std::int64_t>(wanted, kWarp, 1024));
}
int blocks_for_rows(std::int64_t rows) { return static_cast<int>(std::min<std::int64_t>(rows, 1 << 20)); }

template <int N, bool kLayer>
__global__ void norm_forward_kernel(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* weight,
                                    const Bf16* bias, Bf16* y, float* statistics) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const Bf16* const row = x + r * width;
    float mean = 0;
    if (kLayer) {
      float sum = 0;
      each_of_row<N>(row, width, [&](std::int64_t, const float (&v)[N]) {
        for (int i = 0; i < N; ++i) sum += v[i];
      });
      mean = over_block(sum, Sum{}) / static_cast<float>(width);
    }
    float squares = 0;
    each_of_row<N>(row, width, [&](std::int64_t, const float (&v)[N]) {
      for (int i = 0; i < N; ++i) squares += (v[i] - mean) * (v[i] - mean);
    });
    const float inverse = rsqrtf(over_block(squares, Sum{}) / static_cast<float>(width) + kNormEpsilon);
    each_of_row<N>(row, width, [&](std::int64_t at, const float (&v)[N]) {
      float w[N];
      float b[N] = {};
      float out[N];
      load(weight + at, w);
      if (kLayer) load(bias + at, b);
      for (int i = 0; i < N; ++i) out[i] = (v[i] - mean) * inverse * w[i] + b[i];
      store(out, y + r * width + at);
    });
    if (threadIdx.x == 0) {
      statistics[2 * r] = mean;
      statistics[2 * r + 1] = inverse;
    }
  }
}

/// d_x of a block's rows; their share of d_weight and d_bias is gathered in shared memory, each column by one thread.
template <int N, bool kLayer>
__global__ void norm_backward_kernel(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* weight,
                                     const float* statistics, const Bf16* d_y, Bf16* d_x, float* partial) {
  extern __shared__ float sums[];  // [width], for LayerNorm [2, width]
  const std::int64_t sum_count = kLayer ? 2 * width : width;
  for (std::int64_t i = threadIdx.x; i < sum_count; i += blockDim.x) sums[i] = 0;
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const float mean = statistics[2 * r];
    const float inverse = statistics[2 * r + 1];
    float along = 0;   // sum of d_y weight x^
    float across = 0;  // sum of d_y weight
    each_of_row<N>(x + r * width, width, [&](std::int64_t at, const float (&v)[N]) {
      float w[N];
      float d[N];
      load(weight + at, w);
      load(d_y + r * width + at, d);
      for (int i = 0; i < N; ++i) {
        along += d[i] * w[i] * (v[i] - mean) * inverse;
        across += d[i] * w[i];
      }
    });
    along = over_block(along, Sum{}) / static_cast<float>(width);
    across = kLayer ? over_block(across, Sum{}) / static_cast<float>(width) : 0;
    each_of_row<N>(x + r * width, width, [&](std::int64_t at, const float (&v)[N]) {
      float w[N];
      float d[N];
      float out[N];
      load(weight + at, w);
      load(d_y + r * width + at, d);
      for (int i = 0; i < N; ++i) {
        const float normal = (v[i] - mean) * inverse;
        out[i] = inverse * (d[i] * w[i] - across - normal * along);
        sums[at + i] += d[i] * normal;
        if (kLayer) sums[width + at + i] += d[i];
      }
      store(out, d_x + r * width + at);
    });
  }
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < sum_count; i += blockDim.x) partial[blockIdx.x * sum_count + i] = sums[i];
}

__global__ void sum_partials_kernel(int blocks, std::int64_t width, std::int64_t pitch, const float* partial,
                                    float* sum) {
  for (std::int64_t i = first_index(); i < width; i += stride()) {
    float total = 0;
    for (int b = 0; b < blocks; ++b) total += partial[b * pitch + i];
    sum[i] = total;
  }
}

template <int N>
__global__ void softmax_forward_kernel(std::int64_t rows, std::int64_t width, float scale, const Bf16* x, Bf16* y) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const Bf16* const row = x + r * width;
    float largest = Largest::kNone;
    each_of_row<N>(row, width, [&](std::int64_t, const float (&v)[N]) {
      for (int i = 0; i < N; ++i) largest = fmaxf(largest, v[i] * scale);
    });
    largest = over_block(largest, Largest{});
    float sum = 0;
    each_of_row<N>(row, width, [&](std::int64_t, const float (&v)[N]) {
      for (int i = 0; i < N; ++i) sum += __expf(v[i] * scale - largest);
    });
    const float inverse = 1 / over_block(sum, Sum{});
    each_of_row<N>(row, width, [&](std::int64_t at, const float (&v)[N]) {
      float out[N];
      for (int i = 0; i < N; ++i) out[i] = __expf(v[i] * scale - largest) * inverse;
      store(out, y + r * width + at);
    });
  }
}

template <int N>
__global__ void softmax_backward_kernel(std::int64_t rows, std::int64_t width, float scale, const Bf16* y,
                                        const Bf16* d_y, Bf16* d_x) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    float sum = 0;
    each_of_row<N>(y + r * width, width, [&](std::int64_t at, const float (&v)[N]) {
      float d[N];
      load(d_y + r * width + at, d);
      for (int i = 0; i < N; ++i) sum += v[i] * d[i];
    });
    sum = over_block(sum, Sum{});
    each_of_row<N>(y + r * width, width, [&](std::int64_t at, const float (&v)[N]) {
      float d[N];
      float out[N];
      load(d_y + r * width + at, d);
      for (int i = 0; i < N; ++i) out[i] = scale * v[i] * (d[i] - sum);
      store(out, d_x + r * width + at);
    });
  }
}

template <int N>
__global__ void cross_entropy_forward_kernel(std::int64_t rows, std::int64_t width, std::int64_t first,
                                             const Bf16* logits, const std::int32_t* targets, float* statistics) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const Bf16* const row = logits + r * width;
    float largest = Largest::kNone;
    float sum = 0;  // of exp(x - largest), both as far as this thread has come: one pass over the logits
    each_of_row<N>(row, width, [&](std::int64_t, const float (&v)[N]) {
      float here = largest;
      for (int i = 0; i < N; ++i) here = fmaxf(here, v[i]);
      sum *= __expf(largest - here);
      for (int i = 0; i < N; ++i) sum += __expf(v[i] - here);
      largest = here;
    });
    const float of_all = over_block(largest, Largest{});
    sum = over_block(sum * __expf(largest - of_all), Sum{});
    if (threadIdx.x == 0) {
      const std::int64_t target = targets[r] - first;
      statistics[3 * r] = of_all;
      statistics[3 * r + 1] = sum;
      statistics[3 * r + 2] = target >= 0 && target < width ? __bfloat162float(row[target]) : 0;
    }
  }
}

template <int N>
__global__ void cross_entropy_backward_kernel(std::int64_t rows, std::int64_t width, std::int64_t first, float scale,
                                              const Bf16* logits, const std::int32_t* targets, const float* statistics,
                                              Bf16* d_logits) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const float largest = statistics[3 * r];
    const float inverse = 1 / statistics[3 * r + 1];
    const std::int64_t target = targets[r] - first;
    each_of_row<N>(logits + r * width, width, [&](std::int64_t at, const float (&v)[N]) {
      float out[N];
      for (int i = 0; i < N; ++i)
        out[i] = (__expf(v[i] - largest) * inverse - (at + i == target ? 1.0F : 0.0F)) * scale;
      store(out, d_logits + r * width + at);
    });
  }
}

/// Launches a kernel that works on rows, eight elements at a time where the width allows it.
template <class Launch>
void each_row(std::int64_t rows, std::int64_t width, Launch launch) {
  if (rows <= 0) return;
  if (width % 8 == 0) return launch(Wide<8>{}, blocks_for_rows(rows), threads_for_row(width, 8));
  launch(Wide<1>{}, blocks_for_rows(rows), threads_for_row(width, 1));
}

__device__ float gelu_of(float x) {
  const float inner = 0.7978845608F * (x + 0.044715F * x * x * x);
  return 0.5F * x * (1 + tanhf(inner));
}
__device__ float gelu_slope(float x) {
  const float t = tanhf(0.7978845608F * (x + 0.044715F * x * x * x));
  return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * 0.7978845608F * (1 + 3 * 0.044715F * x * x);
}

template <int N>
struct SwigluForward {
  std::int64_t width;
  const Bf16* x;
  Bf16* y;
  __device__ void operator()(std::int64_t i) const {
    const Bf16* const gate = x + i / width * 2 * width + i % width;
    float g[N];
    float u[N];
    float out[N];
    load(gate, g);
    load(gate + width, u);
    for (int j = 0; j < N; ++j) out[j] = g[j] / (1 + __expf(-g[j])) * u[j];
    store(out, y + i);
  }
};

template <int N>
struct SwigluBackward {
  std::int64_t width;
  const Bf16* x;
  const Bf16* d_y;
  Bf16* d_x;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t at = i / width * 2 * width + i % width;
    float g[N];
    float u[N];
    float d[N];
    float d_gate[N];
    float d_up[N];
    load(x + at, g);
    load(x + at + width, u);
    load(d_y + i, d);
    for (int j = 0; j < N; ++j) {
      const float s = 1 / (1 + __expf(-g[j]));
      d_gate[j] = d[j] * u[j] * s * (1 + g[j] * (1 - s));
      d_up[j] = d[j] * g[j] * s;
    }
    store(d_gate, d_x + at);
    store(d_up, d_x + at + width);
  }
};

template <int N>
struct GeluForward {
  const Bf16* x;
  Bf16* y;
  __device__ void operator()(std::int64_t i) const {
    float v[N];
    load(x + i, v);
    for (int j = 0; j < N; ++j) v[j] = gelu_of(v[j]);
    store(v, y + i);
  }
};

template <int N>
struct GeluBackward {
  const Bf16* x;
  const Bf16* d_y;
  Bf16* d_x;
  __device__ void operator()(std::int64_t i) const {
    float v[N];
    float d[N];
    load(x + i, v);
    load(d_y + i, d);
    for (int j = 0; j < N; ++j) d[j] *= gelu_slope(v[j]);
    store(d, d_x + i);
  }
};

template <int N>
struct Add {
  const Bf16* a;
  const Bf16* b;
  Bf16* y;
  __device__ void operator()(std::int64_t i) const {
    float u[N];
    float v[N];
    load(a + i, u);
    load(b + i, v);
    for (int j = 0; j < N; ++j) u[j] += v[j];
    store(u, y + i);
  }
};

template <int N>
struct DropoutAdd {
  float kept;
  const Bf16* x;
  const Bf16* residual;
  const std::uint8_t* mask;
  Bf16* y;
  __device__ void operator()(std::int64_t i) const {
    float v[N];
    float r[N];
    load(x + i, v);
    load(residual + i, r);
    for (int j = 0; j < N; ++j) r[j] += mask[i + j] != 0 ? v[j] * kept : 0.0F;
    store(r, y + i);
  }
};

template <int N>
struct DropoutBackward {
  float kept;
  const Bf16* d_y;
  const std::uint8_t* mask;
  Bf16* d_x;
  __device__ void operator()(std::int64_t i) const {
    float d[N];
    load(d_y + i, d);
    for (int j = 0; j < N; ++j) d[j] = mask[i + j] != 0 ? d[j] * kept : 0.0F;
    store(d, d_x + i);
  }
};

template <int N>
struct PermuteRows {
  std::int64_t width;
  const Bf16* x;
  const std::int32_t* order;
  Bf16* y;
  __device__ void operator()(std::int64_t i) const {
    float v[N];
    load(x + order[i / width] * width + i % width, v);
    store(v, y + i);
  }
};

__device__ std::uint8_t to_e4m3(float x) {
  return static_cast<std::uint8_t>(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3));
}

constexpr int kTile = 64;

/// A tile is read once, written as it is and, from shared memory, transposed.
__global__ void quantise_kernel(std::int64_t rows, std::int64_t width, float factor, const Bf16* x, std::uint8_t* y,
                                std::uint8_t* transposed) {
  __shared__ std::uint8_t tile[kTile][kTile + 4];
  const std::int64_t tiles_across = (width + kTile - 1) / kTile;
  const std::int64_t tiles = tiles_across * ((rows + kTile - 1) / kTile);
  for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const std::int64_t row = t / tiles_across * kTile;
    const std::int64_t column = t % tiles_across * kTile;
    for (int i = static_cast<int>(threadIdx.x); i < kTile * kTile; i += blockDim.x) {
      const std::int64_t r = row + i / kTile;
      const std::int64_t c = column + i % kTile;
      if (r >= rows || c >= width) continue;
      const std::uint8_t value = to_e4m3(__bfloat162float(x[r * width + c]) * factor);
      y[r * width + c] = value;
      tile[i % kTile][i / kTile] = value;
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); transposed != nullptr && i < kTile * kTile; i += blockDim.x) {
      const std::int64_t c = column + i / kTile;
      const std::int64_t r = row + i % kTile;
      if (r < rows && c < width) transposed[c * rows + r] = tile[i / kTile][i % kTile];
    }
    __syncthreads();
  }
}

__global__ void squared_norm_kernel(std::int64_t count, const float* x, double* sum) {
  float squares = 0;
  for (std::int64_t i = first_index() * 4; i < count; i += stride() * 4) {
    if (i + 4 <= count) {
      const float4 v = *reinterpret_cast<const float4*>(x + i);
      squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    } else {
      for (std::int64_t j = i; j < count; ++j) squares += x[j] * x[j];
    }
  }
  squares = over_block(squares, Sum{});
  if (threadIdx.x == 0) atomicAdd(sum, static_cast<double>(squares));
}

__device__ float adam_step(const AdamSettings& s, float g, float& w, float& m, float& v) {
  m = s.beta1 * m + (1 - s.beta1) * g;
  v = s.beta2 * v + (1 - s.beta2) * g * g;
  w -= s.learning_rate * (m / s.correction1 / (sqrtf(v / s.correction2) + s.epsilon) + s.weight_decay * w);
  return w;
}

/// The four floats at `p + i`, of which `n` exist.
__device__ float4 load4(const float* p, std::int64_t i, std::int64_t n) {
  if (n >= 4) return *reinterpret_cast<const float4*>(p + i);
  return {p[i], n > 1 ? p[i + 1] : 0, n > 2 ? p[i + 2] : 0, 0};
}
__device__ void store4(float4 v, float* p, std::int64_t i, std::int64_t n) {
  if (n >= 4) {
    *reinterpret_cast<float4*>(p + i) = v;
    return;
  }
  p[i] = v.x;
  if (n > 1) p[i + 1] = v.y;
  if (n > 2) p[i + 2] = v.z;
}
__device__ void store4(float4 v, Bf16* p, std::int64_t i, std::int64_t n) {
  const float values[4] = {v.x, v.y, v.z, v.w};
  if (n >= 4) return store(values, p + i);
  for (std::int64_t j = 0; j < n; ++j) p[i + j] = __float2bfloat16(values[j]);
}

__global__ void hold_kernel(long long cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {
  }
}

}  // namespace

void hold(long long cycles, cudaStream_t stream) { hold_kernel<<<1, 1, 0, stream>>>(cycles); }

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

void rms_norm_forward(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* weight, Bf16* y,
                      float* statistics, cudaStream_t stream) {
  each_row(rows, width, [=](auto wide, int blocks, int threads) {
    norm_forward_kernel<wide.value, false>
        <<<blocks, threads, 0, stream>>>(rows, width, x, weight, nullptr, y, statistics);
  });
}

void layer_norm_forward(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* weight, const Bf16* bias,
                        Bf16* y, float* statistics, cudaStream_t stream) {
  each_row(rows, width, [=](auto wide, int blocks, int threads) {
    norm_forward_kernel<wide.value, true>
        <<<blocks, threads, 0, stream>>>(rows, width, x, weight, bias, y, statistics);
  });
}

namespace {

template <bool kLayer>
void launch_norm_backward(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* weight,
                          const float* statistics, const Bf16* d_y, Bf16* d_x, float* partial, int blocks,
                          cudaStream_t stream) {
  const auto shared = static_cast<std::size_t>(width) * sizeof(float) * (kLayer ? 2 : 1);
  each_row(rows, width, [=](auto wide, int, int threads) {
    const auto kernel = norm_backward_kernel<wide.value, kLayer>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared));
    kernel<<<blocks, threads, shared, stream>>>(rows, width, x, weight, statistics, d_y, d_x, partial);
  });
}

}  // namespace

void norm_backward(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* weight, const float* statistics,
                   const Bf16* d_y, Bf16* d_x, float* d_weight, float* d_bias, float* partial, cudaStream_t stream) {
  const bool layer = d_bias != nullptr;
  const int blocks = static_cast<int>(std::min<std::int64_t>(rows, kNormBlocks));
  if (layer)
    launch_norm_backward<true>(rows, width, x, weight, statistics, d_y, d_x, partial, blocks, stream);
  else
    launch_norm_backward<false>(rows, width, x, weight, statistics, d_y, d_x, partial, blocks, stream);
  const std::int64_t pitch = layer ? 2 * width : width;
  sum_partials_kernel<<<blocks_for(width), kThreads, 0, stream>>>(blocks, width, pitch, partial, d_weight);
  if (layer)
    sum_partials_kernel<<<blocks_for(width), kThreads, 0, stream>>>(blocks, width, pitch, partial + width, d_bias);
}

void rope(std::int64_t rows, std::int64_t width, std::int64_t heads, std::int64_t positions, bool backward,
          const Bf16* x, Bf16* y, cudaStream_t stream) {
  const float direction = backward ? -1.0F : 1.0F;
  const float exponent = -2 * 13.28771238F / static_cast<float>(width);  // log2(10,000) = 13.29
  const auto rotate = [=] __device__(std::int64_t at, float a, float b, float& u, float& v) {
    const std::int64_t pair = at % width / 2;
    const auto position = static_cast<float>(at / width / heads % positions);
    float sine;
    float cosine;
    sincosf(direction * position * exp2f(exponent * static_cast<float>(pair)), &sine, &cosine);
    u = a * cosine - b * sine;
    v = a * sine + b * cosine;
  };
  if (width % 8 == 0) {
    each(rows * width, 8, stream, [=] __device__(std::int64_t i) {
      float v[8];
      float out[8];
      load(x + i, v);
      for (int j = 0; j < 8; j += 2) rotate(i + j, v[j], v[j + 1], out[j], out[j + 1]);
      store(out, y + i);
    });
    return;
  }
  each(rows * width, 2, stream, [=] __device__(std::int64_t i) {
    float v[2] = {__bfloat162float(x[i]), __bfloat162float(x[i + 1])};
    float out[2];
    rotate(i, v[0], v[1], out[0], out[1]);
    y[i] = __float2bfloat16(out[0]);
    y[i + 1] = __float2bfloat16(out[1]);
  });
}

void swiglu_forward(std::int64_t rows, std::int64_t width, const Bf16* x, Bf16* y, cudaStream_t stream) {
  each_bf16<SwigluForward>(rows * width, width, stream, width, x, y);
}

void swiglu_backward(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* d_y, Bf16* d_x,
                     cudaStream_t stream) {
  each_bf16<SwigluBackward>(rows * width, width, stream, width, x, d_y, d_x);
}

void gelu_forward(std::int64_t count, const Bf16* x, Bf16* y, cudaStream_t stream) {
  each_bf16<GeluForward>(count, count, stream, x, y);
}

void gelu_backward(std::int64_t count, const Bf16* x, const Bf16* d_y, Bf16* d_x, cudaStream_t stream) {
  each_bf16<GeluBackward>(count, count, stream, x, d_y, d_x);
}

void add(std::int64_t count, const Bf16* a, const Bf16* b, Bf16* y, cudaStream_t stream) {
  each_bf16<Add>(count, count, stream, a, b, y);
}

void dropout_add(std::int64_t count, float probability, const Bf16* x, const Bf16* residual, const std::uint8_t* mask,
                 Bf16* y, cudaStream_t stream) {
  const float kept = 1 / (1 - probability);
  each_bf16<DropoutAdd>(count, count, stream, kept, x, residual, mask, y);
}

void dropout_backward(std::int64_t count, float probability, const Bf16* d_y, const std::uint8_t* mask, Bf16* d_x,
                      cudaStream_t stream) {
  const float kept = 1 / (1 - probability);
  each_bf16<DropoutBackward>(count, count, stream, kept, d_y, mask, d_x);
}

void softmax_forward(std::int64_t rows, std::int64_t width, float scale, const Bf16* x, Bf16* y, cudaStream_t stream) {
  each_row(rows, width, [=](auto wide, int blocks, int threads) {
    softmax_forward_kernel<wide.value><<<blocks, threads, 0, stream>>>(rows, width, scale, x, y);
  });
}

void softmax_backward(std::int64_t rows, std::int64_t width, float scale, const Bf16* y, const Bf16* d_y, Bf16* d_x,
                      cudaStream_t stream) {
  each_row(rows, width, [=](auto wide, int blocks, int threads) {
    softmax_backward_kernel<wide.value><<<blocks, threads, 0, stream>>>(rows, width, scale, y, d_y, d_x);
  });
}

void cross_entropy_forward(std::int64_t rows, std::int64_t width, std::int64_t first, const Bf16* logits,
                           const std::int32_t* targets, float* statistics, cudaStream_t stream) {
  each_row(rows, width, [=](auto wide, int blocks, int threads) {
    cross_entropy_forward_kernel<wide.value>
        <<<blocks, threads, 0, stream>>>(rows, width, first, logits, targets, statistics);
  });
}

void cross_entropy_backward(std::int64_t rows, std::int64_t width, std::int64_t first, float scale, const Bf16* logits,
                            const std::int32_t* targets, const float* statistics, Bf16* d_logits,
                            cudaStream_t stream) {
  each_row(rows, width, [=](auto wide, int blocks, int threads) {
    cross_entropy_backward_kernel<wide.value>
        <<<blocks, threads, 0, stream>>>(rows, width, first, scale, logits, targets, statistics, d_logits);
  });
}

void permute_rows(std::int64_t rows, std::int64_t width, const Bf16* x, const std::int32_t* order, Bf16* y,
                  cudaStream_t stream) {
  each_bf16<PermuteRows>(rows * width, width, stream, width, x, order, y);
}

void embedding_forward(std::int64_t rows, std::int64_t width, const Bf16* table, const std::int32_t* ids, Bf16* y,
                       cudaStream_t stream) {
  permute_rows(rows, width, table, ids, y, stream);
}

void embedding_backward(std::int64_t rows, std::int64_t width, const Bf16* d_y, const std::int32_t* ids, float* d_table,
                        cudaStream_t stream) {
  each(rows * width, 1, stream, [=] __device__(std::int64_t i) {
    atomicAdd(d_table + ids[i / width] * width + i % width, __bfloat162float(d_y[i]));
  });
}

void adam(std::int64_t count, const AdamSettings& settings, const float* gradient, float* weight, float* first_moment,
          float* second_moment, Bf16* narrow, cudaStream_t stream) {
  each(count, 4, stream, [=] __device__(std::int64_t i) {
    const std::int64_t n = count - i;
    const float4 g = load4(gradient, i, n);
    float4 w = load4(weight, i, n);
    float4 m = load4(first_moment, i, n);
    float4 v = load4(second_moment, i, n);
    adam_step(settings, g.x, w.x, m.x, v.x);
    adam_step(settings, g.y, w.y, m.y, v.y);
    adam_step(settings, g.z, w.z, m.z, v.z);
    adam_step(settings, g.w, w.w, m.w, v.w);
    store4(w, weight, i, n);
    store4(m, first_moment, i, n);
    store4(v, second_moment, i, n);
    if (narrow != nullptr) store4(w, narrow, i, n);
  });
}

void sgd(std::int64_t count, float learning_rate, float momentum, const float* gradient, float* weight, float* velocity,
         Bf16* narrow, cudaStream_t stream) {
  each(count, 4, stream, [=] __device__(std::int64_t i) {
    const std::int64_t n = count - i;
    float4 g = load4(gradient, i, n);
    float4 w = load4(weight, i, n);
    if (velocity != nullptr) {
      const float4 v = load4(velocity, i, n);
      g = {momentum * v.x + g.x, momentum * v.y + g.y, momentum * v.z + g.z, momentum * v.w + g.w};
      store4(g, velocity, i, n);
    }
    w = {w.x - learning_rate * g.x, w.y - learning_rate * g.y, w.z - learning_rate * g.z, w.w - learning_rate * g.w};
    store4(w, weight, i, n);
    if (narrow != nullptr) store4(w, narrow, i, n);
  });
}

void squared_norm(std::int64_t count, const float* x, double* sum, cudaStream_t stream) {
  cudaMemsetAsync(sum, 0, sizeof(double), stream);
  squared_norm_kernel<<<blocks_for((count + 3) / 4), kThreads, 0, stream>>>(count, x, sum);
}

void scale(std::int64_t count, float factor, float* x, cudaStream_t stream) {
  if (factor == 0) {
    cudaMemsetAsync(x, 0, static_cast<std::size_t>(count) * sizeof(float), stream);
    return;
  }
  each(count, 4, stream, [=] __device__(std::int64_t i) {
    const std::int64_t n = count - i;
    const float4 v = load4(x, i, n);
    store4(float4{v.x * factor, v.y * factor, v.z * factor, v.w * factor}, x, i, n);
  });
}

void quantise(std::int64_t rows, std::int64_t width, float factor, const Bf16* x, std::uint8_t* y,
              std::uint8_t* transposed, cudaStream_t stream) {
  const std::int64_t tiles = ((width + kTile - 1) / kTile) * ((rows + kTile - 1) / kTile);
  const int blocks = static_cast<int>(std::min<std::int64_t>(tiles, 1 << 20));
  if (tiles > 0) quantise_kernel<<<blocks, kThreads, 0, stream>>>(rows, width, factor, x, y, transposed);
}

void to_bf16(std::int64_t count, const float* x, Bf16* y, cudaStream_t stream) {
  each(count, 4, stream, [=] __device__(std::int64_t i) { store4(load4(x, i, count - i), y, i, count - i); });
}

}  // namespace tracecast::cuda
