#include "kernels/cuda/device.cuh"

namespace tracecast::cuda {
namespace {

constexpr int kTile = 64;

/// Reads a tile once, writes it unchanged and, through shared memory, transposed.
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

}  // namespace

void quantise(std::int64_t rows, std::int64_t width, float factor, const Bf16* x, std::uint8_t* y,
              std::uint8_t* transposed, cudaStream_t stream) {
  const std::int64_t tiles = ((width + kTile - 1) / kTile) * ((rows + kTile - 1) / kTile);
  const int blocks = static_cast<int>(std::min<std::int64_t>(tiles, 1 << 20));
  if (tiles > 0) TRACECAST_LAUNCH(quantise_kernel, blocks, kThreads, 0, stream, rows, width, factor, x, y, transposed);
}

void to_bf16(std::int64_t count, const float* x, Bf16* y, cudaStream_t stream) {
  each(count, 4, stream, [=] __device__(std::int64_t i) { store4(load4(x, i, count - i), y, i, count - i); });
}

}  // namespace tracecast::cuda
