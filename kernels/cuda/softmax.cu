#include "kernels/cuda/device.cuh"

namespace tracecast::cuda {
namespace {

template <int N>
__global__ void softmax_forward_kernel(std::int64_t rows, std::int64_t width, float scale, const Bf16* x, Bf16* y) {
  for (std::int64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const Bf16* const row = x + r * width;
    float largest = Largest::kNone;
    each_of_row<N>(row, width, [&](std::int64_t, const float(&v)[N]) {
      for (int i = 0; i < N; ++i) largest = fmaxf(largest, v[i] * scale);
    });
    largest = over_block(largest, Largest{});
    float sum = 0;
    each_of_row<N>(row, width, [&](std::int64_t, const float(&v)[N]) {
      for (int i = 0; i < N; ++i) sum += __expf(v[i] * scale - largest);
    });
    const float inverse = 1 / over_block(sum, Sum{});
    each_of_row<N>(row, width, [&](std::int64_t at, const float(&v)[N]) {
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
    each_of_row<N>(y + r * width, width, [&](std::int64_t at, const float(&v)[N]) {
      float d[N];
      load(d_y + r * width + at, d);
      for (int i = 0; i < N; ++i) sum += v[i] * d[i];
    });
    sum = over_block(sum, Sum{});
    each_of_row<N>(y + r * width, width, [&](std::int64_t at, const float(&v)[N]) {
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
    float sum = 0;  // of exp(x - largest); both are running values of this thread, in one pass over the logits
    each_of_row<N>(row, width, [&](std::int64_t, const float(&v)[N]) {
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
    each_of_row<N>(logits + r * width, width, [&](std::int64_t at, const float(&v)[N]) {
      float out[N];
      for (int i = 0; i < N; ++i)
        out[i] = (__expf(v[i] - largest) * inverse - (at + i == target ? 1.0F : 0.0F)) * scale;
      store(out, d_logits + r * width + at);
    });
  }
}

}  // namespace

void softmax_forward(std::int64_t rows, std::int64_t width, float scale, const Bf16* x, Bf16* y, cudaStream_t stream) {
  each_row(rows, width, [=](auto wide, int blocks, int threads) {
    TRACECAST_LAUNCH(softmax_forward_kernel<wide.value>, blocks, threads, 0, stream, rows, width, scale, x, y);
  });
}

void softmax_backward(std::int64_t rows, std::int64_t width, float scale, const Bf16* y, const Bf16* d_y, Bf16* d_x,
                      cudaStream_t stream) {
  each_row(rows, width, [=](auto wide, int blocks, int threads) {
    TRACECAST_LAUNCH(softmax_backward_kernel<wide.value>, blocks, threads, 0, stream, rows, width, scale, y, d_y, d_x);
  });
}

void cross_entropy_forward(std::int64_t rows, std::int64_t width, std::int64_t first, const Bf16* logits,
                           const std::int32_t* targets, float* statistics, cudaStream_t stream) {
  each_row(rows, width, [=](auto wide, int blocks, int threads) {
    TRACECAST_LAUNCH(cross_entropy_forward_kernel<wide.value>, blocks, threads, 0, stream, rows, width, first, logits,
                     targets, statistics);
  });
}

void cross_entropy_backward(std::int64_t rows, std::int64_t width, std::int64_t first, float scale, const Bf16* logits,
                            const std::int32_t* targets, const float* statistics, Bf16* d_logits, cudaStream_t stream) {
  each_row(rows, width, [=](auto wide, int blocks, int threads) {
    TRACECAST_LAUNCH(cross_entropy_backward_kernel<wide.value>, blocks, threads, 0, stream, rows, width, first, scale,
                     logits, targets, statistics, d_logits);
  });
}

}  // namespace tracecast::cuda
