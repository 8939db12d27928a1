/// \file
/// How the workers (threads) of one simulation exchange results: the end of a collective whose members belong to several
/// workers. Ranks that exchange messages, or share a small communicator, belong to one worker.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "sim/graph/step_graph.hpp"

namespace tracecast::engine {

/// Which worker owns each rank, and which communicators have members of several workers.
struct Ownership {
  std::vector<std::int32_t> owner;  ///< [rank]
  std::vector<bool> shared;         ///< [communicator]
};

/// Ranks joined by channels form a group. Groups joined by a communicator are merged as long as the result is not larger
/// than one thread's share of all ranks. Groups are assigned in order of their first rank, evenly.   Requires threads >= 1
Ownership assign_ranks(const StepGraph& graph, int threads);

/// The end of a collective, sent to one stream that waits in it.
struct Release {
  std::int32_t stream;
  std::int64_t start;
  std::int64_t end;
};

class Exchange {
 public:
  Exchange(Ownership ownership, int workers);

  std::int32_t owner(std::int32_t rank) const { return ownership_.owner[static_cast<std::size_t>(rank)]; }
  bool shared(std::int32_t communicator) const { return ownership_.shared[static_cast<std::size_t>(communicator)]; }
  /// Protects the rendezvous of a shared communicator.
  std::mutex& mutex_of(std::int32_t communicator) {
    return rendezvous_mutexes_[static_cast<std::size_t>(communicator) % kMutexes];
  }

  void send(std::int32_t worker, const std::vector<Release>& releases);
  /// Blocks until there are releases for `worker`. Returns none when all workers are idle: the simulation has ended.
  std::vector<Release> receive(std::int32_t worker);

 private:
  static constexpr std::size_t kMutexes = 256;

  Ownership ownership_;
  std::vector<std::mutex> rendezvous_mutexes_{kMutexes};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<Release>> inboxes_;  ///< [worker]
  std::int32_t idle_ = 0;
  bool finished_ = false;
};

}  // namespace tracecast::engine
