#include <cstring>

#include "kernels/cpu.hpp"

namespace tracecast::cpu {

void embedding_forward(std::int64_t rows, std::int64_t width, const float* table, const std::int32_t* ids, float* y) {
  for (std::int64_t r = 0; r < rows; ++r)
    std::memcpy(y + r * width, table + ids[r] * width, static_cast<std::size_t>(width) * sizeof(float));
}

void embedding_backward(std::int64_t rows, std::int64_t width, const float* d_y, const std::int32_t* ids,
                        float* d_table) {
  for (std::int64_t r = 0; r < rows; ++r) {
    float* row = d_table + ids[r] * width;
    for (std::int64_t i = 0; i < width; ++i) row[i] += d_y[r * width + i];
  }
}

}  // namespace tracecast::cpu
