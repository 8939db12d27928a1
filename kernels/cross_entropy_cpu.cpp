#include <algorithm>
#include <cmath>

#include "kernels/cpu.hpp"

namespace tracecast::cpu {

void cross_entropy_forward(std::int64_t rows, std::int64_t width, std::int64_t first, const float* logits,
                           const std::int32_t* targets, float* statistics) {
  for (std::int64_t r = 0; r < rows; ++r, logits += width, statistics += 3) {
    const float maximum = *std::max_element(logits, logits + width);
    float sum = 0;
    for (std::int64_t i = 0; i < width; ++i) sum += std::exp(logits[i] - maximum);
    const std::int64_t column = targets[r] - first;
    statistics[0] = maximum;
    statistics[1] = sum;
    statistics[2] = column >= 0 && column < width ? logits[column] : 0.0F;
  }
}

void cross_entropy_backward(std::int64_t rows, std::int64_t width, std::int64_t first, float scale, const float* logits,
                            const std::int32_t* targets, const float* statistics, float* d_logits) {
  for (std::int64_t r = 0; r < rows; ++r, logits += width, d_logits += width, statistics += 3) {
    const float factor = scale / statistics[1];
    for (std::int64_t i = 0; i < width; ++i) d_logits[i] = std::exp(logits[i] - statistics[0]) * factor;
    const std::int64_t column = targets[r] - first;
    if (column >= 0 && column < width) d_logits[column] -= scale;
  }
}

}  // namespace tracecast::cpu
