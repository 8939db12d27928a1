#include "kernels/cuda/device.cuh"

namespace tracecast::cuda {
namespace {

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

}  // namespace

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

}  // namespace tracecast::cuda
