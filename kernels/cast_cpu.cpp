#include <cstring>

#include "kernels/bf16.hpp"
#include "kernels/cpu.hpp"

namespace tracecast::cpu {

void to_bf16(std::int64_t count, const float* x, std::uint16_t* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = bf16_of(x[i]);
}

void permute_rows(std::int64_t rows, std::int64_t width, const float* x, const std::int32_t* order, float* y) {
  for (std::int64_t r = 0; r < rows; ++r)
    std::memcpy(y + r * width, x + order[r] * width, static_cast<std::size_t>(width) * sizeof(float));
}

}  // namespace tracecast::cpu
