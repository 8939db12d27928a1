#include <algorithm>
#include <cstring>

#include "kernels/bf16.hpp"
#include "kernels/cpu.hpp"

namespace tracecast::cpu {

void to_bf16(std::int64_t count, const float* x, std::uint16_t* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = bf16_of(x[i]);
}

void transpose(std::int64_t rows, std::int64_t width, const float* x, float* y) {
  constexpr std::int64_t kBlock = 32;  // 32 x 32 floats, read and written, fit the L1 cache
  for (std::int64_t r0 = 0; r0 < rows; r0 += kBlock)
    for (std::int64_t c0 = 0; c0 < width; c0 += kBlock)
      for (std::int64_t r = r0; r < std::min(rows, r0 + kBlock); ++r)
        for (std::int64_t c = c0; c < std::min(width, c0 + kBlock); ++c) y[c * rows + r] = x[r * width + c];
}

void permute_rows(std::int64_t rows, std::int64_t width, const float* x, const std::int32_t* order, float* y) {
  for (std::int64_t r = 0; r < rows; ++r)
    std::memcpy(y + r * width, x + order[r] * width, static_cast<std::size_t>(width) * sizeof(float));
}

}  // namespace tracecast::cpu
