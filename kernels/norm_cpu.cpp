#include <algorithm>
#include <cmath>

#include "kernels/cpu.hpp"

namespace tracecast::cpu {
namespace {

constexpr float kEpsilon = 1e-5F;

}  // namespace

void rms_norm_forward(std::int64_t rows, std::int64_t width, const float* x, const float* weight, float* y,
                      float* inverse_rms) {
  for (std::int64_t r = 0; r < rows; ++r, x += width, y += width) {
    float squares = 0;
    for (std::int64_t i = 0; i < width; ++i) squares += x[i] * x[i];
    const float inverse = 1 / std::sqrt(squares / static_cast<float>(width) + kEpsilon);
    for (std::int64_t i = 0; i < width; ++i) y[i] = x[i] * inverse * weight[i];
    inverse_rms[r] = inverse;
  }
}

void rms_norm_backward(std::int64_t rows, std::int64_t width, const float* x, const float* weight,
                       const float* inverse_rms, const float* d_y, float* d_x, float* d_weight) {
  std::fill(d_weight, d_weight + width, 0.0F);
  for (std::int64_t r = 0; r < rows; ++r, x += width, d_y += width, d_x += width) {
    const float inverse = inverse_rms[r];
    float projection = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      projection += d_y[i] * weight[i] * x[i];
      d_weight[i] += d_y[i] * x[i] * inverse;
    }
    const float share = projection * inverse * inverse / static_cast<float>(width);
    for (std::int64_t i = 0; i < width; ++i) d_x[i] = inverse * (d_y[i] * weight[i] - x[i] * share);
  }
}

void layer_norm_forward(std::int64_t rows, std::int64_t width, const float* x, const float* weight, const float* bias,
                        float* y, float* statistics) {
  const auto count = static_cast<float>(width);
  for (std::int64_t r = 0; r < rows; ++r, x += width, y += width) {
    float sum = 0;
    for (std::int64_t i = 0; i < width; ++i) sum += x[i];
    const float mean = sum / count;
    float squares = 0;
    for (std::int64_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const float inverse = 1 / std::sqrt(squares / count + kEpsilon);
    for (std::int64_t i = 0; i < width; ++i) y[i] = (x[i] - mean) * inverse * weight[i] + bias[i];
    statistics[2 * r] = mean;
    statistics[2 * r + 1] = inverse;
  }
}

void layer_norm_backward(std::int64_t rows, std::int64_t width, const float* x, const float* weight,
                         const float* statistics, const float* d_y, float* d_x, float* d_weight, float* d_bias) {
  std::fill(d_weight, d_weight + width, 0.0F);
  std::fill(d_bias, d_bias + width, 0.0F);
  const auto count = static_cast<float>(width);
  for (std::int64_t r = 0; r < rows; ++r, x += width, d_y += width, d_x += width) {
    const float mean = statistics[2 * r];
    const float inverse = statistics[2 * r + 1];
    float sum = 0;
    float projection = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      const float normal = (x[i] - mean) * inverse;
      const float g = d_y[i] * weight[i];
      sum += g;
      projection += g * normal;
      d_weight[i] += d_y[i] * normal;
      d_bias[i] += d_y[i];
    }
    for (std::int64_t i = 0; i < width; ++i) {
      const float normal = (x[i] - mean) * inverse;
      d_x[i] = inverse * (d_y[i] * weight[i] - sum / count - normal * projection / count);
    }
  }
}

}  // namespace tracecast::cpu
