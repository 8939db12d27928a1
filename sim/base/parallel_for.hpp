/// \file
/// A loop over independent pieces of work on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace tracecast {

/// Number of threads to use: `requested`, or as many as the machine has if 0.
inline int thread_count(int requested) {
  return requested > 0 ? requested : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// Calls work(i) once for every i below `count`, on up to `threads` threads including the caller. Returns when all are
/// done.   Requires work that does not throw: an exception on another thread ends the program.
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
