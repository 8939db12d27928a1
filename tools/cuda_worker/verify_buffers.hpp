/// \file
/// Random inputs of `verify`, and its outputs. Outputs start as NaN, which detects elements that are never written. A guard area
/// behind them detects writes past the end.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/bf16.hpp"
#include "kernels/cuda/driver.hpp"
#include "kernels/reference.hpp"
#include "sim/base/random.hpp"

namespace tracecast::worker {

using cuda::Bf16;
using cuda::DeviceMemory;
using reference::Doubles;

inline constexpr std::int64_t kGuard = 64;  // elements behind every output
inline constexpr std::uint8_t kGuardByte = 0xC3;

/// Random values on the host, equal to those on the device.
class RandomData {
 public:
  explicit RandomData(std::uint64_t seed) : random_(seed, 0, 0) {}

  /// Values of bf16 in [-1, 1), never 0.
  Doubles values(std::int64_t count) {
    Doubles v(static_cast<std::size_t>(count));
    for (double& x : v) {
      x = rounded(2 * random_.uniform() - 1);
      if (x == 0) x = 0.5;
    }
    return v;
  }
  Doubles positive(std::int64_t count) {
    Doubles v = values(count);
    for (double& x : v) x = std::abs(x) + 0.5;
    return v;
  }
  std::vector<std::int32_t> ids(std::int64_t count, std::int64_t below) {
    std::vector<std::int32_t> v(static_cast<std::size_t>(count));
    for (std::int32_t& x : v) x = static_cast<std::int32_t>(random_.below(static_cast<std::uint64_t>(below)));
    return v;
  }
  static double rounded(double x) { return static_cast<double>(float_of_bf16(bf16_of(static_cast<float>(x)))); }

 private:
  RandomStream random_;
};

template <class T>
DeviceMemory on_device(const std::vector<T>& values) {
  DeviceMemory memory(static_cast<std::int64_t>(values.size() * sizeof(T)));
  TRACECAST_CUDA(cudaMemcpy(memory.as<void>(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
  return memory;
}
inline DeviceMemory bf16_on_device(const Doubles& values) {
  std::vector<std::uint16_t> narrow;
  for (const double x : values) narrow.push_back(bf16_of(static_cast<float>(x)));
  return on_device(narrow);
}
inline DeviceMemory fp32_on_device(const Doubles& values) {
  return on_device(std::vector<float>(values.begin(), values.end()));
}

/// An output full of NaN with a guard behind it. T: float, or Bf16.
template <class T>
class Output {
 public:
  explicit Output(std::int64_t count)
      : count_(count), memory_((count + kGuard) * static_cast<std::int64_t>(sizeof(T))) {
    TRACECAST_CUDA(cudaMemset(memory_.as<void>(), 0xFF, bytes()));  // all bits: NaN in both types
    TRACECAST_CUDA(cudaMemset(memory_.as<char>() + bytes(), kGuardByte, kGuard * sizeof(T)));
  }
  T* data() const { return memory_.as<T>(); }
  void set(const Doubles& values) const {
    const DeviceMemory from = sizeof(T) == 4 ? fp32_on_device(values) : bf16_on_device(values);
    TRACECAST_CUDA(cudaMemcpy(memory_.as<void>(), from.as<void>(), bytes(), cudaMemcpyDeviceToDevice));
  }
  /// Waits for all work. Returns infinity if the guard was overwritten.
  Doubles values() const {
    TRACECAST_CUDA(cudaDeviceSynchronize());
    std::vector<T> copied(static_cast<std::size_t>(count_ + kGuard));
    TRACECAST_CUDA(cudaMemcpy(copied.data(), memory_.as<void>(), copied.size() * sizeof(T), cudaMemcpyDeviceToHost));
    Doubles result;
    for (std::int64_t i = 0; i < count_; ++i) result.push_back(number(copied[static_cast<std::size_t>(i)]));
    const auto* const guard = reinterpret_cast<const std::uint8_t*>(copied.data() + count_);
    if (!std::all_of(guard, guard + kGuard * sizeof(T), [](std::uint8_t byte) { return byte == kGuardByte; }))
      result.front() = std::numeric_limits<double>::infinity();
    return result;
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(T); }
  static double number(float x) { return static_cast<double>(x); }
  static double number(Bf16 x) { return static_cast<double>(__bfloat162float(x)); }

  std::int64_t count_;
  DeviceMemory memory_;
};

}  // namespace tracecast::worker
