#include "kernels/cuda/device.cuh"

namespace tracecast::cuda {
namespace {

__device__ float gelu_of(float x) {
  const float inner = 0.7978845608F * (x + 0.044715F * x * x * x);
  return 0.5F * x * (1 + tanhf(inner));
}
__device__ float gelu_slope(float x) {
  const float t = tanhf(0.7978845608F * (x + 0.044715F * x * x * x));
  return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * 0.7978845608F * (1 + 3 * 0.044715F * x * x);
}

template <int N>
struct SwigluForward {
  std::int64_t width;
  const Bf16* x;
  Bf16* y;
  __device__ void operator()(std::int64_t i) const {
    const Bf16* const gate = x + i / width * 2 * width + i % width;
    float g[N];
    float u[N];
    float out[N];
    load(gate, g);
    load(gate + width, u);
    for (int j = 0; j < N; ++j) out[j] = g[j] / (1 + __expf(-g[j])) * u[j];
    store(out, y + i);
  }
};

template <int N>
struct SwigluBackward {
  std::int64_t width;
  const Bf16* x;
  const Bf16* d_y;
  Bf16* d_x;
  __device__ void operator()(std::int64_t i) const {
    const std::int64_t at = i / width * 2 * width + i % width;
    float g[N];
    float u[N];
    float d[N];
    float d_gate[N];
    float d_up[N];
    load(x + at, g);
    load(x + at + width, u);
    load(d_y + i, d);
    for (int j = 0; j < N; ++j) {
      const float s = 1 / (1 + __expf(-g[j]));
      d_gate[j] = d[j] * u[j] * s * (1 + g[j] * (1 - s));
      d_up[j] = d[j] * g[j] * s;
    }
    store(d_gate, d_x + at);
    store(d_up, d_x + at + width);
  }
};

template <int N>
struct GeluForward {
  const Bf16* x;
  Bf16* y;
  __device__ void operator()(std::int64_t i) const {
    float v[N];
    load(x + i, v);
    for (int j = 0; j < N; ++j) v[j] = gelu_of(v[j]);
    store(v, y + i);
  }
};

template <int N>
struct GeluBackward {
  const Bf16* x;
  const Bf16* d_y;
  Bf16* d_x;
  __device__ void operator()(std::int64_t i) const {
    float v[N];
    float d[N];
    load(x + i, v);
    load(d_y + i, d);
    for (int j = 0; j < N; ++j) d[j] *= gelu_slope(v[j]);
    store(d, d_x + i);
  }
};

template <int N>
struct Add {
  const Bf16* a;
  const Bf16* b;
  Bf16* y;
  __device__ void operator()(std::int64_t i) const {
    float u[N];
    float v[N];
    load(a + i, u);
    load(b + i, v);
    for (int j = 0; j < N; ++j) u[j] += v[j];
    store(u, y + i);
  }
};

template <int N>
struct DropoutAdd {
  float kept;
  const Bf16* x;
  const Bf16* residual;
  const std::uint8_t* mask;
  Bf16* y;
  __device__ void operator()(std::int64_t i) const {
    float v[N];
    float r[N];
    load(x + i, v);
    load(residual + i, r);
    for (int j = 0; j < N; ++j) r[j] += mask[i + j] != 0 ? v[j] * kept : 0.0F;
    store(r, y + i);
  }
};

template <int N>
struct DropoutBackward {
  float kept;
  const Bf16* d_y;
  const std::uint8_t* mask;
  Bf16* d_x;
  __device__ void operator()(std::int64_t i) const {
    float d[N];
    load(d_y + i, d);
    for (int j = 0; j < N; ++j) d[j] = mask[i + j] != 0 ? d[j] * kept : 0.0F;
    store(d, d_x + i);
  }
};

}  // namespace

void rope(std::int64_t rows, std::int64_t width, std::int64_t heads, std::int64_t positions, bool backward,
          const Bf16* x, Bf16* y, cudaStream_t stream) {
  const float direction = backward ? -1.0F : 1.0F;
  const float exponent = -2 * 13.28771238F / static_cast<float>(width);  // log2(10,000) = 13.29
  const auto rotate = [=] __device__(std::int64_t at, float a, float b, float& u, float& v) {
    const std::int64_t pair = at % width / 2;
    const auto position = static_cast<float>(at / width / heads % positions);
    float sine;
    float cosine;
    sincosf(direction * position * exp2f(exponent * static_cast<float>(pair)), &sine, &cosine);
    u = a * cosine - b * sine;
    v = a * sine + b * cosine;
  };
  if (width % 8 == 0) {
    each(rows * width, 8, stream, [=] __device__(std::int64_t i) {
      float v[8];
      float out[8];
      load(x + i, v);
      for (int j = 0; j < 8; j += 2) rotate(i + j, v[j], v[j + 1], out[j], out[j + 1]);
      store(out, y + i);
    });
    return;
  }
  each(rows * width, 2, stream, [=] __device__(std::int64_t i) {
    float v[2] = {__bfloat162float(x[i]), __bfloat162float(x[i + 1])};
    float out[2];
    rotate(i, v[0], v[1], out[0], out[1]);
    y[i] = __float2bfloat16(out[0]);
    y[i + 1] = __float2bfloat16(out[1]);
  });
}

void swiglu_forward(std::int64_t rows, std::int64_t width, const Bf16* x, Bf16* y, cudaStream_t stream) {
  each_bf16<SwigluForward>(rows * width, width, stream, width, x, y);
}

void swiglu_backward(std::int64_t rows, std::int64_t width, const Bf16* x, const Bf16* d_y, Bf16* d_x,
                     cudaStream_t stream) {
  each_bf16<SwigluBackward>(rows * width, width, stream, width, x, d_y, d_x);
}

void gelu_forward(std::int64_t count, const Bf16* x, Bf16* y, cudaStream_t stream) {
  each_bf16<GeluForward>(count, count, stream, x, y);
}

void gelu_backward(std::int64_t count, const Bf16* x, const Bf16* d_y, Bf16* d_x, cudaStream_t stream) {
  each_bf16<GeluBackward>(count, count, stream, x, d_y, d_x);
}

void add(std::int64_t count, const Bf16* a, const Bf16* b, Bf16* y, cudaStream_t stream) {
  each_bf16<Add>(count, count, stream, a, b, y);
}

void dropout_add(std::int64_t count, float probability, const Bf16* x, const Bf16* residual, const std::uint8_t* mask,
                 Bf16* y, cudaStream_t stream) {
  const float kept = 1 / (1 - probability);
  each_bf16<DropoutAdd>(count, count, stream, kept, x, residual, mask, y);
}

void dropout_backward(std::int64_t count, float probability, const Bf16* d_y, const std::uint8_t* mask, Bf16* d_x,
                      cudaStream_t stream) {
  const float kept = 1 / (1 - probability);
  each_bf16<DropoutBackward>(count, count, stream, kept, d_y, mask, d_x);
}

}  // namespace tracecast::cuda
