/// \file
/// The transfers on shared links that have started and not ended.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/engine/state.hpp"

namespace tracecast::engine {

struct InFlightTransfer {
  WaitList waiters{};  ///< streams that continue at its end
  std::int64_t start = 0;
  std::int32_t cause = -1;            ///< of its spans
  PendingMessage* message = nullptr;  ///< of an eager message: its slot at the receiver
};

/// Numbers transfers for the network. The number of a transfer that has ended is used again.
class InFlightTransfers {
 public:
  std::int32_t add(const InFlightTransfer& transfer) {
    if (free_.empty()) {
      all_.push_back(transfer);
      return static_cast<std::int32_t>(all_.size()) - 1;
    }
    const std::int32_t index = free_.back();
    free_.pop_back();
    all_[static_cast<std::size_t>(index)] = transfer;
    return index;
  }

  const InFlightTransfer& of(std::int32_t index) const { return all_[static_cast<std::size_t>(index)]; }

  /// It began `by` ps later, and is of a micro-batch that is later by `microbatches`.
  void move_on(std::int32_t index, std::int64_t by, std::int32_t microbatches) {
    InFlightTransfer& moved = all_[static_cast<std::size_t>(index)];
    moved.start += by;
    if (moved.message != nullptr) moved.message += microbatches;
  }

  bool empty() const { return all_.size() == free_.size(); }

  InFlightTransfer remove(std::int32_t index) {
    free_.push_back(index);
    return all_[static_cast<std::size_t>(index)];
  }

 private:
  std::vector<InFlightTransfer> all_;
  std::vector<std::int32_t> free_;
};

}  // namespace tracecast::engine
