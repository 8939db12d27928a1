#include "kernels/cpu.hpp"

namespace tracecast::cpu {

void add(std::int64_t count, const float* a, const float* b, float* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

void dropout_add(std::int64_t count, float probability, const float* x, const float* residual, const float* mask,
                 float* y) {
  const float keep = 1 / (1 - probability);
  for (std::int64_t i = 0; i < count; ++i) y[i] = residual[i] + x[i] * mask[i] * keep;
}

void dropout_backward(std::int64_t count, float probability, const float* d_y, const float* mask, float* d_x) {
  const float keep = 1 / (1 - probability);
  for (std::int64_t i = 0; i < count; ++i) d_x[i] = d_y[i] * mask[i] * keep;
}

}  // namespace tracecast::cpu
