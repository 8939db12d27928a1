#include "kernels/cuda/device.cuh"

namespace tracecast::cuda {
namespace {

constexpr float kNormEpsilon = 1e-5F;

template <int N, bool kLayer>
__global__ void norm_forward_kernel(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* weight,
                                    const Bf16* bias, Bf16* y, float* statistics) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const Bf16* const row = x + r * width;
    float mean = 0;
    if (kLayer) {
      float sum = 0;
      each_of_row<N>(row, width, [&](std::int64_t, const float(&v)[N]) {
        for (int i = 0; i < N; ++i) sum += v[i];
      });
      mean = over_block(sum, Sum{}) / static_cast<float>(width);
    }
    float squares = 0;
    each_of_row<N>(row, width, [&](std::int64_t, const float(&v)[N]) {
      for (int i = 0; i < N; ++i) squares += (v[i] - mean) * (v[i] - mean);
    });
    const float inverse = rsqrtf(over_block(squares, Sum{}) / static_cast<float>(width) + kNormEpsilon);
    each_of_row<N>(row, width, [&](std::int64_t at, const float(&v)[N]) {
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

/// d_x of a block's rows; their share of d_weight and d_bias is accumulated in shared memory, one thread per column.
template <int N, bool kLayer>
__global__ void norm_backward_kernel(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* weight,
                                     const float* statistics, const Bf16* d_y, Bf16* d_x, float* partial) {
  TRACECAST_DYNAMIC_SHARED(float, sums);  // [width], for LayerNorm [2, width]
  const std::int64_t sum_count = kLayer ? 2 * width : width;
  for (std::int64_t i = threadIdx.x; i < sum_count; i += blockDim.x) sums[i] = 0;
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const float mean = statistics[2 * r];
    const float inverse = statistics[2 * r + 1];
    float along = 0;   // sum of d_y weight x^
    float across = 0;  // sum of d_y weight
    each_of_row<N>(x + r * width, width, [&](std::int64_t at, const float(&v)[N]) {
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
    each_of_row<N>(x + r * width, width, [&](std::int64_t at, const float(&v)[N]) {
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

__global__ void norm_backward_sum_kernel(int blocks, std::int64_t width, std::int64_t pitch, const float* partial,
                                         float* sum) {
  for (std::int64_t i = first_index(); i < width; i += stride()) {
    float total = 0;
    for (int b = 0; b < blocks; ++b) total += partial[b * pitch + i];
    sum[i] = total;
  }
}

template <bool kLayer>
void launch_norm_backward(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* weight,
                          const float* statistics, const Bf16* d_y, Bf16* d_x, float* partial, int blocks,
                          cudaStream_t stream) {
  const auto shared = static_cast<std::size_t>(width) * sizeof(float) * (kLayer ? 2 : 1);
  each_row(rows, width, [=](auto wide, int, int threads) {
    const auto kernel = norm_backward_kernel<wide.value, kLayer>;
    TRACECAST_CUDA(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
    TRACECAST_LAUNCH(kernel, blocks, threads, shared, stream, rows, width, x, weight, statistics, d_y, d_x, partial);
  });
}

}  // namespace

void rms_norm_forward(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* weight, Bf16* y,
                      float* statistics, cudaStream_t stream) {
  each_row(rows, width, [=](auto wide, int blocks, int threads) {
    const auto kernel = norm_forward_kernel<wide.value, false>;
    TRACECAST_LAUNCH(kernel, blocks, threads, 0, stream, rows, width, x, weight, nullptr, y, statistics);
  });
}

void layer_norm_forward(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* weight, const Bf16* bias,
                        Bf16* y, float* statistics, cudaStream_t stream) {
  each_row(rows, width, [=](auto wide, int blocks, int threads) {
    const auto kernel = norm_forward_kernel<wide.value, true>;
    TRACECAST_LAUNCH(kernel, blocks, threads, 0, stream, rows, width, x, weight, bias, y, statistics);
  });
}

void norm_backward(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* weight, const float* statistics,
                   const Bf16* d_y, Bf16* d_x, float* d_weight, float* d_bias, float* partial, cudaStream_t stream) {
  const bool layer = d_bias != nullptr;
  const int blocks = static_cast<int>(std::min<std::int64_t>(rows, kNormBlocks));
  if (layer)
    launch_norm_backward<true>(rows, width, x, weight, statistics, d_y, d_x, partial, blocks, stream);
  else
    launch_norm_backward<false>(rows, width, x, weight, statistics, d_y, d_x, partial, blocks, stream);
  const std::int64_t pitch = layer ? 2 * width : width;
  TRACECAST_LAUNCH(norm_backward_sum_kernel, blocks_for(width), kThreads, 0, stream, blocks, width, pitch, partial,
                   d_weight);
  if (layer)
    TRACECAST_LAUNCH(norm_backward_sum_kernel, blocks_for(width), kThreads, 0, stream, blocks, width, pitch,
                     partial + width, d_bias);
}

}  // namespace tracecast::cuda
