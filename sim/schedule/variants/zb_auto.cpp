/// The zero-bubble auto-scheduler: given times, bytes and a memory limit, the best of eight greedy orders.
///
/// First, every rank runs one forward. Second, from the last rank back, each adds forwards until its first input gradient
/// arrives or its memory is full; a rank runs fewer ahead than the rank before it. Third, rounds of one forward and one
/// input gradient per rank follow. A rank that waits for either runs weight gradients, and so does one that needs
/// memory. Fourth, the weight gradients that are left come last. Three choices (struct Choices) make the eight orders;
/// the shortest span of a rank, from its own first start to its own last end, wins, the first found among equals.
///
/// The released scheduler stops there. With unequal ranks its order can take longer than a fixed one. So ZB-H1, ZB-H2 and 1F1B, its
/// backward in two parts, compete where they keep to the limit, and no order wins whose makespan is above the least of theirs,
/// by the times of passes and messages alone.
///
/// The limit is k times the larger forward of ranks 0 and 1, in bytes: a micro-batch that waits for its weight gradient
/// counts only what is left of it. zb-auto-1p has k = P, which 1F1B's rank 0 keeps, zb-auto-2p k = 2P, and zb-auto the k of
/// the request (none: no limit). Requests without bytes keep 2 units from the forward and 1 from the input gradient.
///
/// Two rules are our own, for requests that the released scheduler refuses: a rank can always keep one micro-batch, and
/// where the input gradient leaves more than the forward kept (recomputation), that much is reserved from the forward on.
///
/// Source: sail-sg/zero-bubble-pipeline-parallelism, auto_schedule.py and zb_schedules.py (docs/references.md#zero-bubble);
/// with f, i, w = 2, 3, 1 at P = 4, M = 8 its schedule takes 56. Its integer program is switched off there and left out here.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "sim/base/result.hpp"
#include "sim/schedule/output_times.hpp"
#include "sim/schedule/pipeline_times.hpp"
#include "sim/schedule/placement.hpp"
#include "sim/schedule/run_order.hpp"
#include "sim/schedule/variants.hpp"

namespace tracecast {

namespace {

constexpr std::array<std::string_view, 1> kZbAutoAliases{"ZB2P"};
constexpr RankBytes kUnitBytes{.forward = 2, .weight = 1};

struct Choices {
  bool wait_for_first = false;   ///< no forward that would still run when the first input gradient arrives
  bool delay_forwards = false;   ///< leave out forwards of a round that would delay an input gradient
  bool fill_every_wait = false;  ///< not only the waits of ranks that idle most: with a weight gradient that ends late
};

constexpr std::array<bool, 2> kYesNo{true, false};

/// One rank and what it has done so far.
struct ScheduledRank {
  StageTime time;
  RankBytes bytes;
  double limit = 0;
  std::vector<Action> list = {};
  std::vector<std::int64_t> forward_ends = {};  ///< [micro-batch]
  std::vector<std::int64_t> input_ends = {};    ///< [micro-batch] of input gradients
  int weights = 0;
  std::int64_t free_at = 0;
  std::int64_t idle = 0;  ///< after its first forward

  int forwards() const { return static_cast<int>(forward_ends.size()); }
  int inputs() const { return static_cast<int>(input_ends.size()); }
  bool has_weight() const { return weights < inputs(); }
  /// Is there memory for so many forwards and weight gradients in all? Multiplied out anew, so that nothing drifts.
  bool fits(int all_forwards, int all_weights) const {
    return (all_forwards - inputs()) * bytes.forward + (inputs() - all_weights) * bytes.weight <= limit;
  }

  void put(const Action& action, std::int64_t arrival, std::int64_t duration) {
    const std::int64_t start = std::max(free_at, arrival);
    if (!list.empty()) idle += start - free_at;
    free_at = start + duration;
    list.push_back(action);
  }
  void put_forward(std::int64_t arrival) {
    TRACECAST_ASSERT(fits(forwards() + 1, weights), "a forward keeps to the limit");
    put(forward(0, forwards()), arrival, time.forward);
    forward_ends.push_back(free_at);
  }
  void put_input(std::int64_t arrival) {
    put(backward_input(0, inputs()), arrival, time.backward_input);
    input_ends.push_back(free_at);
  }
  void put_weight() {
    TRACECAST_ASSERT(has_weight(), "the limit leaves memory for one micro-batch");
    put(backward_weight(0, weights), free_at, time.backward_weight);
    ++weights;
  }
  std::int64_t span() const { return free_at - (forward_ends.front() - time.forward); }
};

/// The most that a rank keeps with this list.
double peak_bytes(const std::vector<Action>& list, const RankBytes& bytes) {
  std::int64_t forwards = 0, weights = 0;  // kept until their input gradient, and from then on
  double peak = 0;
  for (const Action& action : list) {
    forwards += action.kind == ActionKind::forward ? 1 : action.kind == ActionKind::backward_input ? -1 : 0;
    weights += action.kind == ActionKind::backward_input ? 1 : action.kind == ActionKind::backward_weight ? -1 : 0;
    peak = std::max(peak, static_cast<double>(forwards) * bytes.forward + static_cast<double>(weights) * bytes.weight);
  }
  return peak;
}

/// Every backward as an input gradient and at once its weight gradient.
Schedule with_split_backwards(Schedule schedule) {
  for (std::vector<Action>& list : schedule.actions) {
    std::vector<Action> split;
    for (const Action& action : list) {
      const bool whole = action.kind == ActionKind::backward;
      split.push_back(whole ? backward_input(action.chunk, action.microbatch) : action);
      if (whole) split.push_back(backward_weight(action.chunk, action.microbatch));
    }
    list = std::move(split);
  }
  return schedule;
}

/// Of the first two ranks, as in the released scheduler, and at least the median: frozen ranks keep nearly nothing.
double typical_forward_bytes(const std::vector<ScheduledRank>& ranks) {
  std::vector<double> bytes;
  for (const ScheduledRank& rank : ranks) bytes.push_back(rank.bytes.forward);
  const double first = std::max(bytes[0], bytes[bytes.size() > 1 ? 1 : 0]);
  const auto median = bytes.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2);
  std::ranges::nth_element(bytes, median);
  return std::max(first, *median);
}

std::vector<ScheduledRank> ranks_of(const ScheduleRequest& request, double microbatches_in_flight) {
  std::vector<ScheduledRank> ranks(static_cast<std::size_t>(request.ranks));
  TRACECAST_ASSERT(request.rank_times.empty() || request.rank_times.size() == ranks.size(), "every rank has a time");
  TRACECAST_ASSERT(request.rank_bytes.empty() || request.rank_bytes.size() == ranks.size(), "every rank has bytes");
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const ScheduleTimes& same = request.times;
    ranks[r].time = request.rank_times.empty() ? StageTime{same.forward, same.backward_input, same.backward_weight}
                                               : request.rank_times[r];
    ranks[r].bytes = request.rank_bytes.empty() ? kUnitBytes : request.rank_bytes[r];
    ranks[r].bytes.forward = std::max(ranks[r].bytes.forward, ranks[r].bytes.weight);
  }
  const double limit = microbatches_in_flight * typical_forward_bytes(ranks);
  for (ScheduledRank& rank : ranks) rank.limit = std::max(limit, rank.bytes.forward);
  return ranks;
}

/// A whole order and its times.
struct Order {
  std::vector<std::vector<Action>> actions;
  std::int64_t makespan = 0;
  std::int64_t longest_span = 0;
};

class Greedy {
 public:
  Greedy(std::vector<ScheduledRank> ranks, const ScheduleRequest& request, const Choices& choices)
      : ranks_(std::move(ranks)),
        latency_(request.times.latency),
        microbatches_(request.microbatches),
        choices_(choices) {
    warm_up();
    for (int round = 1; round < microbatches_; ++round) {
      put_forwards();
      put_inputs();
    }
    for (ScheduledRank& rank : ranks_) {
      while (rank.has_weight()) rank.put_weight();
    }
  }

  Order take() {
    Order order;
    for (ScheduledRank& rank : ranks_) {
      order.makespan = std::max(order.makespan, rank.free_at);
      order.longest_span = std::max(order.longest_span, rank.span());
      order.actions.push_back(std::move(rank.list));
    }
    return order;
  }

 private:
  bool is_last(std::size_t r) const { return r + 1 == ranks_.size(); }

  /// Of the rank's next forward.
  std::int64_t forward_arrival(std::size_t r) const {
    return r == 0 ? 0 : ranks_[r - 1].forward_ends[ranks_[r].forward_ends.size()] + latency_;
  }
  /// Of the gradient that its next input gradient reads.
  std::int64_t gradient_arrival(std::size_t r) const {
    return is_last(r) ? 0 : ranks_[r + 1].input_ends[ranks_[r].input_ends.size()] + latency_;
  }

  void put_forward(std::size_t r) {
    ranks_[r].put_forward(forward_arrival(r));
    longest_idle_ = std::max(longest_idle_, ranks_[r].idle);
  }
  void put_input(std::size_t r) {
    ranks_[r].put_input(gradient_arrival(r));
    longest_idle_ = std::max(longest_idle_, ranks_[r].idle);
  }

  void warm_up() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) put_forward(r);
    std::vector<int> ahead = forwards_ahead();
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      // Fewer than the rank before, unless that one has run all of them.
      if (r > 0 && (ahead[r] < microbatches_ || ahead[r - 1] < microbatches_))
        ahead[r] = std::max(1, std::min(ahead[r], ahead[r - 1] - 1));
      while (ranks_[r].forwards() < ahead[r]) put_forward(r);
    }
    for (std::size_t r = ranks_.size(); r-- > 0;) put_input(r);
  }

  /// [rank] forwards until its first input gradient, by the times and the memory of that rank alone.
  std::vector<int> forwards_ahead() const {
    std::vector<int> ahead(ranks_.size(), 1);
    std::int64_t arrival = 0;
    for (std::size_t r = ranks_.size(); r-- > 0;) {
      const ScheduledRank& rank = ranks_[r];
      std::int64_t end = rank.free_at;
      const auto runs_another = [&] {
        if (is_last(r) || ahead[r] == microbatches_ || !rank.fits(ahead[r] + 1, 0)) return false;
        return choices_.wait_for_first ? end + rank.time.forward <= arrival : end < arrival;
      };
      while (runs_another()) {
        end += rank.time.forward;
        ++ahead[r];
      }
      arrival = std::max(end, arrival) + rank.time.backward_input + latency_;
    }
    return ahead;
  }

  /// One forward of every rank that has one left, unless that rank or one behind it leaves it out.
  void put_forwards() {
    std::size_t begin = ranks_.size();
    while (begin > 0 && runs_forward(begin - 1)) --begin;
    for (std::size_t r = begin; r < ranks_.size(); ++r) {
      ScheduledRank& rank = ranks_[r];
      while (!rank.fits(rank.forwards() + 1, rank.weights)) rank.put_weight();
      if (r > 0) fill_wait(rank, forward_arrival(r));
      put_forward(r);
    }
  }

  bool runs_forward(std::size_t r) const {
    const ScheduledRank& rank = ranks_[r];
    if (rank.forwards() >= microbatches_) return false;
    if (!choices_.delay_forwards || is_last(r)) return true;
    const ScheduledRank& next = ranks_[r + 1];
    if (rank.forwards() < next.forwards() + 2) return true;
    const std::int64_t arrival = next.free_at + next.time.forward + next.time.backward_input + latency_;
    if (rank.free_at >= arrival) return false;
    if (end_of_forward(rank) <= arrival) return true;
    return arrival - rank.free_at > longest_idle_ - rank.idle;
  }

  /// After the weight gradients that make space for it.
  static std::int64_t end_of_forward(const ScheduledRank& rank) {
    int done = rank.weights;
    while (done < rank.inputs() && !rank.fits(rank.forwards() + 1, done)) ++done;
    return rank.free_at + (done - rank.weights) * rank.time.backward_weight + rank.time.forward;
  }

  void put_inputs() {
    for (std::size_t r = ranks_.size(); r-- > 0;) {
      ScheduledRank& rank = ranks_[r];
      if (!is_last(r)) fill_wait(rank, gradient_arrival(r));
      // Nobody waits for the first rank's last input gradients.
      while (r == 0 && rank.forwards() == microbatches_ && rank.has_weight()) rank.put_weight();
      put_input(r);
    }
  }

  /// Weight gradients that end before `arrival`, and one that ends later where the rank would idle longer than any.
  void fill_wait(ScheduledRank& rank, std::int64_t arrival) const {
    while (rank.has_weight() && rank.free_at + rank.time.backward_weight <= arrival) rank.put_weight();
    if (!rank.has_weight() || rank.free_at >= arrival) return;
    const bool idles_longest = arrival - rank.free_at > longest_idle_ - rank.idle;
    if (idles_longest || choices_.fill_every_wait) rank.put_weight();
  }

  std::vector<ScheduledRank> ranks_;
  std::int64_t latency_;
  int microbatches_;
  Choices choices_;
  std::int64_t longest_idle_ = 0;
};

Order timed(Schedule schedule, const std::vector<ScheduledRank>& ranks, std::int64_t latency) {
  PipelineTimes times{.stages = {}, .latency = latency, .overlapped = {}, .scale = 1};
  for (const ScheduledRank& rank : ranks) times.stages.push_back(rank.time);
  OutputTimes outputs(schedule, latency);
  std::vector<std::int64_t> starts(ranks.size()), ends(ranks.size());
  run_order(schedule, [&](int rank, std::size_t index, const Dependencies& d) {
    const auto r = static_cast<std::size_t>(rank);
    const std::int64_t start = std::max(ends[r], outputs.ready(rank, d));
    if (index == 0) starts[r] = start;
    ends[r] = start + duration(schedule, times, rank, schedule.actions[r][index]);
    outputs.record(rank, d, ends[r]);
  });
  Order order{.actions = std::move(schedule.actions), .makespan = *std::ranges::max_element(ends), .longest_span = 0};
  for (std::size_t r = 0; r < ends.size(); ++r) order.longest_span = std::max(order.longest_span, ends[r] - starts[r]);
  return order;
}

bool fits(const Schedule& schedule, const std::vector<ScheduledRank>& ranks) {
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (peak_bytes(schedule.actions[r], ranks[r].bytes) > ranks[r].limit) return false;
  return true;
}

/// The fixed orders within the limits, and the shortest makespan of those that they come from: with whole backwards 1F1B is no shorter
/// than in two parts, so at least one of `orders` keeps to it.
struct FixedOrders {
  std::vector<Order> orders;
  std::int64_t makespan = std::numeric_limits<std::int64_t>::max();
};

FixedOrders fixed_orders(const std::vector<ScheduledRank>& ranks, const ScheduleRequest& request) {
  FixedOrders fixed;
  for (const ScheduleVariant* variant : {&kZbH1, &kZbH2, &k1f1b}) {
    const Schedule published = *variant->make(request);  // they take every request
    const Schedule split = with_split_backwards(published);
    if (!fits(split, ranks)) continue;
    const Order& order = fixed.orders.emplace_back(timed(split, ranks, request.times.latency));
    const bool same = split.actions == published.actions;
    fixed.makespan =
        std::min(fixed.makespan, same ? order.makespan : timed(published, ranks, request.times.latency).makespan);
  }
  return fixed;
}

Result<Schedule> search(const char* name, const ScheduleRequest& request, double microbatches_in_flight) {
  if (microbatches_in_flight < 1)
    return fail_key("memory_limit", fmt::format("{}", request.memory_limit),
                    std::string(name) + " needs memory for at least 1 micro-batch");
  const std::vector<ScheduledRank> ranks = ranks_of(request, microbatches_in_flight);
  FixedOrders fixed = fixed_orders(ranks, request);
  std::optional<Order> best;
  const auto consider = [&](Order order) {
    if (order.makespan > fixed.makespan) return;
    if (!best || order.longest_span < best->longest_span) best = std::move(order);
  };
  for (const bool wait_for_first : kYesNo) {
    for (const bool delay_forwards : kYesNo) {
      for (const bool fill_every_wait : kYesNo)
        consider(Greedy(ranks, request, {wait_for_first, delay_forwards, fill_every_wait}).take());
    }
  }
  for (Order& order : fixed.orders) consider(std::move(order));
  Schedule schedule = start_schedule(request, loop_placement(request.ranks, 1));
  schedule.actions = std::move(best->actions);
  return schedule;
}

double limit_or(const ScheduleRequest& request, double otherwise) {
  return request.memory_limit > 0 ? request.memory_limit : otherwise;
}

Result<Schedule> make_zb_auto(const ScheduleRequest& request) {
  return search("zb-auto", request, limit_or(request, std::numeric_limits<double>::max()));
}

Result<Schedule> make_zb_auto_1p(const ScheduleRequest& request) {
  return search("zb-auto-1p", request, limit_or(request, request.ranks));
}

Result<Schedule> make_zb_auto_2p(const ScheduleRequest& request) {
  return search("zb-auto-2p", request, limit_or(request, 2.0 * request.ranks));
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
