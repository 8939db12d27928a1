#include "sim/network/message_times.hpp"

#include <algorithm>
#include <utility>

namespace tracecast {
namespace {

/// One round: reads when ranks are ready, leaves when they are ready for the next.
class RoundSweep {
 public:
  RoundSweep(const MessageCost& cost, std::span<const Duration> starts)
      : cost_(cost), ready_(starts.begin(), starts.end()), free_(ready_), done_(ready_) {}

  void run(const Round& round) {
    for (const Flow& flow : round.flows) {
      const auto from = static_cast<std::size_t>(flow.from);
      const auto to = static_cast<std::size_t>(flow.to);
      const Duration sent = std::max(ready_[from], free_[from]) + time_of(flow.size);
      free_[from] = sent;
      done_[from] = std::max(done_[from], sent);
      done_[to] = std::max(done_[to], sent + cost_.latency);
    }
    ready_ = done_;
  }

  std::vector<Duration> take() { return std::move(ready_); }

 private:
  /// Flows of a round mostly have one size.
  Duration time_of(Bytes size) {
    if (size != last_size_) {
      last_size_ = size;
      last_time_ = size / cost_.rate;
    }
    return last_time_;
  }

  MessageCost cost_;
  std::vector<Duration> ready_;  ///< [rank] for the round
  std::vector<Duration> free_;   ///< [rank] its NIC
  std::vector<Duration> done_;   ///< [rank] with the round
  Bytes last_size_;
  Duration last_time_;
};

}  // namespace

std::vector<Duration> message_times(const FlowSchedule& schedule, const MessageCost& cost,
                                    std::span<const Duration> starts) {
  RoundSweep sweep(cost, starts);
  for (const Round& round : schedule.rounds)
    for (std::int64_t repeat = 0; repeat < round.count; ++repeat) sweep.run(round);
  return sweep.take();
}

}  // namespace tracecast
