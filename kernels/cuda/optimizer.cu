#include <cmath>

#include "kernels/cuda/device.cuh"

namespace tracecast::cuda {
namespace {

__global__ void squared_norm_kernel(std::int64_t count, const float* x, double* sum) {
  float squares = 0;
  for (std::int64_t i = first_index() * 4; i < count; i += stride() * 4) {
    if (i + 4 <= count) {
      const float4 v = *reinterpret_cast<const float4*>(x + i);
      squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    } else {
      for (std::int64_t j = i; j < count; ++j) squares += x[j] * x[j];
    }
  }
  squares = over_block(squares, Sum{});
  if (threadIdx.x == 0) atomicAdd(sum, static_cast<double>(squares));
}

/// AdamW settings with the bias corrections of this step.
struct AdamFactors {
  AdamSettings settings;
  float correction1;  ///< 1 - beta1^step
  float correction2;
};

AdamFactors factors_of(const AdamSettings& settings) {
  const auto left = [&](float beta) {
    return static_cast<float>(1 - std::pow(static_cast<double>(beta), static_cast<double>(settings.step)));
  };
  return {settings, left(settings.beta1), left(settings.beta2)};
}

__device__ float adam_step(const AdamFactors& f, float g, float& w, float& m, float& v) {
  const AdamSettings& s = f.settings;
  m = s.beta1 * m + (1 - s.beta1) * g;
  v = s.beta2 * v + (1 - s.beta2) * g * g;
  w -= s.learning_rate * (m / f.correction1 / (sqrtf(v / f.correction2) + s.epsilon) + s.weight_decay * w);
  return w;
}

}  // namespace

void adam(std::int64_t count, const AdamSettings& settings, const float* gradient, float* weight, float* first_moment,
          float* second_moment, Bf16* narrow, cudaStream_t stream) {
  const AdamFactors factors = factors_of(settings);
  each(count, 4, stream, [=] __device__(std::int64_t i) {
    const std::int64_t n = count - i;
    const float4 g = load4(gradient, i, n);
    float4 w = load4(weight, i, n);
    float4 m = load4(first_moment, i, n);
    float4 v = load4(second_moment, i, n);
    adam_step(factors, g.x, w.x, m.x, v.x);
    adam_step(factors, g.y, w.y, m.y, v.y);
    adam_step(factors, g.z, w.z, m.z, v.z);
    adam_step(factors, g.w, w.w, m.w, v.w);
    store4(w, weight, i, n);
    store4(m, first_moment, i, n);
    store4(v, second_moment, i, n);
    if (narrow != nullptr) store4(w, narrow, i, n);
  });
}

void sgd(std::int64_t count, float learning_rate, float momentum, const float* gradient, float* weight, float* velocity,
         Bf16* narrow, cudaStream_t stream) {
  each(count, 4, stream, [=] __device__(std::int64_t i) {
    const std::int64_t n = count - i;
    float4 g = load4(gradient, i, n);
    float4 w = load4(weight, i, n);
    if (velocity != nullptr) {
      const float4 v = load4(velocity, i, n);
      g = {momentum * v.x + g.x, momentum * v.y + g.y, momentum * v.z + g.z, momentum * v.w + g.w};
      store4(g, velocity, i, n);
    }
    w = {w.x - learning_rate * g.x, w.y - learning_rate * g.y, w.z - learning_rate * g.z, w.w - learning_rate * g.w};
    store4(w, weight, i, n);
    if (narrow != nullptr) store4(w, narrow, i, n);
  });
}

void squared_norm(std::int64_t count, const float* x, double* sum, cudaStream_t stream) {
  TRACECAST_CUDA(cudaMemsetAsync(sum, 0, sizeof(double), stream));
  TRACECAST_LAUNCH(squared_norm_kernel, blocks_for((count + 3) / 4), kThreads, 0, stream, count, x, sum);
}

void scale(std::int64_t count, float factor, float* x, cudaStream_t stream) {
  if (factor == 0) {
    TRACECAST_CUDA(cudaMemsetAsync(x, 0, static_cast<std::size_t>(count) * sizeof(float), stream));
    return;
  }
  each(count, 4, stream, [=] __device__(std::int64_t i) {
    const std::int64_t n = count - i;
    const float4 v = load4(x, i, n);
    store4(float4{v.x * factor, v.y * factor, v.z * factor, v.w * factor}, x, i, n);
  });
}

}  // namespace tracecast::cuda
