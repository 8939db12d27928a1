/// \file
/// The time that a kernel would have taken without the NCCL kernels beside it. They take multiprocessors and memory bandwidth
/// (sim/engine/gpu_sharing.hpp), and a simulation with its time slows it again: a profile must have the time without them.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/gpu_sharing.hpp"
#include "sim/io/trace.hpp"

namespace tracecast {

/// NCCL kernels of a GPU, and the speed that they leave to the kernels beside them.
class ConcurrentTransfers {
 public:
  void add(const TraceKernel& kernel, const Speeds& speeds);
  /// Call it after the last add().
  void sort();
  /// Nanoseconds that a kernel would have taken without them: the integral of its speed.
  double alone(const TraceKernel& kernel, GpuUse use) const;

 private:
  struct Transfer {
    std::int64_t start;
    std::int64_t end;
    Speeds speeds;
  };
  std::vector<Transfer> all_;
  std::vector<std::int64_t> ends_;  ///< [i] latest end of all_[0] to all_[i]
};

}  // namespace tracecast
