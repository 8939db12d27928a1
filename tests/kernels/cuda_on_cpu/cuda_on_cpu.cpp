#include "tests/kernels/cuda_on_cpu/cuda_on_cpu.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include <ucontext.h>

cuda_on_cpu::Index threadIdx;
cuda_on_cpu::Index blockIdx;
cuda_on_cpu::Index blockDim;
cuda_on_cpu::Index gridDim;

namespace cuda_on_cpu {
namespace {

constexpr int kMostThreads = 1024;
constexpr int kWarp = 32;
constexpr std::size_t kMostShared = 227 << 10;  // bytes of a block, Hopper
constexpr std::size_t kStack = 128 << 10;

struct Fiber {
  ucontext_t context{};
  unsigned id = 0;
  bool done = true;
  bool waits = false;     ///< at a barrier
  unsigned shuffles = 0;  ///< values of two successive shuffles are kept apart
  unsigned barriers = 0;
};

int variable(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

class Machine {
 public:
  Machine() : random_(static_cast<std::uint64_t>(variable("CUDA_ON_CPU_SEED", 1))) {
    stacks_.resize(kStack * kMostThreads);
    shared_.resize(kMostShared / sizeof(double));
  }

  void run_block(int threads, std::size_t shared_bytes, const std::function<void()>& body) {
    body_ = &body;
    std::memset(shared_.data(), 0xFF, shared_bytes);  // NaN
    for (int t = 0; t < threads; ++t) begin(t);
    std::vector<int> warps(static_cast<std::size_t>((threads + kWarp - 1) / kWarp));
    std::iota(warps.begin(), warps.end(), 0);
    for (int left = threads; left > 0;) {
      std::shuffle(warps.begin(), warps.end(), random_);
      for (const int warp : warps) run_warp(kWarp * warp, std::min(threads, kWarp * (warp + 1)));
      left = 0;
      int waiting = 0;
      for (int t = 0; t < threads; ++t) {
        left += fibers_[static_cast<std::size_t>(t)].done ? 0 : 1;
        waiting += fibers_[static_cast<std::size_t>(t)].waits ? 1 : 0;
      }
      diverged_ = diverged_ || (left != 0 && waiting != threads);
    }
  }

  void* shared() { return shared_.data(); }
  bool diverged() const { return diverged_; }

  void barrier() {
    static const int skipped = variable("CUDA_ON_CPU_SKIP", -1);
    if (static_cast<int>(now_->barriers++ % 2) == skipped) return;
    now_->waits = true;
    yield();
  }

  std::uint64_t exchanged(std::uint64_t value, int distance) {
    const unsigned me = now_->id;
    std::uint64_t(&words)[kMostThreads] = words_[now_->shuffles++ % 2];
    words[me] = value;
    yield();
    return words[me ^ static_cast<unsigned>(distance)];
  }

 private:
  static void entry();
  void begin(int thread) {
    Fiber& fiber = fibers_[static_cast<std::size_t>(thread)];
    fiber = {};
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stacks_.data() + kStack * static_cast<std::size_t>(thread);
    fiber.context.uc_stack.ss_size = kStack;
    makecontext(&fiber.context, entry, 0);
    fiber.id = static_cast<unsigned>(thread);
    fiber.done = false;
  }

  void yield() { swapcontext(&now_->context, &back_); }

  /// Until every thread of the warp has ended or waits at a barrier.
  void run_warp(int first, int end) {
    const auto count = static_cast<unsigned>(end - first);
    for (int t = first; t < end; ++t) fibers_[static_cast<std::size_t>(t)].waits = false;
    for (bool again = true; again;) {
      again = false;
      const auto shift = static_cast<unsigned>(random_() % kWarp);
      for (unsigned i = 0; i < count; ++i) {
        Fiber& fiber = fibers_[static_cast<std::size_t>(first) + (i + shift) % count];
        if (fiber.done || fiber.waits) continue;
        threadIdx.x = fiber.id;
        now_ = &fiber;
        swapcontext(&back_, &fiber.context);
        again = again || (!fiber.done && !fiber.waits);
      }
    }
  }

  std::mt19937_64 random_;
  std::vector<Fiber> fibers_{kMostThreads};
  std::vector<char> stacks_;
  std::vector<double> shared_;
  std::uint64_t words_[2][kMostThreads] = {};
  ucontext_t back_{};
  Fiber* now_ = nullptr;
  const std::function<void()>* body_ = nullptr;
  bool diverged_ = false;
};

Machine& machine() {
  static Machine* const one = new Machine;
  return *one;
}

void Machine::entry() {
  Machine& m = machine();
  (*m.body_)();
  m.now_->done = true;
  m.yield();
}

}  // namespace

void run(std::int64_t blocks, int threads, std::size_t shared_bytes, const std::function<void()>& body) {
  if (blocks < 1 || blocks > INT32_MAX || threads < 1 || threads > kMostThreads || shared_bytes > kMostShared) {
    std::fprintf(stderr, "a GPU refuses %lld blocks of %d threads with %zu bytes\n", static_cast<long long>(blocks),
                 threads, shared_bytes);
    std::abort();
  }
  gridDim.x = static_cast<unsigned>(blocks);
  blockDim.x = static_cast<unsigned>(threads);
  for (std::int64_t b = 0; b < blocks; ++b) {
    blockIdx.x = static_cast<unsigned>(b);
    machine().run_block(threads, shared_bytes, body);
  }
}

void* dynamic_shared() { return machine().shared(); }
void barrier() { machine().barrier(); }
std::uint64_t exchanged(std::uint64_t value, int distance) { return machine().exchanged(value, distance); }
bool diverged() { return machine().diverged(); }

}  // namespace cuda_on_cpu
