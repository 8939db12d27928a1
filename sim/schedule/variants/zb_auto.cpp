/// The zero-bubble auto-scheduler: given times and a memory limit, the best of a family of orders.
///
/// Rank r runs a (P-1-r) + b forwards ahead (a in 1 .. 2 in steps of 1/4, b 0 or 1, at most limit-1), then one forward and
/// one input gradient in turn; weight gradients fill waits of at least 0 .. 4 quarters of their length and free memory
/// at the limit (fill_weight_gradients). ZB-H1 and ZB-H2 are tried too, where they keep to the limit. The shortest
/// makespan wins, the first found among equals.
///
/// zb-auto takes the limit of the request (none: M micro-batches), zb-auto-1p P micro-batches as 1F1B's rank 0 has, and
/// zb-auto-2p 2P. A search over a family, not a proof of optimality.
///
/// Source: the idea is Qi et al. 2023 (their heuristic and 1p/2p limits); with f, i, w = 2, 3, 1 at P = 4, M = 8 it
/// reaches the 56 of their released scheduler (docs/references.md#zero-bubble).
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

#include "sim/schedule/fill_weight_gradients.hpp"
#include "sim/schedule/output_times.hpp"
#include "sim/schedule/placement.hpp"
#include "sim/schedule/run_order.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

constexpr std::array<std::string_view, 1> kZbAutoAliases{"ZB2P"};

/// Forwards and input gradients in turn, after warmup[rank] forwards.
Schedule one_in_turn(const ScheduleRequest& request, const std::vector<int>& warmup) {
  Schedule schedule = start_schedule(request, loop_placement(request.ranks, 1));
  for (std::size_t rank = 0; rank < warmup.size(); ++rank) {
    std::vector<Action>& list = schedule.actions[rank];
    for (int m = 0; m < warmup[rank]; ++m) list.push_back(forward(0, m));
    for (int m = 0; m < request.microbatches; ++m) {
      if (m + warmup[rank] < request.microbatches) list.push_back(forward(0, m + warmup[rank]));
      list.push_back(backward_input(0, m));
    }
  }
  return schedule;
}

/// The distinct warm-ups to try.
std::set<std::vector<int>> warmups(const ScheduleRequest& request, int limit) {
  std::set<std::vector<int>> result;
  for (int quarters = 4; quarters <= 8; ++quarters) {
    for (int more = 0; more <= 1; ++more) {
      std::vector<int> warmup;
      for (int rank = 0; rank < request.ranks; ++rank) {
        const int ahead = (quarters * (request.ranks - 1 - rank) + 2) / 4 + more;
        warmup.push_back(std::min({ahead, limit - 1, request.microbatches}));
      }
      result.insert(warmup);
    }
  }
  return result;
}

/// Last end of a schedule whose messages are latency only: candidates are compared by it.
std::int64_t makespan(const Schedule& schedule, const PipelineTimes& times) {
  OutputTimes outputs(schedule, times.latency);
  std::vector<std::int64_t> free_at(schedule.actions.size(), 0);
  run_order(schedule, [&](int rank, std::size_t index, const Dependencies& d) {
    const auto r = static_cast<std::size_t>(rank);
    const std::int64_t start = std::max(free_at[r], outputs.ready(rank, d));
    free_at[r] = start + duration(schedule, times, rank, schedule.actions[r][index]);
    outputs.record(rank, d, free_at[r]);
  });
  return *std::max_element(free_at.begin(), free_at.end());
}

/// The most forwards that a rank keeps until their weight gradients are done.
int peak_kept(const Schedule& schedule) {
  int peak = 0;
  for (const std::vector<Action>& list : schedule.actions) {
    int kept = 0;
    for (const Action& action : list) {
      if (action.kind == ActionKind::forward) peak = std::max(peak, ++kept);
      if (action.kind == ActionKind::backward_weight) --kept;
    }
  }
  return peak;
}

/// Keeps the shortest schedule within the limit.
class Best {
 public:
  Best(const ScheduleRequest& request, int limit) : request_(request), limit_(limit) {}
  void offer(Schedule schedule) {
    if (peak_kept(schedule) > limit_) return;
    const std::int64_t length = makespan(schedule, uniform_times(schedule, request_.times));
    if (best_ && makespan_ <= length) return;
    best_ = std::move(schedule);
    makespan_ = length;
  }
  Schedule take() {
    TRACECAST_ASSERT(best_.has_value(), "one forward at a time keeps to every limit");
    return std::move(*best_);
  }

 private:
  const ScheduleRequest& request_;
  int limit_;
  std::optional<Schedule> best_;
  std::int64_t makespan_ = 0;
};

Result<Schedule> search(const char* name, const ScheduleRequest& request, double microbatches_in_flight) {
  if (microbatches_in_flight < 1) {
    return fail({.file = {},
                 .line = 0,
                 .key = "memory_limit",
                 .value = {},
                 .message = std::string(name) + " needs memory for at least 1 micro-batch"});
  }
  const int limit = static_cast<int>(std::min<double>(request.microbatches, std::floor(microbatches_in_flight)));
  Best best(request, limit);
  best.offer(*kZbH1.make(request));
  best.offer(*kZbH2.make(request));
  for (const std::vector<int>& warmup : warmups(request, limit)) {
    const Schedule order = one_in_turn(request, warmup);
    const PipelineTimes times = uniform_times(order, request.times);
    for (int quarters = 0; quarters <= 4; ++quarters) {
      best.offer(fill_weight_gradients(order, times, {.inflight_limit = limit, .gap_quarters = quarters}));
    }
  }
  return best.take();
}

double limit_or(const ScheduleRequest& request, int otherwise) {
  return request.memory_limit > 0 ? request.memory_limit : otherwise;
}

Result<Schedule> make_zb_auto(const ScheduleRequest& request) {
  return search("zb-auto", request, limit_or(request, request.microbatches));
}

Result<Schedule> make_zb_auto_1p(const ScheduleRequest& request) {
  return search("zb-auto-1p", request, limit_or(request, request.ranks));
}

Result<Schedule> make_zb_auto_2p(const ScheduleRequest& request) {
  return search("zb-auto-2p", request, limit_or(request, 2 * request.ranks));
}

}  // namespace

constexpr ScheduleVariant kZbAuto{
    .name = "zb-auto",
    .summary = "searched for the given times and memory limit",
    .make = make_zb_auto,
    .uses_times = true,
};

constexpr ScheduleVariant kZbAuto1p{
    .name = "zb-auto-1p",
    .summary = "searched, within P micro-batches of memory as 1F1B",
    .make = make_zb_auto_1p,
    .uses_times = true,
};

constexpr ScheduleVariant kZbAuto2p{
    .name = "zb-auto-2p",
    .aliases = kZbAutoAliases,
    .summary = "searched, within 2P micro-batches of memory",
    .make = make_zb_auto_2p,
    .uses_times = true,
};

}  // namespace tracecast
