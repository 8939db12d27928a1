#include <algorithm>
#include <cmath>

#include "kernels/cpu.hpp"

namespace tracecast::cpu {

void softmax_forward(std::int64_t batch, std::int64_t rows, std::int64_t width, float scale, bool causal,
                     const float* x, float* y) {
  for (std::int64_t r = 0; r < batch * rows; ++r, x += width, y += width) {
    const std::int64_t seen = causal ? width - rows + r % rows + 1 : width;
    const float maximum = *std::max_element(x, x + seen);
    float sum = 0;
    for (std::int64_t i = 0; i < seen; ++i) {
      y[i] = std::exp((x[i] - maximum) * scale);
      sum += y[i];
    }
    for (std::int64_t i = 0; i < seen; ++i) y[i] /= sum;
    std::fill(y + seen, y + width, 0.0F);
  }
}

void softmax_backward(std::int64_t batch, std::int64_t rows, std::int64_t width, float scale, const float* y,
                      const float* d_y, float* d_x) {
  for (std::int64_t r = 0; r < batch * rows; ++r, y += width, d_y += width, d_x += width) {
    float projection = 0;
    for (std::int64_t i = 0; i < width; ++i) projection += y[i] * d_y[i];
    for (std::int64_t i = 0; i < width; ++i) d_x[i] = y[i] * (d_y[i] - projection) * scale;
  }
}

}  // namespace tracecast::cpu
