#include "sim/schedule/fill_weight_gradients.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "sim/base/result.hpp"
#include "sim/schedule/output_times.hpp"
#include "sim/schedule/run_order.hpp"

namespace tracecast {

namespace {

/// One rank as it runs and is filled.
class Rank {
 public:
  Rank(int limit, const Schedule& schedule, const PipelineTimes& times, int rank)
      : limit_(limit), schedule_(schedule), times_(times), rank_(rank) {}

  /// Runs `action`, whose inputs are there at `ready`, and gives its end.
  std::int64_t run(const Action& action, std::int64_t ready) {
    while (due_ < inputs_.size() && fits(ready)) do_weight();
    const bool is_forward = action.kind == ActionKind::forward;
    while (is_forward && inflight_ >= limit_) do_weight();
    free_at_ = std::max(free_at_, ready) + duration(schedule_, times_, rank_, action);
    list_.push_back(action);
    if (is_forward) {
      ++inflight_;
    } else {
      inputs_.push_back(action);
    }
    return free_at_;
  }

  std::vector<Action> finish() {
    while (due_ < inputs_.size()) do_weight();
    return std::move(list_);
  }

 private:
  Action next_weight() const {
    TRACECAST_ASSERT(due_ < inputs_.size(), "the limit leaves space for the order itself");
    Action weight = inputs_[due_];
    weight.kind = ActionKind::backward_weight;
    return weight;
  }
  bool fits(std::int64_t ready) const {
    const std::int64_t gap = ready - free_at_;
    return gap > 0 && 2 * gap >= duration(schedule_, times_, rank_, next_weight());
  }
  void do_weight() {
    const Action weight = next_weight();
    list_.push_back(weight);
    free_at_ += duration(schedule_, times_, rank_, weight);
    ++due_;
    --inflight_;
  }

  int limit_;
  const Schedule& schedule_;
  const PipelineTimes& times_;
  int rank_;
  std::vector<Action> list_;
  std::vector<Action> inputs_;  ///< input gradients done, in order
  std::size_t due_ = 0;         ///< the first of them whose weight gradient is not done
  int inflight_ = 0;
  std::int64_t free_at_ = 0;
};

}  // namespace

Schedule fill_weight_gradients(const Schedule& schedule, const PipelineTimes& times, int limit) {
  std::vector<Rank> ranks;
  for (int rank = 0; rank < schedule.ranks; ++rank) ranks.emplace_back(limit, schedule, times, rank);
  OutputTimes outputs(schedule, times.latency);
  run_order(schedule, [&](int rank, std::size_t index, const Dependencies& d) {
    const auto r = static_cast<std::size_t>(rank);
    outputs.record(rank, d, ranks[r].run(schedule.actions[r][index], outputs.ready(rank, d)));
  });
  Schedule filled = schedule;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) filled.actions[rank] = ranks[rank].finish();
  return filled;
}

}  // namespace tracecast
