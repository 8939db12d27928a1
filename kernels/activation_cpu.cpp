#include <cmath>

#include "kernels/cpu.hpp"

namespace tracecast::cpu {
namespace {

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

/// gelu(x) = x/2 (1 + tanh(a (x + b x^3))).
constexpr float kA = 0.7978845608F;
constexpr float kB = 0.044715F;

}  // namespace

void swiglu_forward(std::int64_t rows, std::int64_t width, const float* x, float* y) {
  for (std::int64_t r = 0; r < rows; ++r, x += 2 * width, y += width)
    for (std::int64_t i = 0; i < width; ++i) y[i] = x[i] * sigmoid(x[i]) * x[width + i];
}

void swiglu_backward(std::int64_t rows, std::int64_t width, const float* x, const float* d_y, float* d_x) {
  for (std::int64_t r = 0; r < rows; ++r, x += 2 * width, d_x += 2 * width, d_y += width)
    for (std::int64_t i = 0; i < width; ++i) {
      const float s = sigmoid(x[i]);
      d_x[i] = d_y[i] * x[width + i] * s * (1 + x[i] * (1 - s));
      d_x[width + i] = d_y[i] * x[i] * s;
    }
}

void gelu_forward(std::int64_t count, const float* x, float* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = 0.5F * x[i] * (1 + std::tanh(kA * (x[i] + kB * x[i] * x[i] * x[i])));
}

void gelu_backward(std::int64_t count, const float* x, const float* d_y, float* d_x) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float t = std::tanh(kA * (x[i] + kB * x[i] * x[i] * x[i]));
    const float slope = kA * (1 + 3 * kB * x[i] * x[i]);
    d_x[i] = d_y[i] * 0.5F * (1 + t + x[i] * (1 - t * t) * slope);
  }
}

}  // namespace tracecast::cpu
