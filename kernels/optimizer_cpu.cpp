#include <algorithm>
#include <cmath>

#include "kernels/bf16.hpp"
#include "kernels/cpu.hpp"

namespace tracecast::cpu {

void adam(std::int64_t count, const AdamSettings& settings, const float* gradient, float* weight, float* first_moment,
          float* second_moment, std::uint16_t* narrow) {
  const auto step = static_cast<double>(settings.step);
  const auto correction1 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(settings.beta1), step)));
  const auto correction2 = static_cast<float>(1 / (1 - std::pow(static_cast<double>(settings.beta2), step)));
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient[i];
    first_moment[i] = settings.beta1 * first_moment[i] + (1 - settings.beta1) * g;
    second_moment[i] = settings.beta2 * second_moment[i] + (1 - settings.beta2) * g * g;
    const float update = first_moment[i] * correction1 / (std::sqrt(second_moment[i] * correction2) + settings.epsilon);
    weight[i] -= settings.learning_rate * (update + settings.weight_decay * weight[i]);
  }
  if (narrow != nullptr) to_bf16(count, weight, narrow);
}

void sgd(std::int64_t count, float learning_rate, float momentum, const float* gradient, float* weight,
         float* velocity) {
  if (velocity == nullptr) {
    for (std::int64_t i = 0; i < count; ++i) weight[i] -= learning_rate * gradient[i];
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    velocity[i] = momentum * velocity[i] + gradient[i];
    weight[i] -= learning_rate * velocity[i];
  }
}

double squared_norm(std::int64_t count, const float* x) {
  // Blocks are summed in fp32, which vectorises, and added up in double, so that small values are not lost.
  constexpr std::int64_t kBlock = 256;
  double sum = 0;
  for (std::int64_t first = 0; first < count; first += kBlock) {
    const std::int64_t last = std::min(count, first + kBlock);
    float block = 0;
    for (std::int64_t i = first; i < last; ++i) block += x[i] * x[i];
    sum += static_cast<double>(block);
  }
  return sum;
}

void scale(std::int64_t count, float factor, float* x) {
  if (factor == 0) {
    std::fill(x, x + count, 0.0F);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) x[i] *= factor;
}

}  // namespace tracecast::cpu
