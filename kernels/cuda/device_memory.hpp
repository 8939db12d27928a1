/// \file
/// RAII device memory, and rings of it (kernels/arena.hpp explains the rings: operands miss the cache as in a training step).
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include <cuda_runtime_api.h>

#include "kernels/cuda/check.hpp"
#include "sim/base/result.hpp"

namespace tracecast::cuda {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  explicit DeviceMemory(std::int64_t bytes) : bytes_(bytes) {
    if (bytes > 0) TRACECAST_CUDA(cudaMalloc(&memory_, static_cast<std::size_t>(bytes)));
  }
  ~DeviceMemory() { cudaFree(memory_); }
  DeviceMemory(DeviceMemory&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(memory_);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  void* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

class DeviceRing {
 public:
  explicit DeviceRing(std::int64_t bytes) : memory_(bytes) {}

  /// The next `bytes`, aligned to 256.   Requires them to fit.
  template <class T>
  T* take(std::int64_t count) {
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
    TRACECAST_ASSERT(bytes <= memory_.bytes(), "the operand must fit into the ring");
    if (next_ + bytes > memory_.bytes()) next_ = 0;
    char* const place = memory_.as<char>() + next_;
    next_ += (bytes + kLine - 1) / kLine * kLine;
    return reinterpret_cast<T*>(place);
  }
  const DeviceMemory& memory() const { return memory_; }

  static constexpr std::int64_t kLine = 256;

 private:
  DeviceMemory memory_;
  std::int64_t next_ = 0;
};

}  // namespace tracecast::cuda
