// Verifies groups of operators as `tracecast-cuda-worker verify` does, with the kernels on the CPU. Arguments: the groups. Exit status 1:
// a result is wrong, or threads met at different barriers.

#include <cstdio>

#include "tests/kernels/cuda_on_cpu/cuda_on_cpu.hpp"
#include "tools/cuda_worker/cuda_worker.hpp"

int main(int count, char** arguments) {
  bool good = count > 1;
  for (int i = 1; i < count; ++i) {
    const auto verified = tracecast::worker::verify_cuda(static_cast<std::uint64_t>(i), arguments[i], "");
    good = good && verified && *verified;
  }
  if (cuda_on_cpu::diverged()) std::puts("threads of a block met at different barriers");
  return good && !cuda_on_cpu::diverged() ? 0 : 1;
}
