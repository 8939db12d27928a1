/// What the workers of one simulation tell each other: which streams may go on after a collective whose members several
/// workers own. Ranks that exchange messages, or share a small communicator, have one owner.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "sim/graph/step_graph.hpp"

namespace tracecast::engine {

/// Who owns each rank, and which communicators have members of several owners.
struct Ownership {
  std::vector<std::int32_t> owner;  ///< [rank]
  std::vector<bool> shared;         ///< [communicator]
};

/// Whole groups of ranks that are connected by channels, then by communicators as long as no group grows above its share
/// of all ranks; the groups in order of their first rank, dealt out evenly.   Requires threads >= 1
Ownership share_out(const StepGraph& graph, int threads);

/// The end of a collective, for one stream that waits in it.
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
  /// Guards the meeting of a shared communicator.
  std::mutex& guard(std::int32_t communicator) { return guards_[static_cast<std::size_t>(communicator) % kGuards]; }

  void send(std::int32_t worker, const std::vector<Release>& releases);
  /// Waits for releases of `worker`; none: all workers are idle, nothing will come any more.
  std::vector<Release> receive(std::int32_t worker);

 private:
  static constexpr std::size_t kGuards = 256;

  Ownership ownership_;
  std::vector<std::mutex> guards_{kGuards};
  std::mutex mutex_;
  std::condition_variable news_;
  std::vector<std::vector<Release>> inboxes_;  ///< [worker]
  std::int32_t idle_ = 0;
  bool over_ = false;
};

}  // namespace tracecast::engine
