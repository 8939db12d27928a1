/// Independent pieces of work on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace tracecast {

/// Threads to run on: as many as the machine has where 0 are asked for.
inline int thread_count(int asked) {
  return asked > 0 ? asked : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// work(i) for every i below count, on threads; each i once.
template <class Work>
void parallel_for(std::size_t count, int threads, Work work) {
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> pool;
  for (int t = 1; t < std::min(threads, static_cast<int>(count)); ++t) pool.emplace_back(run);
  run();
}

}  // namespace tracecast
